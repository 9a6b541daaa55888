package records_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"muster/dispatcher/internal/cli/records"
	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/store"
)

// vault is a data folder with an open store.
type vault struct {
	t      *testing.T
	folder string
	store  *store.Store
}

func newVault(t *testing.T) *vault {
	t.Helper()
	v := &vault{t: t, folder: t.TempDir()}
	v.open()
	t.Cleanup(func() { _ = v.store.Close() })
	return v
}

func (v *vault) open() {
	v.t.Helper()
	s, err := store.Open(v.t.Context(), store.Options{Path: filepath.Join(v.folder, "muster.db")})
	if err != nil {
		v.t.Fatal(err)
	}
	v.store = s
}

func (v *vault) audited(n int) {
	v.t.Helper()
	for range n {
		if err := v.store.Audit(v.t.Context(), "ada", "tested", "x", "", time.Now()); err != nil {
			v.t.Fatal(err)
		}
	}
}

// run runs backup or restore, and returns what it said.
func (v *vault) run(args ...string) (stdout string, err error) {
	v.t.Helper()
	var out bytes.Buffer
	root := &cobra.Command{Use: "dispatcher", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(records.Commands()...)
	root.SetArgs(append(args, "--data", v.folder))
	root.SetOut(&out)
	err = root.ExecuteContext(v.t.Context())
	return out.String(), err
}

func TestBackupAndRestoreFromTheShell(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.audited(3)
	file := filepath.Join(t.TempDir(), "backup.db")
	said, err := v.run("backup", file)
	if err != nil || !strings.HasPrefix(said, file+": ") || !strings.HasSuffix(said, "the newest audit entry is 3\n") {
		t.Fatalf("%q, %v", said, err)
	}
	if _, err := v.run("backup", file); err == nil || !strings.Contains(err.Error(), "name a file that is not there") {
		t.Errorf("over a file: %v", err)
	}
	v.audited(2)
	if _, err := v.run("restore", file); err == nil || !strings.Contains(err.Error(), "stop the dispatcher first") {
		t.Errorf("under a running dispatcher: %v", err)
	}
	if err := v.store.Close(); err != nil {
		t.Fatal(err)
	}
	said, err = v.run("restore", file)
	for _, part := range []string{"whose newest audit entry is 3; it begins epoch ", "0 open tasks go on; 0 attempts ran at the backup", "muster.db.replaced-"} {
		if !strings.Contains(said, part) {
			t.Errorf("%q does not say %q, %v", said, part, err)
		}
	}
	v.open()
	var last store.AuditEntry
	err = store.ReadAudit(t.Context(), filepath.Join(v.folder, "muster.db"), time.Time{}, "", func(e store.AuditEntry) error {
		last = e
		return nil
	})
	if err != nil || last.ID != 4 || last.Action != "restored" || !strings.HasPrefix(last.Actor, "host:") {
		t.Errorf("%+v, %v", last, err)
	}
}

func TestBackupSaysWhatItMadeAsJSON(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	v.audited(2)
	file := filepath.Join(t.TempDir(), "backup.db")
	said, err := v.run("backup", file, "--json")
	var got struct {
		File       string
		Bytes      int64
		NewestID   int64
		AuditHolds bool
	}
	if err != nil || json.Unmarshal([]byte(said), &got) != nil {
		t.Fatalf("%q, %v", said, err)
	}
	info, err := os.Stat(file)
	if err != nil || got.File != file || got.Bytes != info.Size() || got.NewestID != 2 || !got.AuditHolds {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestRestoreOfADamagedBackupSaysSo(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	if err := v.store.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "backup.db")
	if err := os.WriteFile(file, []byte(strings.Repeat("all work and no play\n", 500)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := v.run("restore", file); err == nil || !strings.Contains(err.Error(), "nothing was changed, use another backup") {
		t.Errorf("restored: %v", err)
	}
}

// TestRunsAndTasksAreListedFromTheDatabase, and migrate finds nothing to do in it.
func TestRunsAndTasksAreListedFromTheDatabase(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	now := time.Now()
	run := store.Run{RunID: "run-1", Job: "probe", JobVersion: 1, RequestedBy: "wang", Reason: "查一下", Input: []byte("{}"), Policy: job.DefaultPolicy(), Targets: 1,
		CreatedAt: now, BarrierAt: now.Add(time.Minute), MakeupUntil: now.Add(time.Hour)}
	if _, err := v.store.CreateRun(t.Context(), run, []store.Place{{StoreID: "007", Name: "a", TimeZone: "UTC"}},
		[]store.NewTask{{TaskID: "task-1", StoreID: "007"}}, store.Request{}, now); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"run-1  probe  collecting  1       0         ": {"runs"},
		`"reason": "查一下"`:                              {"runs", "--json", "--open"},
		"007    PENDING  0 of 2":                       {"tasks", "run-1"},
		"0 tasks\n":                                    {"tasks", "run-1", "--status", "Failed"},
		"\n1 run\n":                                    {"runs"},
		"\n0 runs\n":                                   {"runs", "--job", "nope"},
		`"storeId": "007"`:                             {"tasks", "run-1", "--json"},
	} {
		if out, err := v.run(args...); err != nil || !strings.Contains(out, want) {
			t.Errorf("%v: %v: %s", args, err, out)
		}
	}
	for want, args := range map[string][]string{"there is no run": {"tasks", "run-2"}, "must be pending": {"tasks", "run-1", "--status", "lost"}, "must be 1 to 10000": {"runs", "--limit", "0"},
		"stop the dispatcher first": {"migrate"}} {
		if _, err := v.run(args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", args, err, want)
		}
	}
	if err := v.store.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := v.run("migrate"); err != nil || !strings.Contains(out, "which is this program's") {
		t.Errorf("migrate: %v: %s", err, out)
	}
}

// TestADatabaseThatIsNotThereIsSaidWithWhatToDo, by every command that reads one.
func TestADatabaseThatIsNotThereIsSaidWithWhatToDo(t *testing.T) {
	t.Parallel()
	for name, folder := range map[string]string{"no folder": filepath.Join(t.TempDir(), "nope"), "a folder without one": t.TempDir()} {
		v := &vault{t: t, folder: folder}
		for _, args := range [][]string{{"runs"}, {"tasks", "run-1"}, {"backup", filepath.Join(t.TempDir(), "copy.db")}, {"migrate"}} {
			if out, err := v.run(args...); err == nil || !strings.Contains(err.Error(), filepath.Join(folder, "muster.db")) ||
				!strings.Contains(err.Error(), "name the data folder of a headquarters that has been started") {
				t.Errorf("%s: %v: %v: %s", name, args, err, out)
			}
		}
	}
}
