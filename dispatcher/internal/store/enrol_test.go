package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/dispatcher/internal/store"
)

func tokenHash(n int) string { return fmt.Sprintf("%064x", n) }

// token lets terminal pos1 of store 007 in for a day.
func (b *bundle) token(n int) string {
	b.t.Helper()
	err := b.AddEnrolment(b.t.Context(), store.Enrolment{TokenSHA256: tokenHash(n), StoreID: "007", TerminalID: "pos1",
		CreatedBy: "host:root", CreatedAt: t0, ExpiresAt: at(24 * time.Hour)})
	if err != nil {
		b.t.Fatal(err)
	}
	return tokenHash(n)
}

func newKey(id, serial string) store.TerminalKey {
	return store.TerminalKey{KeyID: id, PublicKey: "public of " + id, Serial: serial, IssuedAt: t0, NotAfter: at(90 * 24 * time.Hour)}
}

func (b *bundle) enrol(token string, key store.TerminalKey, now time.Time) store.TerminalKey {
	b.t.Helper()
	got, err := b.Enrol(b.t.Context(), token, key, now)
	if err != nil {
		b.t.Fatal(err)
	}
	return got
}

func serials(keys []store.TerminalKey) (all []string) {
	for _, k := range keys {
		all = append(all, k.KeyID+"="+k.Serial)
	}
	return all
}

func TestEnrolTakesTheKeyOfTheTokensTerminal(t *testing.T) {
	t.Parallel()
	b := setup(t)
	got := b.enrol(b.token(1), newKey("k1", "0a"), at(time.Minute))
	want := newKey("k1", "0a")
	want.StoreID, want.TerminalID = "007", "pos1"
	if got != want {
		t.Errorf("enrolled %+v, want %+v", got, want)
	}
	b.reopen()
	stored, err := b.GetTerminalKey(t.Context(), "k1")
	if err != nil || stored != want {
		t.Errorf("stored %+v, %v, want %+v", stored, err, want)
	}
	if _, err := b.GetTerminalKey(t.Context(), "k2"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an unknown key: %v", err)
	}
}

func TestAnotherTerminalsTokenIsRefusedAndStaysUnused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	token := b.token(1)
	for _, who := range []store.TerminalKey{{StoreID: "666"}, {StoreID: "007", TerminalID: "pos2"}, {TerminalID: "pos2"}} {
		key := newKey("k1", "0a")
		key.StoreID, key.TerminalID = who.StoreID, who.TerminalID
		var other *store.OtherTerminalError
		if _, err := b.Enrol(t.Context(), token, key, t0); !errors.As(err, &other) || *other != (store.OtherTerminalError{StoreID: "007", TerminalID: "pos1"}) {
			t.Errorf("%+v: %v", who, err)
		}
	}
	if _, err := b.GetTerminalKey(t.Context(), "k1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("its key: %v", err)
	}
	own := newKey("k2", "0b")
	own.StoreID, own.TerminalID = "007", "pos1"
	b.enrol(token, own, at(time.Hour))
	if n := len(b.entries("")); n != 2 { // the token and its use
		t.Errorf("%d audit entries", n)
	}
}

func TestTokenIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		do   func(b *bundle, token string)
		key  store.TerminalKey
		now  time.Duration
		want string // "" is taken
	}{
		{"unknown", nil, newKey("k1", "0a"), 0, "it is not known here"},
		{"at its last moment", func(*bundle, string) {}, newKey("k1", "0a"), 24*time.Hour - time.Millisecond, ""},
		{"expired", func(*bundle, string) {}, newKey("k1", "0a"), 24 * time.Hour, "it expired at 2026-09-18T02:00:00Z"},
		{"used by another key", used, newKey("k2", "0b"), time.Minute, "it was used at 2026-09-17T02:00:00Z"},
		{"answer lost, same key in time", used, newKey("k1", "0b"), 10 * time.Minute, ""},
		{"same key too late", used, newKey("k1", "0b"), 10*time.Minute + time.Millisecond, "it was used at"},
		{"terminal revoked before its use", revokedBefore, newKey("k1", "0a"), time.Minute, "it was voided at 2026-09-17T02:00:00Z, when its terminal was revoked"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			token := tokenHash(1)
			if tt.do != nil {
				tt.do(b, b.token(1))
			}
			before := b.rowsOf("audit")
			got, err := b.Enrol(t.Context(), token, tt.key, at(tt.now))
			if tt.want == "" {
				if err != nil || got.Serial != tt.key.Serial || b.rowsOf("audit") != before+1 {
					t.Errorf("enrolled %+v, %v", got, err)
				}
				return
			}
			if !errors.Is(err, store.ErrTokenInvalid) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("refused with %v, want %q", err, tt.want)
			}
			if b.rowsOf("audit") != before {
				t.Error("a refused token left an entry")
			}
		})
	}
}

func used(b *bundle, token string) { b.enrol(token, newKey("k1", "0a"), t0) }

