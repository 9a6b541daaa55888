package enrol_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/edge-agent/internal/enrol"
	"muster/edge-agent/internal/hqtest"
	"muster/edge-agent/internal/identity"
	"muster/internal/trust"
)

// patience bounds what must happen; it passes in full only in a failure.
const patience = 20 * time.Second

var holder = trust.Holder{Store: "007", Terminal: "pos-1"}

type bench struct {
	t      *testing.T
	hq     *hqtest.Enrolment
	folder string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	hq := hqtest.New(t)
	return &bench{t: t, folder: filepath.Join(t.TempDir(), "identity"),
		hq: hq.Enrol(hq.Server(time.Now().Add(-time.Hour), time.Now().Add(397*day)))}
}

func (b *bench) enrol(change ...func(*enrol.Request)) (*identity.Identity, error) {
	r := enrol.Request{URL: b.hq.URL, Token: b.hq.Token(holder), Folder: b.folder}
	for _, f := range change {
		f(&r)
	}
	return enrol.Enrol(b.t.Context(), r)
}

func (b *bench) open() *identity.Identity {
	b.t.Helper()
	id, err := identity.Open(b.folder, holder.Store, holder.Terminal, time.Now())
	if err != nil {
		b.t.Fatal(err)
	}
	return id
}

func TestATokenBringsAnIdentity(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id, err := b.enrol()
	if err != nil {
		t.Fatal(err)
	}
	opened := b.open()
	if opened.Signer().KeyID() != id.Signer().KeyID() || opened.EnrolmentURL() != b.hq.URL || opened.Document().Version != 1 {
		t.Errorf("opened another identity: %+v", opened.Document())
	}
	if _, err := os.Stat(filepath.Join(b.folder, "enrol.key")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the key of the enrolment was left behind: %v", err)
	}
}

func TestAnEnrolmentThatWasCutOffIsAskedForAgainWithTheSameToken(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.hq.Lose(2)
	token := b.hq.Token(holder)
	same := func(r *enrol.Request) { r.Token = token }
	for range 2 {
		if _, err := b.enrol(same); err == nil || !strings.Contains(err.Error(), "cannot reach headquarters") {
			t.Fatalf("a lost answer: %v", err)
		}
	}
	if identity.Finished(b.folder) {
		t.Fatal("finished without a certificate")
	}
	// The token is used up for this key: only a key that was kept is answered.
	if _, err := b.enrol(same); err != nil {
		t.Fatal(err)
	}
	b.open()
}

// TestAKeyThatWasSentOutlivesAnotherTokensRefusal: the first token is good for no other key.
func TestAKeyThatWasSentOutlivesAnotherTokensRefusal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.hq.Lose(1)
	token := b.hq.Token(holder)
	same := func(r *enrol.Request) { r.Token = token }
	if _, err := b.enrol(same); err == nil {
		t.Fatal("a lost answer enrolled")
	}
	if _, err := b.enrol(func(r *enrol.Request) {
		r.Token = "mt1." + strings.Repeat("A", 43) + "." + strings.SplitN(r.Token, ".", 3)[2]
	}); err == nil || !strings.Contains(err.Error(), "the token is unknown") {
		t.Fatalf("another token: %v", err)
	}
	if _, err := b.enrol(same); err != nil {
		t.Fatal(err)
	}
	b.open()
}

func TestAKeyThatHeadquartersTakesNeverAgainIsReplaced(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.hq.Lose(1)
	if _, err := b.enrol(); err == nil {
		t.Fatal("a lost answer enrolled")
	}
	b.hq.Spend() // the terminal was revoked meanwhile
	if _, err := b.enrol(); err == nil || !strings.Contains(err.Error(), "the key was revoked") {
		t.Fatalf("got %v", err)
	}
	if _, err := b.enrol(); err != nil {
		t.Errorf("the next enrolment: %v", err)
	}
}

func TestAFinishedIdentityIsReplacedByForceAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first, err := b.enrol()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.enrol(); !errors.Is(err, enrol.ErrFinished) || !strings.Contains(err.Error(), "--force") {
		t.Errorf("a second enrolment: %v", err)
	}
	force := func(r *enrol.Request) { r.Force = true }
	if _, err := b.enrol(force, func(r *enrol.Request) {
		r.Token = "mt1." + strings.Repeat("A", 43) + "." + strings.SplitN(r.Token, ".", 3)[2]
	}); err == nil {
		t.Error("an unknown token was taken")
	}
	if got := b.open().Signer().KeyID(); got != first.Signer().KeyID() {
		t.Error("a refused enrolment cost the old identity")
	}
	second, err := b.enrol(force)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.open().Signer().KeyID(); got != second.Signer().KeyID() || got == first.Signer().KeyID() {
		t.Errorf("key %s after %s", got, first.Signer().KeyID())
	}
}

func TestWhatCannotBeTrustedOrUsedIsRefusedAndSaysWhatToDo(t *testing.T) {
	t.Parallel()
	now := time.Now()
	impostor := hqtest.New(t)
	fake := impostor.Enrol(impostor.Server(now.Add(-time.Hour), now.Add(time.Hour)))
	expired := hqtest.New(t)
	old := expired.Enrol(expired.Server(now.Add(-2*time.Hour), now.Add(-time.Hour)))
	for name, tc := range map[string]struct {
		change func(b *bench, r *enrol.Request)
		want   string
	}{
		"another headquarters": {func(_ *bench, r *enrol.Request) { r.URL = fake.URL }, "not the headquarters that made the token"},
		"certificate has ended": {func(_ *bench, r *enrol.Request) { r.URL, r.Token = old.URL, old.Token(holder) },
			"check the clock"},
		"another host": {func(b *bench, r *enrol.Request) { r.URL = strings.Replace(b.hq.URL, "127.0.0.1", "localhost", 1) },
			"certificate cannot be trusted"},
		"used token": {func(b *bench, r *enrol.Request) {
			if _, err := enrol.Enrol(b.t.Context(), enrol.Request{URL: b.hq.URL, Token: r.Token, Folder: b.folder + "2"}); err != nil {
				b.t.Fatal(err)
			}
		}, "CONFLICT: the token was used; ask headquarters for a new token"},
		"token of another terminal": {func(_ *bench, r *enrol.Request) { r.Store, r.Terminal = "007", "pos-2" }, "NOT_ALLOWED: the token is for another terminal"},
		"no token":                  {func(_ *bench, r *enrol.Request) { r.Token = "abc" }, "this is no token"},
		"half a token":              {func(_ *bench, r *enrol.Request) { r.Token = r.Token[:len(r.Token)-2] }, "this is no token"},
		"plain text":                {func(_ *bench, r *enrol.Request) { r.URL = "http://127.0.0.1:1" }, "must be a URL such as https://"},
		"nobody there":              {func(_ *bench, r *enrol.Request) { r.URL = "https://127.0.0.1:1" }, "check the port"},
	} {
		b := newBench(t)
		if _, err := b.enrol(func(r *enrol.Request) { tc.change(b, r) }); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
		if _, err := os.Lstat(b.folder); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: something was left behind: %v", name, err)
		}
	}
}

func TestARenewalThatFailsLeavesTheOldCertificate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id, err := b.enrol()
	if err != nil {
		t.Fatal(err)
	}
	before := id.Signer().KeyID()
	b.hq.Lose(1)
	if err := enrol.Renew(t.Context(), id, time.Now); err == nil {
		t.Error("a lost answer renewed")
	}
	if id.Signer().KeyID() != before || b.open().Signer().KeyID() != before {
		t.Error("the key changed")
	}
	b.hq.Rotate()
	if err := enrol.Renew(t.Context(), id, time.Now); err != nil || b.open().Signer().KeyID() == before {
		t.Errorf("the next try: %v", err)
	}
	if d := b.open().Document(); d.Version != 2 {
		t.Errorf("the list of keys that came along was not taken: version %d", d.Version)
	}
}
