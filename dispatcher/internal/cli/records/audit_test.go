package records_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/auditor"
	"muster/dispatcher/internal/cli/records"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/trust"
)

// archive is headquarters' folders with a real audit, noted by a real auditor.
type archive struct {
	t                       *testing.T
	data, reports, identity string
	store                   *store.Store
	signer                  *trust.Signer
	entries                 int
}

func newArchive(t *testing.T) *archive {
	t.Helper()
	a := &archive{t: t, data: t.TempDir(), reports: t.TempDir(), identity: t.TempDir()}
	var err error
	if a.store, err = store.Open(t.Context(), store.Options{Path: filepath.Join(a.data, "muster.db")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.store.Close() })
	a.makeIdentity()
	return a
}

// makeIdentity makes an authority and a list of one signing key.
func (a *archive) makeIdentity() {
	a.t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	a.signer = trust.NewSigner(private)
	ca, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Muster"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, template, template, ca.Public(), ca)
	if err != nil {
		a.t.Fatal(err)
	}
	text, err := trust.Document{Version: 1, At: protocol.At(time.Now()), Keys: []trust.Key{{KeyID: a.signer.KeyID(), Public: public,
		NotBefore: protocol.At(time.Now().Add(-time.Hour)), NotAfter: protocol.At(time.Now().Add(time.Hour))}}}.Text()
	if err != nil {
		a.t.Fatal(err)
	}
	digest := sha256.Sum256([]byte(text))
	signature, err := ca.Sign(rand.Reader, digest[:], crypto.SHA256)
	if err != nil {
		a.t.Fatal(err)
	}
	sealed, err := protocol.Encode(trust.Sealed{Document: text, Signature: signature})
	if err != nil {
		a.t.Fatal(err)
	}
	for name, content := range map[string][]byte{"ca.crt": trust.EncodeCertificate(der), "trust.json": sealed} {
		if err := os.WriteFile(filepath.Join(a.identity, name), content, 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
}

// note lets headquarters start, work and stop.
func (a *archive) note(signer *trust.Signer, entries int) {
	a.t.Helper()
	step := auditor.New(auditor.Config{Head: a.store.AuditHead, Signer: func() *trust.Signer { return signer }, Folder: a.reports,
		Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
	if err := step.Start(a.t.Context()); err != nil {
		a.t.Fatal(err)
	}
	a.audited(entries)
	step.Stop()
}

func (a *archive) audited(entries int) {
	a.t.Helper()
	for range entries {
		a.entries++
		if err := a.store.Audit(a.t.Context(), "ada", "tested", fmt.Sprint("till ", a.entries), "", time.Now()); err != nil {
			a.t.Fatal(err)
		}
	}
}

// overwrite changes bytes of the database, as an editor of bytes would.
func (a *archive) overwrite(pairs ...string) {
	a.t.Helper()
	if err := a.store.Close(); err != nil { // what the log held is in the file now
		a.t.Fatal(err)
	}
	path := filepath.Join(a.data, "muster.db")
	data, err := os.ReadFile(path)
	if err != nil {
		a.t.Fatal(err)
	}
	changed := []byte(strings.NewReplacer(pairs...).Replace(string(data)))
	if bytes.Equal(changed, data) {
		a.t.Fatal("nothing was there to change")
	}
	if err := os.WriteFile(path, changed, 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// setBack puts the database back to what it was before work was done.
func (a *archive) setBack(work func()) {
	a.t.Helper()
	path := filepath.Join(a.data, "muster.db")
	reopened := func() []byte {
		if err := a.store.Close(); err != nil {
			a.t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			a.t.Fatal(err)
		}
		if a.store, err = store.Open(a.t.Context(), store.Options{Path: path}); err != nil {
			a.t.Fatal(err)
		}
		return data
	}
	before := reopened()
	work()
	reopened()
	if err := a.store.Close(); err != nil {
		a.t.Fatal(err)
	}
	if err := os.WriteFile(path, before, 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// audit runs dispatcher audit with arguments.
func audit(ctx context.Context, args ...string) (out string, code int, err error) {
	var printed bytes.Buffer
	cmd := records.AuditCommand()
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(args)
	cmd.SetOut(&printed)
	cmd.SetErr(&printed)
	err = cmd.ExecuteContext(ctx)
	var coded interface{ ExitCode() int }
	switch {
	case err == nil:
	case errors.As(err, &coded):
		code = coded.ExitCode()
	default:
		code = 2
	}
	return printed.String(), code, err
}

func (a *archive) verify(more ...string) (string, int) {
	a.t.Helper()
	out, code, err := audit(a.t.Context(), append([]string{"verify", "--data", a.data, "--reports", a.reports}, more...)...)
	if code == 2 {
		a.t.Fatal(err)
	}
	return out, code
}

func TestAuditVerifySaysInOneSentenceWhatHolds(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	want := func(text string, args ...string) {
		t.Helper()
		if out, code := a.verify(args...); code != 0 || out != text+"\n" {
			t.Errorf("%v: code %d, %q, want %q", args, code, out, text)
		}
	}
	want("the audit holds: 0 entries, none changed, moved or missing", "--identity", a.identity)
	a.note(a.signer, 3)
	want("the audit holds: 3 entries, none changed, moved or missing; a signed head vouches for all of it", "--identity", a.identity)
	want("the audit holds: 3 entries, none changed, moved or missing; 1 noted head agrees, whose signatures were not checked (--identity)")
	a.audited(1)
	file, err := os.OpenFile(auditor.HeadsFile(a.reports), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"id":4`); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	want("the audit holds: 4 entries, none changed, moved or missing; signed heads vouch for it up to entry 3, and 1 entry is newer; "+
		"the last line of heads was cut short and does not count", "--identity", a.identity)
}

func TestAuditVerifySaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		do   func(a *archive)
		args func(a *archive) []string
		want []string
	}{
		"edited": {func(a *archive) { a.overwrite("till 2", "bill 2", "till 4", "bill 4") }, nil,
			[]string{"the audit does not hold: entry 2 was changed: its hash does not fit what it says (and 1 more)\nalso: entry 4 was changed"}},
		"set back": {func(a *archive) { a.setBack(func() { a.note(a.signer, 2) }) }, nil,
			[]string{"entries 6 to 7 are missing at the end: entry 7 was noted down, and the newest here is 5"}},
		"heads forged": {func(a *archive) {
			data, err := os.ReadFile(auditor.HeadsFile(a.reports))
			if err == nil {
				err = os.WriteFile(auditor.HeadsFile(a.reports), bytes.Replace(data, []byte(`"count":5`), []byte(`"count":6`), 1), 0o600)
			}
			if err != nil {
				a.t.Fatal(err)
			}
		}, (*archive).withIdentity, []string{"the file of heads was tampered with: line 2: key ", "the signature does not fit"}},
		"heads by nobody": {func(a *archive) {
			if err := os.Remove(auditor.HeadsFile(a.reports)); err != nil {
				a.t.Fatal(err)
			}
			a.note(nil, 1)
		}, (*archive).withIdentity, []string{"line 1: it is not signed, and headquarters had a key", "line 2: ", "no noted head of an entry is signed by a key of headquarters"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newArchive(t)
			a.note(a.signer, 5)
			tt.do(a)
			var args []string
			if tt.args != nil {
				args = tt.args(a)
			}
			out, code := a.verify(args...)
			for _, part := range tt.want {
				if code != 1 || !strings.Contains(out, part) {
					t.Errorf("code %d, %q, want 1 and %q", code, out, part)
				}
			}
			out, code = a.verify(append(args, "--json")...)
			var found struct {
				OK     bool   `json:"ok"`
				Text   string `json:"text"`
				Wrong  int    `json:"wrong"`
				Faults []struct {
					Kind string `json:"kind"`
					Text string `json:"text"`
				} `json:"faults"`
			}
			if err := json.Unmarshal([]byte(out), &found); err != nil || code != 1 || found.OK || found.Wrong != len(found.Faults) || found.Wrong == 0 ||
				!strings.Contains(found.Text, found.Faults[0].Text) {
				t.Errorf("as JSON: code %d, %s, %v", code, out, err)
			}
		})
	}
}

func (a *archive) withIdentity() []string { return []string{"--identity", a.identity} }

func TestAuditVerifyRefusesWhatItCannotLookAt(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	none := filepath.Join(a.data, "none")
	other := newArchive(t)
	list, err := os.ReadFile(filepath.Join(other.identity, "trust.json"))
	if err == nil {
		err = os.WriteFile(filepath.Join(a.identity, "trust.json"), list, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string][]string{
		"at least one of the flags in the group [config data] is required":       {"verify"},
		"say -c CONFIG, or --reports with":                                       {"verify", "--data", a.data},
		"cannot read the configuration":                                          {"verify", "-c", none},
		"cannot read " + filepath.Join(a.identity, "ca.crt") + ": it is no YAML": {"show", "-c", filepath.Join(a.identity, "ca.crt")},
		filepath.Join(none, "muster.db"):                                         {"verify", "--data", none, "--reports", a.reports},
		"cannot look into the reports folder":                                    {"verify", "--data", a.data, "--reports", none},
		"cannot read the certificate of the":                                     {"verify", "--data", a.data, "--reports", a.reports, "--identity", none},
		"cannot trust the list of keys":                                          {"verify", "--data", a.data, "--reports", a.reports, "--identity", a.identity},
		`--since "soon" is no time; write 24h`:                                   {"show", "--data", a.data, "--since", "soon"},
	}
	for text, args := range tests {
		if out, code, err := audit(t.Context(), args...); code != 2 || err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v: code %d, %q, %v, want %q", args, code, out, err, text)
		}
	}
}

func TestAuditShowPrintsEntries(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	now := time.Now()
	for actor, at := range map[string]time.Time{"ada": now.Add(-48 * time.Hour), "bob": now.Add(-time.Hour)} {
		if err := a.store.Audit(t.Context(), actor, "tested", "the till", "line\n\x1b[31mred \u202e中文", at); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		args     []string
		ada, bob bool
	}{
		{nil, true, true},
		{[]string{"--since", "24h"}, false, true},
		{[]string{"--since", now.Add(-72 * time.Hour).Format(time.RFC3339)}, true, true},
		{[]string{"--since", now.Add(24 * time.Hour).Format(time.DateOnly)}, false, false},
		{[]string{"--actor", "ada"}, true, false},
		{[]string{"--actor", "ada", "--since", "24h"}, false, false},
	}
	for _, tt := range tests {
		out, code, err := audit(t.Context(), append([]string{"show", "--data", a.data}, tt.args...)...)
		if code != 0 || strings.Contains(out, "ada") != tt.ada || strings.Contains(out, "bob") != tt.bob || strings.ContainsAny(out, "\x1b\u202e") {
			t.Errorf("%v: code %d, %q, %v", tt.args, code, out, err)
		}
		if lines := strings.Count(out, "\n"); lines != 1+strings.Count(out, "the till") {
			t.Errorf("%v: %d lines in %q", tt.args, lines, out)
		}
	}
	out, _, err := audit(t.Context(), "show", "--data", a.data, "--actor", "bob", "--json")
	var line struct {
		ID                             int64
		At                             time.Time
		Actor, Action, Subject, Detail string
	}
	if err != nil || json.Unmarshal([]byte(out), &line) != nil || line.Actor != "bob" || line.Subject != "the till" || line.Detail != "line\n\x1b[31mred \u202e中文" ||
		!line.At.Equal(now.Add(-time.Hour).Truncate(time.Millisecond)) || strings.Count(out, "\n") != 1 {
		t.Errorf("%+v from %q, %v", line, out, err)
	}
}
