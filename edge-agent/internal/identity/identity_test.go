package identity_test

import (
	"crypto/ed25519"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"muster/edge-agent/internal/hqtest"
	"muster/edge-agent/internal/identity"
	"muster/internal/trust"
)

var holder = trust.Holder{Store: "007", Terminal: "pos-1"}

func open(t *testing.T, folder string) *identity.Identity {
	t.Helper()
	id, err := identity.Open(folder, holder.Store, holder.Terminal, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func read(t *testing.T, path ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestWhatWasEnrolledOpens(t *testing.T) {
	t.Parallel()
	hq := hqtest.New(t)
	id := open(t, hq.Enrolled("007", "pos-1"))
	leaf := id.Certificate().Leaf
	public, ok := leaf.PublicKey.(ed25519.PublicKey)
	if !ok || id.Signer().KeyID() != trust.KeyID(public) {
		t.Error("the signing key is not the certificate's")
	}
	if err := id.Signer().Sign("t", []byte("{}")).Verify(public, "t", []byte("{}")); err != nil {
		t.Error(err)
	}
	if d := id.Document(); d.Version != 1 || len(d.Keys) != 1 || d.Keys[0].KeyID != hq.Key.KeyID() {
		t.Errorf("document %+v", d)
	}
	if id.EnrolmentURL() != "https://127.0.0.1:1" || id.Holder() != holder {
		t.Errorf("url %s, holder %+v", id.EnrolmentURL(), id.Holder())
	}
}

func TestAFolderThatOthersMayReadIsRefused(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows keeps rights elsewhere")
	}
	hq := hqtest.New(t)
	for _, name := range []string{"", "terminal.key", "terminal.crt", "ca.crt", "trust.json", "headquarters.json"} {
		folder := hq.Enrolled("007", "pos-1")
		path := filepath.Join(folder, name)
		info, err := os.Stat(path)
		if err == nil {
			err = os.Chmod(path, info.Mode().Perm()|0o040)
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = identity.Open(folder, "007", "pos-1", time.Now())
		if !errors.Is(err, trust.ErrOpenToOthers) || !strings.Contains(err.Error(), "chmod") {
			t.Errorf("%q open to the group: %v", name, err)
		}
	}
}

func TestAnIdentityThatIsNotThisTerminalsIsRefused(t *testing.T) {
	t.Parallel()
	hq, other := hqtest.New(t), hqtest.New(t)
	now := time.Now()
	for name, tc := range map[string]struct {
		spoil           func(folder string)
		store, terminal string
		at              time.Time
		is              error
		want            string
	}{
		"other store":    {nil, "008", "pos-1", now, nil, "not for terminal pos-1 of store 008"},
		"other terminal": {nil, "007", "pos-2", now, nil, "not for terminal pos-2 of store 007"},
		"ended":          {nil, "007", "pos-1", now.Add(91 * 24 * time.Hour), identity.ErrEnded, "enroll --force"},
		"other key": {func(folder string) {
			copyFile(t, filepath.Join(hq.Enrolled("007", "pos-1"), "terminal.key"), filepath.Join(folder, "terminal.key"))
		}, "007", "pos-1", now, nil, "belongs to another key"},
		"other authority": {func(folder string) {
			copyFile(t, filepath.Join(other.Enrolled("007", "pos-1"), "ca.crt"), filepath.Join(folder, "ca.crt"))
		}, "007", "pos-1", now, nil, "not of the authority"},
		"other list": {func(folder string) {
			copyFile(t, filepath.Join(other.Enrolled("007", "pos-1"), "trust.json"), filepath.Join(folder, "trust.json"))
		}, "007", "pos-1", now, nil, "trust.json: cannot trust"},
		"no authority":        {func(folder string) { remove(t, filepath.Join(folder, "ca.crt")) }, "007", "pos-1", now, fs.ErrNotExist, "ca.crt" + damaged},
		"no address":          {func(folder string) { remove(t, filepath.Join(folder, "headquarters.json")) }, "007", "pos-1", now, fs.ErrNotExist, "headquarters.json" + damaged},
		"no list":             {func(folder string) { remove(t, filepath.Join(folder, "trust.json")) }, "007", "pos-1", now, fs.ErrNotExist, "trust.json" + damaged},
		"damaged authority":   {func(folder string) { write(t, "x", folder, "ca.crt") }, "007", "pos-1", now, nil, "ca.crt" + damaged},
		"empty authority":     {func(folder string) { write(t, "", folder, "ca.crt") }, "007", "pos-1", now, nil, "ca.crt" + damaged},
		"damaged address":     {func(folder string) { write(t, "{", folder, "headquarters.json") }, "007", "pos-1", now, nil, "headquarters.json" + damaged},
		"an address of none":  {func(folder string) { write(t, "{}", folder, "headquarters.json") }, "007", "pos-1", now, nil, "headquarters.json" + damaged},
		"damaged list":        {func(folder string) { write(t, "{", folder, "trust.json") }, "007", "pos-1", now, nil, "trust.json" + damaged},
		"a list that is none": {func(folder string) { write(t, "{}", folder, "trust.json") }, "007", "pos-1", now, nil, "trust.json" + damaged},
		"no certificate": {func(folder string) { remove(t, filepath.Join(folder, "terminal.crt")) },
			"007", "pos-1", now, identity.ErrNone, "edge-agent enroll"},
		"no folder": {func(folder string) {
			if err := os.RemoveAll(folder); err != nil {
				t.Fatal(err)
			}
		}, "007", "pos-1", now, identity.ErrNone, "edge-agent enroll"},
	} {
		folder := hq.Enrolled("007", "pos-1")
		if tc.spoil != nil {
			tc.spoil(folder)
		}
		_, err := identity.Open(folder, tc.store, tc.terminal, tc.at)
		want, again := strings.CutSuffix(tc.want, damaged)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), folder) || again && !strings.HasSuffix(err.Error(), damaged) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
		if tc.is != nil && !errors.Is(err, tc.is) {
			t.Errorf("%s: %v is not %v", name, err, tc.is)
		}
	}
}

// damaged is what every file that headquarters sent and that cannot be used any
// more says behind its name.
const damaged = "; ask headquarters for a new token and run: edge-agent enroll --force"

func write(t *testing.T, content string, path ...string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(path...), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestATerminalWhoseClockIsWrongStillReachesHeadquarters: the battery of its clock
// is dead, or the clock is a day off.
func TestATerminalWhoseClockIsWrongStillReachesHeadquarters(t *testing.T) {
	t.Parallel()
	hq, other := hqtest.New(t), hqtest.New(t)
	now := time.Now()
	for name, clock := range map[string]time.Time{"1970": time.Unix(100, 0), "behind": now.Add(-26 * time.Hour), "right": now, "ahead": now.Add(26 * time.Hour)} {
		id, err := identity.Open(hq.Enrolled("007", "pos-1"), "007", "pos-1", clock)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if behind := id.Behind(clock); (behind > time.Hour) != clock.Before(now.Add(-2*time.Hour)) {
			t.Errorf("%s: behind by %v", name, behind)
		}
		for what, tc := range map[string]struct {
			server tls.Certificate
			host   string
			want   string // "" is believed
		}{
			"good":              {hq.Server(now.Add(-time.Hour), now.Add(48*time.Hour)), "127.0.0.1", ""},
			"renewed since":     {hq.Server(now, now.Add(48*time.Hour)), "127.0.0.1", ""},
			"ended":             {hq.Server(now.Add(-9*time.Hour), now.Add(-8*time.Hour)), "127.0.0.1", "expired"},
			"another authority": {other.Server(now.Add(-time.Hour), now.Add(48*time.Hour)), "127.0.0.1", "unknown authority"},
			"another host":      {hq.Server(now.Add(-time.Hour), now.Add(48*time.Hour)), "hq.example", "wanted to match hq.example"},
		} {
			err := handshake(t, id, clock, tc.server, tc.host)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("clock %s, server %s: %v, want %q", name, what, err, tc.want)
			}
		}
	}
}

// handshake is one over a real connection, at a time of the terminal's clock.
func handshake(t *testing.T, id *identity.Identity, clock time.Time, server tls.Certificate, host string) error {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{server}})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_, _ = conn.Read(make([]byte, 1)) // which shakes hands
			_ = conn.Close()
		}
	}()
	config := &tls.Config{MinVersion: tls.VersionTLS13, ServerName: host, Time: func() time.Time { return clock }}
	id.Prove(config, host)
	conn, err := tls.Dial("tcp", listener.Addr().String(), config)
	if err == nil {
		_ = conn.Close()
	}
	return err
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	if err := os.WriteFile(to, read(t, from), 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func seal(t *testing.T, sealed trust.Sealed) []byte {
	t.Helper()
	text, err := json.Marshal(sealed)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestAListOfKeysIsTakenWhenSealedAndNewerAndOutlivesARestart(t *testing.T) {
	t.Parallel()
	hq, other := hqtest.New(t), hqtest.New(t)
	folder := hq.Enrolled("007", "pos-1")
	id := open(t, folder)
	_, second := hq.NewKey(time.Now(), time.Now().Add(time.Hour))
	if taken, err := id.Take(seal(t, hq.Seal(3, hq.Listed, second))); err != nil || !taken {
		t.Fatalf("taken %t, %v", taken, err)
	}
	altered := hq.Seal(4, second)
	altered.Document = strings.Replace(altered.Document, `"version":4`, `"version":5`, 1)
	for name, payload := range map[string][]byte{
		"empty": nil, "no JSON": []byte("x"), "unsealed": []byte("{}"),
		"sealed by another": seal(t, other.Seal(9, second)), "altered": seal(t, altered),
	} {
		if taken, err := id.Take(payload); err == nil || taken {
			t.Errorf("%s: taken %t, %v", name, taken, err)
		}
	}
	if taken, err := id.Take(seal(t, hq.Seal(2, second))); !errors.Is(err, identity.ErrOldDocument) || taken {
		t.Errorf("an older one: taken %t, %v", taken, err)
	}
	if taken, err := id.Take(seal(t, hq.Seal(3, second))); err != nil || taken {
		t.Errorf("the same version: taken %t, %v", taken, err)
	}
	for _, id := range []*identity.Identity{id, open(t, folder)} {
		if d := id.Document(); d.Version != 3 || len(d.Keys) != 2 {
			t.Errorf("document %+v", d)
		}
	}
}

func TestAListThatCannotBeKeptIsNotUsed(t *testing.T) {
	t.Parallel()
	hq := hqtest.New(t)
	folder := hq.Enrolled("007", "pos-1")
	id := open(t, folder)
	// A folder stands where the file should go: nothing can be renamed over it.
	remove(t, filepath.Join(folder, "trust.json"))
	if err := os.MkdirAll(filepath.Join(folder, "trust.json", "in-the-way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if taken, err := id.Take(seal(t, hq.Seal(2, hq.Listed))); !errors.Is(err, identity.ErrUnkept) || taken || id.Document().Version != 1 {
		t.Errorf("taken %t, %v, version %d", taken, err, id.Document().Version)
	}
}

// TestARenewalCutOffAnywhereLeavesAMatchingPair stops behind each of the steps
// in which a new pair comes.
func TestARenewalCutOffAnywhereLeavesAMatchingPair(t *testing.T) {
	t.Parallel()
	hq := hqtest.New(t)
	fresh := hq.Enrolled("007", "pos-1") // a key and a certificate to renew to
	newKey, newCert := read(t, fresh, "terminal.key"), read(t, fresh, "terminal.crt")
	newID := open(t, fresh).Signer().KeyID()
	for name, tc := range map[string]struct {
		files map[string][]byte
		isNew bool
	}{
		"before the first":  {nil, false},
		"key only":          {map[string][]byte{"next.key": newKey}, false},
		"key, certificate":  {map[string][]byte{"next.key": newKey, "next.crt": newCert}, true},
		"key in its place":  {map[string][]byte{"terminal.key": newKey, "next.crt": newCert}, true},
		"both in place":     {map[string][]byte{"terminal.key": newKey, "terminal.crt": newCert}, true},
		"a key of the next": {map[string][]byte{"terminal.key": newKey, "next.crt": newCert, "next.key": read(t, hq.Enrolled("007", "pos-1"), "terminal.key")}, true},
	} {
		folder := hq.Enrolled("007", "pos-1")
		oldID := open(t, folder).Signer().KeyID()
		for file, content := range tc.files {
			if err := os.WriteFile(filepath.Join(folder, file), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want := oldID
		if tc.isNew {
			want = newID
		}
		for range 2 { // what the first opening tidied opens again
			if got := open(t, folder).Signer().KeyID(); got != want {
				t.Errorf("%s: key %s, want %s (old %s, new %s)", name, got, want, oldID, newID)
			}
		}
	}
}

func TestAReplacedPairIsUsedAtOnceAndAfterARestart(t *testing.T) {
	t.Parallel()
	hq := hqtest.New(t)
	folder := hq.Enrolled("007", "pos-1")
	id := open(t, folder)
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	id.Prove(config, "127.0.0.1")
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	wrong := hq.Issue(public, trust.Holder{Store: "008", Terminal: "pos-1"}, now, now.Add(time.Hour))
	before := id.Signer().KeyID()
	if err := id.Replace(private, wrong, now); err == nil || id.Signer().KeyID() != before {
		t.Errorf("a certificate of another store: %v", err)
	}
	if err := id.Replace(private, hq.Issue(public, holder, now.Add(-time.Minute), now.Add(time.Hour)), now); err != nil {
		t.Fatal(err)
	}
	shown, err := config.GetClientCertificate(nil)
	if err != nil || !public.Equal(shown.Leaf.PublicKey) {
		t.Errorf("the handshake shows the old certificate: %v", err)
	}
	for _, id := range []*identity.Identity{id, open(t, folder)} {
		if id.Signer().KeyID() != trust.KeyID(public) {
			t.Error("the old key still signs")
		}
	}
	if _, err := os.Stat(filepath.Join(folder, "next.key")); err == nil {
		t.Error("next.key was left behind")
	}
}

// TestWhatACrashLeftOfAKeyIsRemoved at a start, and by a renewal, since a terminal
// may start once a year.
func TestWhatACrashLeftOfAKeyIsRemoved(t *testing.T) {
	t.Parallel()
	hq := hqtest.New(t)
	folder := hq.Enrolled("007", "pos-1")
	left := filepath.Join(folder, ".next.key.123456")
	crash := func() {
		write(t, "half a key", left)
		then := time.Now().Add(-time.Hour)
		if err := os.Chtimes(left, then, then); err != nil {
			t.Fatal(err)
		}
	}
	wantGone := func(by string) {
		if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s leaves it: %v", by, err)
		}
	}
	crash()
	id := open(t, folder)
	wantGone("a start")
	crash()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	if err := id.Replace(private, hq.Issue(public, holder, now.Add(-time.Minute), now.Add(time.Hour)), now); err != nil {
		t.Fatal(err)
	}
	wantGone("a renewal")
}
