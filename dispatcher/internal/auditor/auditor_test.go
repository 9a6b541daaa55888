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
	if h := d.read(keys); h.Proven != 1 || h.UpTo != 1 || len(h.Noted) != 1 || len(h.Faults) != 0 {
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
	head, err := d.store.AuditHead(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	message := signer.Sign("muster/v1/stores/007/offers/x", []byte(`{"id":2}`))
	tests := map[string]struct {
		line, forged string
	}{
		"id":               {strings.Replace(line, `"id":1`, `"id":2`, 1), "the signature does not fit"},
		"count":            {strings.Replace(line, `"count":1`, `"count":2`, 1), "the signature does not fit"},
		"hash":             {strings.Replace(line, head.Hash, strings.Repeat("0", 64), 1), "the signature does not fit"},
		"hash too long":    {strings.Replace(line, `"hash":"`, `"hash":"00`, 1), "is the head of no chain"},
		"signature gone":   {strings.Split(line, `,"sig"`)[0] + "}", "the signature does not fit"},
		"another spelling": {strings.Replace(line, `{"id"`, `{ "id"`, 1), "not written as headquarters writes it"},
		"of a message":     {fmt.Sprintf(`{"id":2,"hash":"%s","count":2,"at":null,"kid":"%s","sig":"%s"}`, head.Hash, message.KeyID, message.Value), "the signature does not fit"},
		"no hash":          {strings.Replace(line, head.Hash, "", 1), `entry 1 with hash "" is the head of no chain`},
		"no JSON":          {"\x00\x00", "line 1: "},
		"empty":            {"", "line 1: "},
	}
	for name, tt := range tests {
		path := filepath.Join(t.TempDir(), "heads.jsonl")
		if err := os.WriteFile(path, []byte(tt.line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		h, err := auditor.ReadHeads(path, keys)
		if err != nil || len(h.Faults) != 1 || !strings.Contains(h.Faults[0], tt.forged) || len(h.Noted)+h.Proven != 0 {
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
	h := d.read(keys)
	if h.Proven != 1 || h.UpTo != 1 || h.Unproven != 0 || len(h.Noted) != 1 || h.Wrong != 1 || len(h.Faults) != 1 ||
		!strings.HasPrefix(h.Faults[0], "line 2: key "+other.KeyID()+": it is signed with a key that is not on the list") {
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
		if h := d.read(keys); !h.Torn || h.Proven != before || len(h.Faults) != 0 {
			t.Errorf("%.10q: %+v", torn, h)
		}
		d.start()
		d.running.Stop()
		if h := d.read(keys); h.Torn || h.Proven != before+1 || len(h.Faults) != 0 {
			t.Errorf("%.10q, started again: %+v", torn, h)
		}
	}
}

// TestHeadsThatKeysCannotProve writes heads of several ages: the list of keys
// begins a while before 10 o'clock; in its first minutes the older key, which it
// struck out, may still have signed.
func TestHeadsThatKeysCannotProve(t *testing.T) {
	t.Parallel()
	signer, keys, _ := newSigner(t)
	ended, _, _ := newSigner(t)
	clock := func(hour int) time.Time { return time.Date(2026, 9, 17, hour, 0, 0, 0, time.UTC) }
	keys.Keys[0].NotBefore, keys.Keys[0].NotAfter = protocol.At(clock(10).Add(-6*time.Minute)), protocol.At(clock(20))
	type line struct {
		signer *trust.Signer
		hour   int
	}
	const unsigned, unknown = "it is not signed, and headquarters had a key", "it is signed with a key that is not on the list"
	tests := map[string]struct {
		lines                                   []line
		proven, unsigned, unproven, upTo, wrong int
		fault                                   string
	}{
		"older ones in front":        {[]line{{nil, 8}, {ended, 9}, {nil, 9}, {signer, 10}, {signer, 11}}, 2, 2, 1, 5, 0, ""},
		"only older ones":            {[]line{{nil, 8}, {ended, 9}}, 0, 1, 1, 0, 0, ""},
		"unsigned behind a signed":   {[]line{{signer, 10}, {nil, 11}}, 1, 0, 0, 1, 1, "line 2: " + unsigned},
		"unknown behind a signed":    {[]line{{signer, 10}, {ended, 11}, {signer, 12}}, 2, 0, 0, 3, 1, "line 2: key " + ended.KeyID() + ": " + unknown},
		"dated back behind a signed": {[]line{{signer, 10}, {nil, 8}, {ended, 8}}, 1, 0, 0, 1, 2, "line 2: " + unsigned},
		"all unsigned":               {[]line{{nil, 10}, {nil, 11}}, 0, 0, 0, 0, 2, "line 1: " + unsigned},
		"all unknown":                {[]line{{ended, 10}, {ended, 11}}, 0, 0, 0, 0, 2, "line 1: key " + ended.KeyID() + ": " + unknown},
		"unsigned, then signed":      {[]line{{nil, 11}, {signer, 12}}, 1, 0, 0, 2, 1, "line 1: " + unsigned},
		"unknown, then signed":       {[]line{{ended, 11}, {signer, 12}}, 1, 0, 0, 2, 1, "line 1: key " + ended.KeyID() + ": " + unknown},
		"out of the key's time":      {[]line{{signer, 7}, {signer, 11}, {signer, 21}}, 1, 0, 2, 2, 0, ""},
		"unsigned behind that":       {[]line{{signer, 7}, {nil, 8}}, 0, 0, 1, 0, 1, "line 2: " + unsigned},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := setup(t, nil)
			for _, l := range tt.lines {
				d.signer, d.Now = l.signer, func() time.Time { return clock(l.hour) }
				d.audited()
				d.start()
				d.running.Stop()
			}
			h := d.read(keys)
			if h.Proven != tt.proven || h.Unsigned != tt.unsigned || h.Unproven != tt.unproven || h.UpTo != int64(tt.upTo) || h.Wrong != tt.wrong ||
				len(h.Noted) != len(tt.lines)-tt.wrong || len(h.Faults) != tt.wrong || tt.wrong > 0 && !strings.HasPrefix(h.Faults[0], tt.fault) {
				t.Errorf("%+v", h)
			}
			if h := d.read(nil); h.Wrong != 0 || len(h.Noted) != len(tt.lines) {
				t.Errorf("without keys: %+v", h)
			}
		})
	}
}

func TestHeadOfNothingProvesNothing(t *testing.T) {
	t.Parallel()
	signer, keys, _ := newSigner(t)
	d := setup(t, signer)
	d.start()
	if h := d.read(keys); len(h.Noted) != 1 || h.Proven != 0 || h.Wrong != 0 {
		t.Errorf("%+v", h)
	}
	d.running.Stop()
	d.signer = nil // it was signed all the same: what follows must be
	d.start()
	if h := d.read(keys); len(h.Noted) != 1 || h.Wrong != 1 {
		t.Errorf("%+v", h)
	}
}

func TestFaultsOfManyLinesAreCounted(t *testing.T) {
	t.Parallel()
	_, keys, _ := newSigner(t)
	path := filepath.Join(t.TempDir(), "heads.jsonl")
	if err := os.WriteFile(path, []byte(strings.Repeat("{}\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if h, err := auditor.ReadHeads(path, keys); err != nil || h.Wrong != 1000 || len(h.Faults) != 20 {
		t.Errorf("%d of %d listed, %v", len(h.Faults), h.Wrong, err)
	}
}

// TestChainWrittenAnewIsToldAtStart lets headquarters go on behind an entry that
// is not the one that was noted.
func TestChainWrittenAnewIsToldAtStart(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]bool{"muster.db": false, "another.db": true} {
		d := setup(t, nil)
		d.audited()
		d.audited()
		d.start()
		d.running.Stop()
		if err := d.store.Close(); err != nil {
			t.Fatal(err)
		}
		d.open(file)
		for range 4 {
			d.audited() // there are more than were noted
		}
		d.start()
		if got := strings.Contains(d.logged(), "the audit is not the one whose head was noted before"); got != want {
			t.Errorf("%s: the log says %q", file, d.logged())
		}
	}
}

// TestEntryWithoutHashIsNotNoted hides the hashes, as they are when somebody took
// them away.
func TestEntryWithoutHashIsNotNoted(t *testing.T) {
	t.Parallel()
	d := setup(t, nil)
	d.audited()
	d.start()
	d.running.Stop()
	d.Head = func(ctx context.Context, at ...int64) (store.AuditHead, error) {
		head, err := d.store.AuditHead(ctx, at...)
		head.Hash = ""
		return head, err
	}
	noted := len(d.lines())
	d.start()
	for _, text := range []string{"the audit is not the one whose head was noted before", "the newest entry of the audit has no hash"} {
		if !strings.Contains(d.logged(), text) {
			t.Errorf("the log says %q, want %q", d.logged(), text)
		}
	}
	if len(d.lines()) != noted {
		t.Errorf("%d heads after %d", len(d.lines()), noted)
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

// TestTheFirstEntriesFindTheirWitnessSoon: an audit is verified on the day it
// begins, too.
func TestTheFirstEntriesFindTheirWitnessSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := setup(t, nil)
		d.start()
		time.Sleep(time.Minute)
		d.audited()
		time.Sleep(6 * time.Second)
		synctest.Wait()
		got := d.lines()
		if len(got) == 0 || !strings.Contains(got[len(got)-1], `"id":1`) || len(got) > 2 {
			t.Errorf("%q", got)
		}
	})
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
