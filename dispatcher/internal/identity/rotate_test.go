package identity_test

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"muster/dispatcher/internal/identity"
	"muster/internal/trust"
)

func unix(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }

// believed says whether a terminal that holds the list takes what the signer
// says at a time.
func believed(t *testing.T, id *identity.Identity, signer *trust.Signer, at time.Time) bool {
	t.Helper()
	document, err := id.Sealed().Open(id.Certificate())
	if err != nil {
		t.Fatal(err)
	}
	key, err := document.Verify("t", []byte("{}"), signer.Sign("t", []byte("{}")))
	return err == nil && key.Covers(at)
}

func TestRotationSwitchesAfterTheOverlapAndBelievesBothMeanwhile(t *testing.T) {
	folder := create(t)
	id := open(t, folder, start)
	old := id.Signer(start)
	if err := rotate(id, 0, start); err != nil {
		t.Fatal(err)
	}
	if keys := id.Keys(); keys.Version != 2 || len(keys.Keys) != 2 {
		t.Fatalf("after the rotation: %+v", keys)
	}
	before, turn := start.Add(24*time.Hour-time.Second), start.Add(24*time.Hour)
	if id.Signer(before).KeyID() != old.KeyID() || id.Signer(turn).KeyID() == old.KeyID() {
		t.Fatal("the keys do not switch at the end of the overlap")
	}
	next := id.Signer(turn)
	if believed(t, id, next, before) || !believed(t, id, next, turn) {
		t.Error("the new key counts before its time, or not at it")
	}
	end := turn.Add(24 * time.Hour)
	if !believed(t, id, old, end) || believed(t, id, old, end.Add(time.Second)) {
		t.Error("the old key does not end one overlap after the switch")
	}
	if err := rotate(id, 0, before); !errors.Is(err, identity.ErrRotating) {
		t.Errorf("a second rotation meanwhile: %v", err)
	}
	if changed, err := id.Prune(end); changed || err != nil {
		t.Fatalf("pruned too early: %t, %v", changed, err)
	}
	// A restart in the middle finds the same keys.
	if again := open(t, folder, turn); again.Signer(turn).KeyID() != next.KeyID() || again.Signer(before).KeyID() != old.KeyID() {
		t.Error("a restart changes who signs")
	}
	if changed, err := id.Prune(end.Add(time.Second)); !changed || err != nil {
		t.Fatalf("pruned: %t, %v", changed, err)
	}
	if believed(t, id, old, turn) || id.Keys().Version != 3 {
		t.Error("the old key is still listed")
	}
	if _, err := os.Stat(filepath.Join(folder, identity.FolderSigning, old.KeyID()+".key")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old key's file is still there: %v", err)
	}
	if open(t, folder, end.Add(time.Hour)).Signer(end.Add(time.Hour)).KeyID() != next.KeyID() {
		t.Error("another key signs after a restart")
	}
}

func TestAKeyOfARotationCutShortIsForgotten(t *testing.T) {
	folder := create(t)
	stray := filepath.Join(folder, identity.FolderSigning, "0123456789abcdef.key")
	if err := trust.WritePrivate(stray, []byte("half")); err != nil {
		t.Fatal(err)
	}
	notes := filepath.Join(folder, identity.FolderSigning, "notes.key")
	if err := trust.WritePrivate(notes, []byte("an operator's")); err != nil {
		t.Fatal(err)
	}
	id := open(t, folder, start)
	if changed, err := id.Prune(start); changed || err != nil {
		t.Fatal(changed, err)
	}
	if _, err := os.Stat(notes); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(stray); !errors.Is(err, os.ErrNotExist) {
		t.Fatal("it is still there")
	}
}

func TestAClockBeforeAllKeysStillHasASigner(t *testing.T) {
	id := open(t, create(t), start)
	first := id.Signer(start)
	if err := rotate(id, time.Hour, start); err != nil {
		t.Fatal(err)
	}
	if got := id.Signer(start.AddDate(-1, 0, 0)); got == nil || got.KeyID() != first.KeyID() {
		t.Fatalf("got %v", got)
	}
}

func TestTheListOfRevokedCertificatesIsWholeAndCounted(t *testing.T) {
	folder := create(t)
	id := open(t, folder, start)
	read := func() *x509.RevocationList {
		text, err := os.ReadFile(filepath.Join(folder, identity.FileRevoked))
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(text)
		list, err := x509.ParseRevocationList(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	if list := read(); len(list.RevokedCertificateEntries) != 0 || list.Number.Int64() != 1 {
		t.Fatalf("at first: %+v", list)
	}
	if err := id.WriteCRL([]identity.Revoked{{"0a1b", start}, {"ff", start}}, start); err != nil {
		t.Fatal(err)
	}
	list := read()
	if len(list.RevokedCertificateEntries) != 2 || list.Number.Int64() != 2 || list.RevokedCertificateEntries[0].SerialNumber.Int64() != 0x0a1b {
		t.Fatalf("got %+v", list)
	}
	if err := list.CheckSignatureFrom(id.Certificate()); err != nil {
		t.Fatal(err)
	}
	if err := id.WriteCRL([]identity.Revoked{{"ff", start}, {"0a1b", start}}, start.Add(time.Hour)); err != nil || read().Number.Int64() != 2 {
		t.Fatalf("the same list is written again: %v", err)
	}
	if err := id.WriteCRL([]identity.Revoked{{"ff", start}, {"0a1c", start}}, start); err != nil || read().Number.Int64() != 3 {
		t.Fatalf("another list of as many is not written: %v", err)
	}
	wantError(t, id.WriteCRL([]identity.Revoked{{"0a:1b", start}}, start), "no serial number in hex digits")
	open(t, folder, start)
}

// Everything that changes or reads the folder, at once: the race detector and
// a look at what is left judge.
func TestAnIdentityServesManyAtOnce(t *testing.T) {
	folder := create(t)
	id := open(t, folder, start)
	csr := request(t, newKey(t))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			now := start.Add(time.Duration(i) * time.Hour)
			if _, _, err := id.Issue(csr, trust.Holder{User: fmt.Sprintf("user-%d", i)}, 0, now); err != nil {
				t.Error(err)
			}
			if err := rotate(id, time.Second, now); err != nil && !errors.Is(err, identity.ErrRotating) {
				t.Error(err)
			}
			if err := id.WriteCRL([]identity.Revoked{{"ab", now}}, now); err != nil {
				t.Error(err)
			}
			signer := id.Signer(start.Add(24 * time.Hour))
			document, err := id.Sealed().Open(id.Certificate())
			if err != nil {
				t.Error(err)
			}
			if _, err := document.Verify("t", []byte("{}"), signer.Sign("t", []byte("{}"))); err != nil {
				t.Errorf("the newest key is not listed: %v", err)
			}
			if _, err := id.Prune(start); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	open(t, folder, start)
}

// rotate makes a new key with an overlap, as nobody's approval.
func rotate(id *identity.Identity, overlap time.Duration, now time.Time) error {
	_, err := id.Replace(identity.Rotation{Overlap: overlap}, now)
	return err
}

// A crash in the middle of a rotation may leave a private key under a name of its own.
func TestPruneRemovesAKeyThatWasHalfWritten(t *testing.T) {
	folder := create(t)
	id := open(t, folder, start)
	half := filepath.Join(folder, identity.FolderSigning, ".0123456789abcdef.key.1234567890")
	if err := os.WriteFile(half, []byte("half a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(half, old, old); err != nil {
		t.Fatal(err)
	}
	if _, err := id.Prune(start); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(half); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
}
