package identity_test

import (
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/identity"
	"muster/internal/trust"
)

// holds says whether a terminal that has seen messages up to a time of
// headquarters believes what the signer says at another.
func holds(t *testing.T, id *identity.Identity, signer *trust.Signer, at, proven time.Time) bool {
	t.Helper()
	return believed(t, id, signer, at) && (proven.Before(at) || believed(t, id, signer, proven))
}

// TestAClockThatIsSetBackLeavesAKeyThatTerminalsBelieve: in the running process and
// after a restart, whatever was rotated before, and no key that had ended counts
// again.
func TestAClockThatIsSetBackLeavesAKeyThatTerminalsBelieve(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	for name, c := range map[string]struct {
		rotated    bool
		atOnce     bool
		before, to time.Duration // where headquarters' clock stood, and stands, since the rotation
		listedAnew bool
		oldMaySign bool
		alsoPruned bool
	}{
		"nothing was rotated":                {before: hour, to: -26 * hour, listedAnew: true, oldMaySign: true},
		"rotated at once":                    {rotated: true, atOnce: true, before: hour, to: -hour, listedAnew: true},
		"rotated at once, within the slack":  {rotated: true, atOnce: true, before: hour, to: -time.Minute},
		"before the turn":                    {rotated: true, before: 2 * hour, to: hour, oldMaySign: true},
		"after the turn":                     {rotated: true, before: 25 * hour, to: 23 * hour, oldMaySign: true},
		"after the old key's end":            {rotated: true, before: 49 * hour, to: 23 * hour, listedAnew: true},
		"after the old key's end, pruned":    {rotated: true, before: 49 * hour, to: 23 * hour, listedAnew: true, alsoPruned: true},
		"after the old key's end, not below": {rotated: true, before: 49 * hour, to: 47 * hour},
		"before the rotation":                {rotated: true, before: 49 * hour, to: 2 * hour, listedAnew: true},
	} {
		for _, restarted := range []bool{false, true} {
			folder := create(t)
			id := open(t, folder, start)
			old := id.Signer(start)
			if c.rotated {
				if _, err := id.Replace(identity.Rotation{AtOnce: c.atOnce}, start); err != nil {
					t.Fatal(err)
				}
			}
			before, now := start.Add(c.before), start.Add(c.to)
			id.Signer(before)
			if c.alsoPruned {
				if pruned, err := id.Prune(before); err != nil || !pruned {
					t.Fatal(pruned, err)
				}
			}
			if restarted {
				id = open(t, folder, now)
				id.Reached(before) // the numbers say so
			}
			version := id.Keys().Version
			changed, err := id.Relist(now)
			if err != nil || changed != c.listedAnew || changed != (id.Keys().Version == version+1) {
				t.Errorf("%s, restarted %t: listed anew %t, %v", name, restarted, changed, err)
			}
			signer := id.Signer(now)
			if !holds(t, id, signer, now, before) {
				t.Errorf("%s, restarted %t: terminals refuse what is signed", name, restarted)
			}
			if (signer.KeyID() == old.KeyID()) != c.oldMaySign {
				t.Errorf("%s, restarted %t: the old key signs", name, restarted)
			}
			if !c.oldMaySign && holds(t, id, old, now, before) {
				t.Errorf("%s, restarted %t: the old key is believed again", name, restarted)
			}
			if again := open(t, folder, now); again.Keys().At.Before(start) || again.Keys().Version != id.Keys().Version {
				t.Errorf("%s: the folder holds %+v", name, again.Keys())
			}
		}
	}
}

// TestAKeyThatCannotBeListedAnewIsSaid, with what to do, and is when it can.
func TestAKeyThatCannotBeListedAnewIsSaid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, keyThatCannotBeListed)
}

func keyThatCannotBeListed(t *testing.T) {
	folder := create(t)
	id := open(t, folder, start)
	path := filepath.Join(folder, identity.FileAuthorityKey)
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	past := start.Add(-time.Hour)
	changed, err := id.Relist(past)
	wantError(t, err, "headquarters' clock shows 2026-03-01T07:00:00Z", "from 2026-03-01T07:55:00Z", "set the clock", "put ca.key back into "+folder)
	if changed || id.Keys().Version != 1 {
		t.Error("the list changed")
	}
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	if changed, err := id.Relist(past); changed || err != nil {
		t.Error("tried at once again:", changed, err)
	}
	time.Sleep(time.Minute)
	if changed, err := id.Relist(past); !changed || err != nil {
		t.Error(changed, err)
	}
}

// TestCertificatesAreGoodAfterTheClockIsSetBack, as far as a start is allowed.
func TestCertificatesAreGoodAfterTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	folder := create(t)
	id := open(t, folder, start)
	terminal, _, err := id.Issue(request(t, newKey(t)), trust.Holder{Store: "0001", Terminal: "pos-1"}, 0, start)
	if err != nil {
		t.Fatal(err)
	}
	client, err := trust.DecodeCertificate(terminal)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(id.Certificate())
	for who, cert := range map[string]*x509.Certificate{"terminal": client, "server": leaf(t, folder)} {
		for back, good := range map[time.Duration]bool{47 * time.Hour: true, 49 * time.Hour: false} {
			_, err := cert.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: start.Add(-back), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
			if invalid := (x509.CertificateInvalidError{}); good != (err == nil) || err != nil && !errors.As(err, &invalid) {
				t.Errorf("%s, %s back: %v", who, back, err)
			}
		}
	}
	short, err := id.Draft(request(t, newKey(t)), time.Hour, start)
	if err != nil || !short.NotBefore.Equal(start.Add(-time.Hour)) {
		t.Errorf("a short one begins at %s, %v", short.NotBefore, err)
	}
}

// TestAListIsAnnouncedBeforeItIsSignedBy, whoever else signs at that moment and for
// whatever reason the list is another one: what a terminal hears before it, it refuses.
func TestAListIsAnnouncedBeforeItIsSignedBy(t *testing.T) {
	t.Parallel()
	past := start.Add(-time.Hour)
	relist := func(id *identity.Identity) error { _, err := id.Relist(past); return err }
	replace := func(id *identity.Identity) error {
		_, err := id.Replace(identity.Rotation{AtOnce: true}, start)
		return err
	}
	for name, c := range map[string]struct {
		change, sign func(*identity.Identity) error
	}{
		"the clock is set back":         {relist, relist},
		"the keys are replaced at once": {replace, func(*identity.Identity) error { return nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := open(t, create(t), start)
			var said atomic.Bool
			signed := make(chan error, 1)
			id.Announce(func(list trust.Sealed) {
				if document, err := list.Open(id.Certificate()); err != nil || document.Version != 2 || said.Load() {
					t.Errorf("version %d is announced, %v; said before: %t", document.Version, err, said.Load())
				}
				go func() {
					err := c.sign(id)
					if by := id.Keys().Version; by == 2 && !said.Load() {
						t.Error("somebody signs by a list that is not announced yet")
					}
					signed <- err
				}()
				time.Sleep(50 * time.Millisecond) // for whoever would not wait
				said.Store(true)
			})
			if err := errors.Join(c.change(id), <-signed); err != nil {
				t.Fatal(err)
			}
			if !said.Load() || id.Keys().Version != 2 {
				t.Errorf("announced: %t, version %d", said.Load(), id.Keys().Version)
			}
		})
	}
}
