package records_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/auditor"
	"muster/dispatcher/internal/store"
)

// forge edits an entry and makes chain and heads agree again, as far as somebody
// can who has the database, the reports and no key.
func (a *archive) forge(id int64, disguise func(head map[string]any)) {
	a.t.Helper()
	edit := strings.NewReplacer(fmt.Sprint("till ", id), fmt.Sprint("bill ", id))
	pairs := []string{fmt.Sprint("till ", id), fmt.Sprint("bill ", id)}
	hashes := map[int64]string{}
	var before, now string
	err := store.ReadAudit(a.t.Context(), filepath.Join(a.data, "muster.db"), time.Time{}, "", func(e store.AuditEntry) error {
		linked := func(prev, subject string) string {
			text := fmt.Sprintf(`{"action":%q,"actor":%q,"at":%d,"detail":%q,"id":%d,"subject":%q}`, e.Action, e.Actor, e.At.UnixMilli(), e.Detail, e.ID, subject)
			return fmt.Sprintf("%x", sha256.Sum256([]byte(prev+text)))
		}
		before, now = linked(before, e.Subject), linked(now, edit.Replace(e.Subject))
		pairs = append(pairs, before, now)
		hashes[e.ID] = now
		return nil
	})
	if err != nil {
		a.t.Fatal(err)
	}
	a.overwrite(pairs...)
	a.rewriteHeads(func(head map[string]any) {
		if at, ok := head["id"].(float64); ok && int64(at) >= id {
			head["hash"] = hashes[int64(at)]
			disguise(head)
		}
	})
}

// rewriteHeads changes the lines of the file of heads.
func (a *archive) rewriteHeads(change func(head map[string]any)) {
	a.t.Helper()
	data, err := os.ReadFile(auditor.HeadsFile(a.reports))
	if err != nil {
		a.t.Fatal(err)
	}
	var out []byte
	for line := range bytes.Lines(data) {
		var head map[string]any
		if err := json.Unmarshal(line, &head); err != nil {
			a.t.Fatal(err)
		}
		change(head)
		out = fmt.Appendf(out, `{"id":%v,"hash":"%v","count":%v,"at":"%v"`, head["id"], head["hash"], head["count"], head["at"])
		if head["kid"] != nil {
			out = fmt.Appendf(out, `,"kid":"%v","sig":"%v"`, head["kid"], head["sig"])
		}
		out = append(out, "}\n"...)
	}
	if err := os.WriteFile(auditor.HeadsFile(a.reports), out, 0o600); err != nil {
		a.t.Fatal(err)
	}
}

func stripped(head map[string]any) { delete(head, "kid") }

func byUnknown(head map[string]any) { head["kid"] = strings.Repeat("0", 16) }

func TestForgedHeadsProveNoForgedChain(t *testing.T) {
	t.Parallel()
	for name, disguise := range map[string]func(map[string]any){"stripped": stripped, "by an unknown key": byUnknown} {
		for from, edited := range map[string]int64{"some": 4, "all": 1} {
			t.Run(name+", "+from, func(t *testing.T) {
				t.Parallel()
				a := newArchive(t)
				if from == "some" {
					a.note(a.signer, 3)
				} else {
					a.audited(1) // no head of nothing
				}
				a.note(a.signer, 3)
				a.forge(edited, disguise)
				if out, code := a.verify(); code != 0 {
					t.Fatalf("the forgery is not good enough: %s", out)
				}
				out, code := a.verify(a.withIdentity()...)
				if code != 1 || !strings.Contains(out, "the file of heads was tampered with: line ") {
					t.Errorf("code %d, %s", code, out)
				}
				a.reopen()
				a.note(a.signer, 1) // headquarters goes on, and signs
				if out, code := a.verify(a.withIdentity()...); code != 1 || !strings.Contains(out, "the file of heads was tampered with: line ") {
					t.Errorf("signed on: code %d, %s", code, out)
				}
			})
		}
	}
}

// TestHeadOfNothingProvesNothing leaves only the head that was noted before
// there was an entry.
func TestHeadOfNothingProvesNothing(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	a.note(a.signer, 0)
	a.audited(3)
	if out, code := a.verify(a.withIdentity()...); code != 1 || !strings.Contains(out, "no noted head of an entry is signed") || strings.Contains(out, "up to entry 0") {
		t.Errorf("code %d, %s", code, out)
	}
}

func TestHeadsMustCoverWhatIsLongDone(t *testing.T) {
	t.Parallel()
	for minutes, code := range map[int]int{10: 0, 11: 1} {
		a := newArchive(t)
		a.note(a.signer, 3)
		now := time.Now()
		for _, later := range []int{0, minutes} {
			if err := a.store.Audit(t.Context(), "ada", "tested", "it", "", now.Add(time.Duration(later)*time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
		out, got := a.verify(a.withIdentity()...)
		if got != code || code == 1 && !strings.Contains(out, "the newest noted head is of entry 3, and what is newer spans 11m0s: heads are missing") {
			t.Errorf("%d minutes: code %d, %s", minutes, got, out)
		}
		if out, got := a.verify("--identity", a.identity, "--old-heads"); got != 0 || !strings.Contains(out, "up to entry 3, and 2 entries are newer") {
			t.Errorf("%d minutes, an older copy: code %d, %s", minutes, got, out)
		}
	}
}

func (a *archive) reopen() {
	a.t.Helper()
	path := filepath.Join(a.data, "muster.db")
	if err := os.Remove(path + ".sha256"); err != nil && !errors.Is(err, fs.ErrNotExist) { // it vouches for the file
		a.t.Fatal(err)
	}
	var err error
	if a.store, err = store.Open(a.t.Context(), store.Options{Path: path}); err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = a.store.Close() })
}

func TestAuditFindsItsFoldersInTheConfiguration(t *testing.T) {
	t.Parallel()
	a := newArchive(t)
	a.note(a.signer, 3)
	folder := t.TempDir()
	config := filepath.Join(folder, "dispatcher.yaml")
	write := func(name, identity string) {
		t.Helper()
		reports, err := filepath.Rel(folder, a.reports)
		if err == nil {
			err = os.WriteFile(name, fmt.Appendf(nil, "data_folder: %s\nreports_folder: %s\nidentity: {folder: %q}\n", a.data, reports, identity), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write(config, a.identity)
	if out, code, err := audit(t.Context(), "verify", "-c", config); code != 0 || !strings.Contains(out, "3 entries") || !strings.Contains(out, "a signed head vouches for all of it") {
		t.Errorf("code %d, %q, %v", code, out, err)
	}
	if out, code, err := audit(t.Context(), "show", "-c", config); code != 0 || strings.Count(out, "ada") != 3 {
		t.Errorf("code %d, %q, %v", code, out, err)
	}
	if out, code, err := audit(t.Context(), "verify", "-c", config, "--reports", t.TempDir()); code != 1 || !strings.Contains(out, "no noted head") {
		t.Errorf("a copy of the heads: code %d, %q, %v", code, out, err)
	}
	write(config, "")
	if out, code, err := audit(t.Context(), "verify", "-c", config); code != 0 || !strings.Contains(out, "were not checked") {
		t.Errorf("without an identity: code %d, %q, %v", code, out, err)
	}
}