func revokedBefore(b *bundle, _ string) {
	if revoked, err := b.RevokeTerminal(b.t.Context(), "007", "pos1", "host:root", t0); err != nil || len(revoked) != 0 {
		b.t.Fatal(revoked, err)
	}
}

func TestOneTokenLetsOneIn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	token := b.token(1)
	var mu sync.Mutex
	var won []string
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			key, err := b.Enrol(t.Context(), token, newKey(fmt.Sprintf("k%d", i), fmt.Sprintf("%02x", i)), t0)
			if err != nil && !errors.Is(err, store.ErrTokenInvalid) {
				t.Error(err)
			}
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				won = append(won, key.KeyID)
			}
		})
	}
	wg.Wait()
	keys, err := b.ListTerminalKeys(t.Context())
	if err != nil || len(won) != 1 || len(keys) != 1 || keys[0].KeyID != won[0] {
		t.Errorf("%v got in, stored are %+v, %v", won, keys, err)
	}
	intact(t, b.path, 2)
}

func TestKeyBelongsToOneTerminal(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.enrol(b.token(1), newKey("k1", "0a"), t0)
	err := b.AddEnrolment(t.Context(), store.Enrolment{TokenSHA256: tokenHash(2), StoreID: "008", TerminalID: "pos1", CreatedBy: "host:root", CreatedAt: t0, ExpiresAt: at(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Enrol(t.Context(), tokenHash(2), newKey("k1", "0b"), t0); !errors.Is(err, store.ErrKeyTaken) || !strings.Contains(err.Error(), "key k1 is that of terminal pos1 of store 007") {
		t.Errorf("a copied key: %v", err)
	}
	own := newKey("k9", "0c")
	own.StoreID, own.TerminalID = "008", "pos1"
	if got := b.enrol(tokenHash(2), own, t0); got.StoreID != "008" { // and the token was not consumed
		t.Errorf("%+v", got)
	}
	if err := b.RenewKey(t.Context(), "k9", newKey("k1", "0d"), t0); !errors.Is(err, store.ErrKeyTaken) {
		t.Errorf("renewed to another terminal's key: %v", err)
	}
	clash := newKey("k1", "0e")
	clash.PublicKey = "another key of the same id"
	if err := b.RenewKey(t.Context(), "k1", clash, t0); !errors.Is(err, store.ErrKeyTaken) {
		t.Errorf("an id that names two keys: %v", err)
	}
}

func TestRevocationNamesEveryCertificateAndLasts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.enrol(b.token(1), newKey("k1", "0a"), t0)
	b.enrol(b.token(1+1), newKey("k2", "0b"), t0) // older keys stay
	same, other := newKey("k2", "0c"), newKey("k3", "0d")
	same.IssuedAt, other.IssuedAt = at(time.Hour), at(time.Hour)
	for _, key := range []store.TerminalKey{same, other} {
		if err := b.RenewKey(t.Context(), "k2", key, at(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	keys, err := b.ListTerminalKeys(t.Context())
	if want := []string{"k1=0a", "k2=0c", "k3=0d"}; err != nil || !slices.Equal(serials(keys), want) {
		t.Errorf("keys %v, %v, want %v", serials(keys), err, want)
	}
	if none, err := b.ListRevoked(t.Context()); err != nil || len(none) != 0 {
		t.Errorf("revoked before anybody was: %+v, %v", none, err)
	}
	open := b.token(3)
	all := []string{"k1=0a", "k2=0b", "k2=0c", "k3=0d"}
	revoked, err := b.RevokeTerminal(t.Context(), "007", "pos1", "host:root", at(2*time.Hour))
	if err != nil || !slices.Equal(serials(revoked), all) || revoked[0].RevokedAt != at(2*time.Hour) {
		t.Errorf("revoked %v, %v, want %v", serials(revoked), err, all)
	}
	b.reopen()
	listed, err := b.ListRevoked(t.Context())
	if got := serials(listed); err != nil || len(got) != 4 || !slices.Equal(slices.Sorted(slices.Values(got)), all) {
		t.Errorf("listed %v, %v, want %v", got, err, all)
	}
	if _, err := b.RevokeTerminal(t.Context(), "007", "pos1", "host:root", at(3*time.Hour)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("revoked twice: %v", err)
	}
	if err := b.RenewKey(t.Context(), "k3", newKey("k4", "0e"), at(3*time.Hour)); !errors.Is(err, store.ErrKeyTaken) || !strings.Contains(err.Error(), "was revoked at 2026-09-17T04:00:00Z") {
		t.Errorf("a revoked key was renewed: %v", err)
	}
	if _, err := b.Enrol(t.Context(), open, newKey("k5", "0f"), at(3*time.Hour)); !errors.Is(err, store.ErrTokenInvalid) {
		t.Errorf("an older token let a revoked terminal in: %v", err)
	}
	if _, err := b.Enrol(t.Context(), b.token(4), newKey("k1", "10"), at(3*time.Hour)); !errors.Is(err, store.ErrKeyTaken) {
		t.Errorf("a revoked key came back: %v", err)
	}
	if got := b.enrol(tokenHash(4), newKey("k6", "11"), at(3*time.Hour)); !got.RevokedAt.IsZero() {
		t.Errorf("a new key after a new token: %+v", got)
	}
}

func TestEnrolmentIsAudited(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.enrol(b.token(1), newKey("k1", "0a"), t0)
	if err := b.RenewKey(t.Context(), "k1", newKey("k2", "0b"), t0); err != nil {
		t.Fatal(err)
	}
	if _, err := b.RevokeTerminal(t.Context(), "007", "pos1", "host:root", t0); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range b.entries("") {
		got = append(got, fmt.Sprintf("%s %s %s: %s", e.Actor, e.Action, e.Subject, e.Detail))
	}
	want := []string{
		"host:root enrolment_token 007/pos1: token with sha256 " + tokenHash(1) + ", valid until 2026-09-18T02:00:00Z",
		"007/pos1 enrolled 007/pos1: key k1, certificate 0a valid until 2026-12-16T02:00:00Z, with the token of host:root",
		"007/pos1 renewed 007/pos1: key k2, certificate 0b valid until 2026-12-16T02:00:00Z, in place of key k1",
		"host:root revoked 007/pos1: 2 keys with 2 certificates revoked, 0 tokens voided; key k1, certificate 0a valid until 2026-12-16T02:00:00Z; " +
			"key k2, certificate 0b valid until 2026-12-16T02:00:00Z",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the audit says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestKeysAndTokensAreHistory(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.enrol(b.token(1), newKey("k1", "0a"), t0)
	b.token(2)
	if _, err := b.RevokeTerminal(t.Context(), "007", "pos1", "host:root", t0); err != nil {
		t.Fatal(err)
	}
	b.token(3)
	b.enrol(b.token(4), newKey("k4", "0d"), t0)
	for _, statement := range []string{
		`DELETE FROM enrolments`, `DELETE FROM terminal_keys`, `DELETE FROM terminal_certificates`,
		`UPDATE enrolments SET used_at = 0, key_id = NULL WHERE used_at <> 0`,
		`UPDATE enrolments SET key_id = 'k4' WHERE used_at <> 0`,
		`UPDATE enrolments SET store_id = 'x', used_at = 1 WHERE used_at = 0`,
		`UPDATE enrolments SET expires_at = expires_at + 1 WHERE used_at = 0`,
		`UPDATE terminal_keys SET revoked_at = 0 WHERE key_id = 'k1'`,
		`UPDATE terminal_keys SET revoked_at = 9 WHERE key_id = 'k1'`,
		`UPDATE terminal_keys SET public_key = 'x', revoked_at = 9 WHERE key_id = 'k4'`,
		`UPDATE terminal_keys SET terminal_id = 'x', revoked_at = 9 WHERE key_id = 'k4'`,
		`UPDATE terminal_certificates SET not_after = not_after + 1`,
		`UPDATE terminal_certificates SET serial = 'x'`,
		`INSERT INTO terminal_certificates (serial, key_id, issued_at, not_after) VALUES ('99', 'none', 1, 2)`,
		`INSERT INTO enrolments (token_sha256, store_id, terminal_id, created_by, created_at, expires_at) VALUES ('short', 'a', 'b', 'c', 1, 2)`,
	} {
		if err := tried(t, b.raw(), statement); err == nil {
			t.Errorf("%s was taken", statement)
		}
	}
	if err := tried(t, b.raw(), `UPDATE terminal_keys SET revoked_at = 9 WHERE key_id = 'k4'`); err != nil {
		t.Errorf("a revocation: %v", err)
	}
}

func TestLastHelloSeq(t *testing.T) {
	t.Parallel()
	b := setup(t)
	want := func(want int64) {
		t.Helper()
		if seq, err := b.LastHelloSeq(t.Context(), "007", "pos1", "k1"); err != nil || seq != want {
			t.Errorf("got %d, %v, want %d", seq, err, want)
		}
	}
	want(0)
	if _, err := b.SetPresence(t.Context(), store.Terminal{StoreID: "007", TerminalID: "pos1", Online: true, SessionID: "s", Since: t0}, t0); err != nil {
		t.Fatal(err)
	}
	want(0)
	for _, hello := range []string{`{"id":"x","seq":9007199254740993,"kid":"k1"}`, `{"id":"x","kid":"k1"}`, `{"id":"x","seq":5,"kid":"k2"}`, `{"id":"x","seq":5}`} {
		if err := b.SaveHello(t.Context(), store.Terminal{StoreID: "007", TerminalID: "pos1", Hello: []byte(hello)}, t0); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(hello, "9007") {
			want(9007199254740993)
			continue
		}
		want(0)
	}
}
