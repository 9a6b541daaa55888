package quarantine_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/quarantine"
)

var when = time.Date(2026, 9, 17, 10, 11, 12, 0, time.UTC)

func answer(task string) quarantine.Answer {
	return quarantine.Answer{StoreID: "S1", TerminalID: "pos1", TaskID: task, Attempt: 1, SHA256: strings.Repeat("a", 64)}
}

func open(t testing.TB, folder string) *quarantine.Quarantine {
	t.Helper()
	q, err := quarantine.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	return q
}

func kept(t *testing.T, folder string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, "*.message.json"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestTriesAreCountedAcrossARestart(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for life := range 3 {
		q := open(t, folder)
		if got := q.Tries(answer("T1")); got != life {
			t.Errorf("life %d remembers %d tries", life, got)
		}
		if got := q.Broke(answer("T1")); got != life+1 {
			t.Errorf("try %d is counted as %d", life+1, got)
		}
		other := answer("T1")
		other.SHA256 = strings.Repeat("b", 64)
		if q.Tries(other) != 0 || q.Tries(answer("T2")) != 0 {
			t.Error("another answer is blamed")
		}
	}
}

func TestWhatIsForgivenIsForgottenAcrossARestart(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	q := open(t, folder)
	a, b := quarantine.Message("t", []byte("x")), quarantine.Message("tx", nil)
	if a == b {
		t.Fatal("two messages have one name")
	}
	q.Broke(a)
	q.Broke(b)
	q.Forgive(a)
	q.Forgive(a)
	for _, q := range []*quarantine.Quarantine{q, open(t, folder)} {
		if q.Tries(a) != 0 || q.Tries(b) != 1 {
			t.Errorf("%d and %d tries", q.Tries(a), q.Tries(b))
		}
	}
	var none *quarantine.Quarantine
	none.Forgive(a)
}

func TestATornCountStartsAnew(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	open(t, folder).Broke(answer("T1"))
	if err := os.WriteFile(filepath.Join(folder, "tries.json"), []byte(`[{"taskId":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := open(t, folder).Broke(answer("T1")); got != 1 {
		t.Errorf("counted %d", got)
	}
}

func TestAMessageIsKeptAsItIsForItsOwnerAlone(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "quarantine")
	q := open(t, folder)
	hostile := answer("../../etc/passwd\x00 é")
	for _, a := range []quarantine.Answer{answer("01K5T1"), hostile, answer(strings.Repeat("x", 5000)), answer("")} {
		q.Judging(a)()
		message := []byte("\x00\xff" + a.TaskID)
		name, err := q.Keep(a, message, when)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name)
		if err != nil || !bytes.Equal(got, message) {
			t.Errorf("kept %q, %v", got, err)
		}
		base := filepath.Base(name)
		if filepath.Dir(name) != folder || len(base) > 140 || strings.Trim(base, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != "" || strings.Contains(base, "..") {
			t.Errorf("the file is called %q", name)
		}
		if info, err := os.Stat(name); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
	}
	if info, err := os.Stat(folder); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
		t.Errorf("the folder's mode is %v, %v", info.Mode(), err)
	}
}

func TestTheNumberOfKeptMessagesIsBounded(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	q := open(t, folder)
	q.Broke(answer("T"))
	for i := range 70 {
		if _, err := q.Keep(answer("T"), fmt.Append(nil, i), when.Add(time.Duration(i)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	left := kept(t, folder)
	if len(left) != 64 {
		t.Errorf("%d messages are kept", len(left))
	}
	if oldest, err := os.ReadFile(left[0]); err != nil || string(oldest) != "6" {
		t.Errorf("the oldest that is left is %s, %v", oldest, err)
	}
	for i := range 300 {
		q.Broke(answer(fmt.Sprint(i)))
	}
	if q.Tries(answer("T")) != 0 || q.Tries(answer("299")) != 1 {
		t.Error("the counts are not bounded, or the newest is forgotten")
	}
}

func TestNoQuarantineKeepsAndBlamesNothing(t *testing.T) {
	t.Parallel()
	var q *quarantine.Quarantine
	q.Judging(answer("T"))()
	if q.Broke(answer("T")) != 1 || q.Tries(answer("T")) != 0 || q.Close() != nil {
		t.Error("a nil quarantine is not harmless")
	}
	if _, err := q.Keep(answer("T"), nil, when); err == nil {
		t.Error("a nil quarantine says that it kept something")
	}
}

// TestAProcessThatDiesWhileJudgingLeavesWhatItJudged kills this very program in
// the middle of a judgement, three times.
func TestAProcessThatDiesWhileJudgingLeavesWhatItJudged(t *testing.T) {
	if folder := os.Getenv("QUARANTINE_DIES_IN"); folder != "" {
		q, err := quarantine.Open(folder)
		if err != nil {
			t.Fatal(err)
		}
		for range 100 { // more than there is room for at a time
			q.Judging(answer("GOOD"))()
		}
		_ = q.Judging(answer("POISON"))
		own, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = own.Kill()
		}
		if err != nil {
			t.Fatal(err)
		}
		select {}
	}
	if runtime.GOOS != "linux" {
		t.Skip("notes outlive the process where files can be mapped")
	}
	t.Parallel()
	folder := t.TempDir()
	for try := range 3 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAProcessThatDiesWhileJudgingLeavesWhatItJudged$")
		cmd.Env = append(os.Environ(), "QUARANTINE_DIES_IN="+folder)
		if out, err := cmd.CombinedOutput(); err == nil || strings.Contains(string(out), "FAIL") {
			t.Fatalf("it did not die: %v\n%s", err, out)
		}
		if try == 1 {
			continue // a life that nobody looked into
		}
		q, err := quarantine.Open(folder)
		if err != nil {
			t.Fatal(err)
		}
		if got := q.Tries(answer("POISON")); got != try+1 {
			t.Errorf("after death %d: %d tries", try+1, got)
		}
		if got := q.Tries(answer("GOOD")); got != 0 {
			t.Errorf("what was judged before is blamed %d times", got)
		}
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestANoteIsCountedOnceThoughNoNewSheetCanBeMade, as on a full disk.
func TestANoteIsCountedOnceThoughNoNewSheetCanBeMade(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("notes outlive the process where files can be mapped")
	}
	t.Parallel()
	folder := t.TempDir()
	open(t, folder).Judging(answer("T1")) // and never done
	if err := os.MkdirAll(filepath.Join(folder, "judging.tmp", "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	for start := range 3 {
		q := open(t, folder)
		if got := q.Tries(answer("T1")); got != 1 {
			t.Errorf("start %d counts %d tries after one death", start+1, got)
		}
		q.Judging(answer("T2"))()
	}
}

// A note is no system call: it stands before every answer.
func BenchmarkJudging(b *testing.B) {
	q := open(b, b.TempDir())
	a := answer("01K5T1AAAAAAAAAAAAAAAAAAAA")
	b.ReportAllocs()
	for b.Loop() {
		q.Judging(a)()
	}
}
