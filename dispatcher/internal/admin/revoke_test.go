package admin_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"muster/dispatcher/internal/admin"
	"muster/dispatcher/internal/identity"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
)

func TestRevocationReachesTheStoreTheGateAndTheBrokersList(t *testing.T) {
	hq := setup(t)
	first, other := hq.enrol(hq.token("0001", "pos-1")), hq.enrol(hq.token("SH_1", "pos-1"))
	done, err := hq.client().Revoke(t.Context(), admin.RevokeRequest{Store: "0001", Terminal: "pos-1", Actor: "chen"})
	if err != nil || len(done.Certificates) != 1 || done.Certificates[0] != first.Serial {
		t.Fatalf("got %+v, %v", done, err)
	}
	if listed := hq.crl(); len(listed) != 1 || listed[0] != first.Serial || len(hq.revoked) != 1 || hq.revoked[0] != first.KeyID {
		t.Fatalf("listed %v, told %v", listed, hq.revoked)
	}
	all, err := hq.client().Terminals(t.Context())
	if err != nil || len(all.Terminals) != 2 {
		t.Fatalf("got %+v, %v", all, err)
	}
	if a, b := all.Terminals[0], all.Terminals[1]; a.KeyID != first.KeyID || !a.RevokedAt.Equal(clock) || b.KeyID != other.KeyID || !b.RevokedAt.IsZero() ||
		b.Store != "SH_1" || b.Terminal != "pos-1" || b.Serial != other.Serial || !b.NotAfter.Equal(other.NotAfter) {
		t.Fatalf("got %+v", all)
	}
	_, err = hq.client().Revoke(t.Context(), admin.RevokeRequest{Store: "0001", Terminal: "pos-1", Actor: "chen"})
	wantRefused(t, err, protocol.CodeNotFound, "no key and no token that could be revoked")
}

func TestRevocationsAtOnceAreAllListed(t *testing.T) {
	hq := setup(t)
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	for _, name := range names {
		hq.enrol(hq.token("0001", name))
	}
	var wg sync.WaitGroup
	for _, name := range names {
		c := hq.client()
		wg.Go(func() {
			if _, err := c.Revoke(t.Context(), admin.RevokeRequest{Store: "0001", Terminal: name, Actor: "chen"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if listed := hq.crl(); len(listed) != len(names) {
		t.Fatalf("%d of %d are listed", len(listed), len(names))
	}
}

// late tells what was revoked as a slow disk does: something else may be done
// between its look and its answer.
type late struct {
	*store.Store
	meanwhile func() // once
}

func (l *late) ListRevoked(ctx context.Context) ([]store.TerminalKey, error) {
	keys, err := l.Store.ListRevoked(ctx)
	if do := l.meanwhile; do != nil {
		l.meanwhile = nil
		do()
	}
	return keys, err
}

func TestAnOlderListNeverReplacesALongerOne(t *testing.T) {
	hq := setup(t)
	hq.enrol(hq.token("0001", "a"))
	hq.enrol(hq.token("0001", "b"))
	if err := hq.server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	slow := &late{Store: hq.store}
	hq.cfg.Register, hq.cfg.Revoked = slow, nil
	hq.start()
	second, c := make(chan error, 1), hq.client()
	slow.meanwhile = func() {
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, err := c.Revoke(t.Context(), admin.RevokeRequest{Store: "0001", Terminal: "b", Actor: "chen"})
			second <- err
		}()
		select {
		case <-done: // it overtook
		case <-time.After(300 * time.Millisecond): // it waits for its turn
		}
	}
	if _, err := c.Revoke(t.Context(), admin.RevokeRequest{Store: "0001", Terminal: "a", Actor: "chen"}); err != nil {
		t.Fatal(err)
	}
	if err := <-second; err != nil {
		t.Fatal(err)
	}
	if listed := hq.crl(); len(listed) != 2 {
		t.Fatalf("listed: %v", listed)
	}
}

func TestCertificatesThatEndedByThemselvesAreNotListed(t *testing.T) {
	hq := setup(t)
	hq.enrol(hq.token("0001", "a"))
	other := hq.enrol(hq.token("0001", "b"))
	for _, terminal := range []string{"a", "b"} {
		if terminal == "b" {
			hq.now = other.NotAfter
		}
		if _, err := hq.client().Revoke(t.Context(), admin.RevokeRequest{Store: "0001", Terminal: terminal, Actor: "chen"}); err != nil {
			t.Fatal(err)
		}
		if listed, want := hq.crl(), map[string]int{"a": 1, "b": 0}[terminal]; len(listed) != want {
			t.Fatalf("after %s: %v", terminal, listed)
		}
	}
}

// The store is the truth: what it revoked is listed at the next start, and when
// the operator asks again.
func TestARevocationThatWasNotListedIsListedLater(t *testing.T) {
	hq := setup(t)
	hq.enrol(hq.token("0001", "pos-1"))
	key := filepath.Join(hq.identity, identity.FileAuthorityKey)
	if err := os.Rename(key, key+".away"); err != nil {
		t.Fatal(err)
	}
	request := admin.RevokeRequest{Store: "0001", Terminal: "pos-1", Actor: "chen"}
	_, err := hq.client().Revoke(t.Context(), request)
	wantRefused(t, err, protocol.CodeInternal, "but the broker was not told; revoke it again")
	if len(hq.revoked) != 1 || len(hq.crl()) != 0 {
		t.Fatalf("told %v, listed %v", hq.revoked, hq.crl())
	}
	if err := os.Rename(key+".away", key); err != nil {
		t.Fatal(err)
	}
	_, err = hq.client().Revoke(t.Context(), request)
	if wantRefused(t, err, protocol.CodeNotFound, "no key"); len(hq.crl()) != 1 {
		t.Fatal("asked again, it is still not listed")
	}
	hq.enrol(hq.token("0001", "pos-2"))
	if _, err := hq.store.RevokeTerminal(t.Context(), "0001", "pos-2", "host:chen", clock); err != nil {
		t.Fatal(err)
	}
	if err := hq.server.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if hq.start(); len(hq.crl()) != 2 {
		t.Fatalf("after a start %v are listed", hq.crl())
	}
}
