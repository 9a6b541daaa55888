package auditor_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/auditor"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/trust"
)

// desk is an auditor over a real store and a real folder.
type desk struct {
	t      *testing.T
	dir    string
	store  *store.Store
	signer *trust.Signer
	auditor.Config
	running *auditor.Auditor

	mu  sync.Mutex
	log strings.Builder
}

func (d *desk) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.Write(p)
}

func (d *desk) logged() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.String()
}

func setup(t *testing.T, signer *trust.Signer) *desk {
	t.Helper()
	d := &desk{t: t, dir: t.TempDir(), signer: signer}
	d.open("muster.db")
	t.Cleanup(d.close)
	return d
}

func (d *desk) open(name string) {
	d.t.Helper()
	s, err := store.Open(context.Background(), store.Options{Path: filepath.Join(d.dir, name)})
	if err != nil {
		d.t.Fatal(err)
	}
	d.store = s
	d.Config = auditor.Config{Head: s.AuditHead, Signer: func() *trust.Signer { return d.signer }, Folder: d.dir, Now: time.Now,
		Logger: slog.New(slog.NewTextHandler(d, nil))}
}

func (d *desk) close() {
	d.t.Helper()
	if d.running != nil {
		d.running.Stop()
		d.running.Stop() // twice does no harm
	}
	if err := d.store.Close(); err != nil {
		d.t.Error(err)
	}
}

func (d *desk) start() {
	d.t.Helper()
	d.running = auditor.New(d.Config)
	if err := d.running.Start(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) audited() {
	d.t.Helper()
	if err := d.store.Audit(d.t.Context(), "ada", "tested", "it", "", time.Now()); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) file() string { return auditor.HeadsFile(d.dir) }

func (d *desk) lines() []string {
	d.t.Helper()
	data, err := os.ReadFile(d.file())
	if err != nil {
		d.t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

func (d *desk) read(keys *trust.Document) auditor.Heads {
	d.t.Helper()
	h, err := auditor.ReadHeads(d.file(), keys)
	if err != nil {
		d.t.Fatal(err)
	}
	return h
}

func (d *desk) append(text string) {
	d.t.Helper()
	file, err := os.OpenFile(d.file(), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := file.WriteString(text); err != nil {
		d.t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		d.t.Fatal(err)
	}
}

// newSigner returns a signer and the list of keys that names it alone.
func newSigner(t *testing.T) (*trust.Signer, *trust.Document, ed25519.PrivateKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer := trust.NewSigner(private)
	return signer, &trust.Document{Version: 1, Keys: []trust.Key{{KeyID: signer.KeyID(), Public: public,
		NotBefore: protocol.At(time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)), NotAfter: protocol.At(time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC))}}}, private
}

func TestHeadsAreNotedAtStartAsTheyChangeHourlyAndAtStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := setup(t, nil)
		want := func(n int, when string) {
			t.Helper()
			synctest.Wait()
			if got := len(d.lines()); got != n {
				t.Errorf("%s: %d heads, want %d", when, got, n)
			}
		}
		d.audited()
		d.start()
		want(1, "at the start")
		time.Sleep(54 * time.Minute)
		want(1, "nothing happened")
		time.Sleep(7 * time.Minute)
		want(2, "an hour later")
		d.audited()
		time.Sleep(3 * time.Minute)
		want(2, "before the round")
		time.Sleep(2 * time.Minute)
		want(3, "after the round")
		d.running.Stop()
		want(3, "stopped with nothing new")
		d.start()
		want(4, "started again")
		d.audited()
		d.running.Stop()
		want(5, "stopped with something new")
		head, err := d.store.AuditHead(t.Context())
		h := d.read(nil)
		if err != nil || len(h.Noted) != 5 || h.Noted[4] != head || h.Noted[0].ID != 1 || h.Unsigned != 5 || h.Proven != 0 || h.UpTo != 0 {
			t.Errorf("%+v, want up to %+v, %v", h, head, err)
		}
		if strings.Contains(d.logged(), "ERROR") {
			t.Error(d.logged())
		}
	})
}

// TestHeadIsSignedAsDocumented checks a signature by the words of the
// documentation, apart from the program.
func TestHeadIsSignedAsDocumented(t *testing.T) {
	t.Parallel()
	signer, keys, private := newSigner(t)
	d := setup(t, signer)
	d.audited()
	d.start()
	line := d.lines()[0]
	bare, rest, ok := strings.Cut(line, `,"sig":"`)
	sig, err := base64.RawURLEncoding.DecodeString(strings.TrimSuffix(rest, `"}`))
	public, _ := private.Public().(ed25519.PublicKey)
	if !ok || err != nil || !ed25519.Verify(public, []byte("muster/audit/head"+bare+"}"), sig) {
		t.Errorf("the signature does not fit: %s, %v", line, err)
	}
	if h := d.read(keys); h.Proven != 1 || h.UpTo != 1 || len(h.Noted) != 1 || len(h.Forged) != 0 {
		t.Errorf("%+v", h)
	}
	if h := d.read(nil); h.Proven != 0 || h.Unproven != 1 || len(h.Noted) != 1 {
		t.Errorf("without keys: %+v", h)
	}
}

func TestForgedHeadsAreNamed(t *testing.T) {
	t.Parallel()
	signer, keys, _ := newSigner(t)
	other, _, _ := newSigner(t)
	d := setup(t, signer)
	d.audited()
	d.start()
	line := d.lines()[0]
	message := signer.Sign("muster/v1/stores/007/offers/x", []byte(`{"id":2}`))
	tests := map[string]struct {
		line, forged string
	}{
		"id":               {strings.Replace(line, `"id":1`, `"id":2`, 1), "the signature does not fit"},
		"count":            {strings.Replace(line, `"count":1`, `"count":2`, 1), "the signature does not fit"},
		"hash":             {strings.Replace(line, `"hash":"`, `"hash":"0`, 1), "the signature does not fit"},
		"signature gone":   {strings.Split(line, `,"sig"`)[0] + "}", "the signature does not fit"},
		"another spelling": {strings.Replace(line, `{"id"`, `{ "id"`, 1), "not written as headquarters writes it"},
		"of a message":     {fmt.Sprintf(`{"id":2,"hash":"","count":0,"at":null,"kid":"%s","sig":"%s"}`, message.KeyID, message.Value), "the signature does not fit"},
		"no JSON":          {"\x00\x00", "line 1: "},
		"empty":            {"", "line 1: "},
	}
	for name, tt := range tests {
		path := filepath.Join(t.TempDir(), "heads.jsonl")
		if err := os.WriteFile(path, []byte(tt.line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		h, err := auditor.ReadHeads(path, keys)
		if err != nil || len(h.Forged) != 1 || !strings.Contains(h.Forged[0], tt.forged) || len(h.Noted)+h.Proven != 0 {
			t.Errorf("%s: %+v, %v, want %q", name, h, err, tt.forged)
		}
	}
	late := *keys
	late.Keys = []trust.Key{keys.Keys[0]}
	late.Keys[0].NotBefore = protocol.At(time.Now().Add(time.Hour))
	if h := d.read(&late); h.Proven != 0 || h.Unproven != 1 {
		t.Errorf("a key before its time: %+v", h)
	}
	d.signer = other
	d.audited()
	d.running.Stop()
	if h := d.read(keys); h.Proven != 1 || h.UpTo != 1 || h.Unproven != 1 || len(h.Noted) != 2 {
		t.Errorf("an unknown key: %+v", h)
	}
}

func TestTornLineIsToleratedAndCutOff(t *testing.T) {
	t.Parallel()
	signer, keys, _ := newSigner(t)
	d := setup(t, signer)
	d.audited()
	d.start()
	d.running.Stop()
	for _, torn := range []string{`{"id":7,"ha`, strings.Repeat("\x00", 5000)} {
		before := len(d.lines())
		d.append(torn)
		if h := d.read(keys); !h.Torn || h.Proven != before || len(h.Forged) != 0 {
			t.Errorf("%.10q: %+v", torn, h)
		}
		d.start()
		d.running.Stop()
		if h := d.read(keys); h.Torn || h.Proven != before+1 || len(h.Forged) != 0 {
			t.Errorf("%.10q, started again: %+v", torn, h)
		}
	}
}

func TestOlderDatabaseIsToldAtStart(t *testing.T) {
	t.Parallel()
	d := setup(t, nil)
	d.audited()
	d.audited()
	d.start()
	d.running.Stop()
	if strings.Contains(d.logged(), "ERROR") {
		t.Error(d.logged())
	}
	if err := d.store.Close(); err != nil {
		t.Fatal(err)
	}
	d.open("another.db") // as after an older backup was put in place
	d.audited()
	d.start()
	if !strings.Contains(d.logged(), "the audit is not the one whose head was noted before") {
		t.Errorf("the log says %q", d.logged())
	}
}

func TestHeadThatCannotBeWrittenIsNotedLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := setup(t, nil)
		d.start()
		if err := os.Remove(d.file()); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(d.file(), 0o700); err != nil { // where the file should be
			t.Fatal(err)
		}
		d.audited()
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		if !strings.Contains(d.logged(), "the head of the audit cannot be noted") {
			t.Errorf("the log says %q", d.logged())
		}
		if err := os.Remove(d.file()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := d.lines(); len(got) != 1 || !strings.Contains(got[0], `"id":1`) {
			t.Errorf("%q", got)
		}
	})
}

func TestStartNeedsItsFolderAndStopDoesNot(t *testing.T) {
	t.Parallel()
	a := auditor.New(auditor.Config{Folder: filepath.Join(t.TempDir(), "none")})
	if err := a.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot open the reports folder") {
		t.Error(err)
	}
	a.Stop()
	if h, err := auditor.ReadHeads(filepath.Join(t.TempDir(), "none"), nil); err != nil || len(h.Noted) != 0 {
		t.Errorf("%+v, %v", h, err)
	}
}

func TestHeadsStayInTheReportsFolder(t *testing.T) {
	t.Parallel()
	d := setup(t, nil)
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(d.dir, "audit")); err != nil {
		t.Fatal(err)
	}
	if err := auditor.New(d.Config).Start(t.Context()); err == nil {
		t.Error("it followed a link out of the folder")
	}
	if files, err := os.ReadDir(outside); err != nil || len(files) != 0 {
		t.Errorf("%v, %v", files, err)
	}
}
