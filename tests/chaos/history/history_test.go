package history_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/tests/chaos/history"
)

func create(t *testing.T, folder, who string, role history.Role) *history.Writer {
	t.Helper()
	w, err := history.Create(folder, history.Participant{Who: who, Role: role})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func read(t *testing.T, folder string) history.History {
	t.Helper()
	h, err := history.Read(folder)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestWhatWasWrittenComesBackInTheOrderOfTime(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	wang := create(t, folder, "wang", history.RoleClient)
	agent, err := history.Create(folder, history.Participant{Who: "A/pos1", Role: history.RoleAgent, Store: "A", Terminal: "pos1"})
	if err != nil {
		t.Fatal(err)
	}
	answered, err := wang.Asked("muster/v1/req/wang/run", []byte(`{"job":"probe"}`))
	steps := []error{err, agent.Connected(true), agent.Subscribed("muster/v1/stores/A/tasks/+"), agent.Got("topic", []byte("{\n}"), true),
		agent.Executed("T", 2), agent.Sent("topic", []byte(`"店"`), false), answered(history.OutcomeUnknown, nil),
		wang.Looked("2026/09/a.json", []byte("abc")), wang.Fault("broker", true), wang.Sampled("dispatcher", 7, history.Sample{Threads: 5}),
		agent.Connected(false), agent.Close()}
	for i, err := range steps {
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	var acts []string
	h := read(t, folder)
	for _, l := range h.Lines {
		acts = append(acts, string(l.Act))
		if l.AtMs == 0 || l.Source == "" || l.Who == "" || l.Role == "" {
			t.Errorf("line %+v does not say who, when and where", l)
		}
	}
	want := "asked connected subscribed got executed sent answered looked fault sampled disconnected"
	if got := strings.Join(acts, " "); got != want || len(h.Torn) != 0 {
		t.Fatalf("acts %s, torn %v; want %s", got, h.Torn, want)
	}
	if l := h.Lines[3]; l.Payload != "{\n}" || !l.Retained || l.Store != "A" || l.Terminal != "pos1" {
		t.Errorf("got %+v", l)
	}
	if ask, end := h.Lines[0], h.Lines[6]; ask.Call == 0 || ask.Call != end.Call || end.Outcome != history.OutcomeUnknown {
		t.Errorf("asked %+v, answered %+v", ask, end)
	}
	if l := h.Lines[7]; l.SHA256 != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" || l.Bytes != 3 {
		t.Errorf("looked %+v", l)
	}
}

func TestASimulationHasItsOwnClock(t *testing.T) {
	t.Parallel()
	folder, ticks := t.TempDir(), int64(0)
	w, err := history.CreateBy(func() (int64, int64) { ticks++; return 1000 + ticks, ticks }, folder, history.Participant{Who: "wang", Role: history.RoleClient})
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{w.Fault("x", true), w.Fault("x", false), w.Close()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	h := read(t, folder)
	if len(h.Lines) != 2 || h.Lines[0].AtMs != 1001 || h.Lines[1].AtMs != 1002 || h.Lines[1].MonoUs != 2 {
		t.Errorf("lines %+v", h.Lines)
	}
}

func TestConcurrentLinesAreWholeAndInOrder(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	w := create(t, folder, "A/pos1", history.RoleAgent)
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for n := range 50 {
				if err := w.Executed(fmt.Sprintf("T%d", worker), n+1); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	next := map[string]int{}
	h := read(t, folder)
	for _, l := range h.Lines {
		if next[l.Task]++; l.Attempt != next[l.Task] {
			t.Fatalf("%s: %s/%d stands where /%d belongs", l.Source, l.Task, l.Attempt, next[l.Task])
		}
	}
	if len(h.Lines) != 400 {
		t.Errorf("%d lines of 400", len(h.Lines))
	}
}

// TestMain is the other process too.
func TestMain(m *testing.M) {
	if folder := os.Getenv("HISTORY_FOLDER"); folder != "" {
		os.Exit(writeForever(folder))
	}
	os.Exit(m.Run())
}

func writeForever(folder string) int {
	w, err := history.Create(folder, history.Participant{Who: "other", Role: history.RoleCollector})
	for n := 1; err == nil; n++ {
		if err = w.Executed("T", n); err == nil {
			_, err = fmt.Fprintln(os.Stdout, n)
		}
	}
	return 1
}

func TestKilledWritersLeaveEveryLineThatTheyWereToldIsThere(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	told := 0
	for range 2 { // a second life has a file of its own
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), "HISTORY_FOLDER="+folder)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		scan := bufio.NewScanner(out)
		for n := 0; n < 30 && scan.Scan(); n++ {
			told++
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.jsonl"))
	if err != nil || len(files) != 2 || told != 60 {
		t.Fatalf("files %v, told %d, %v", files, told, err)
	}
	if h := read(t, folder); len(h.Lines) < told {
		t.Errorf("%d lines, %d were told to be there", len(h.Lines), told)
	}
}

func TestTornLastLineIsLeftOutAndNamed(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	put(t, folder, "a.jsonl", `{"at":5,"who":"a","role":"client","act":"fault","name":"x"}`+"\n"+`{"at":6,"who":"a","ro`)
	put(t, folder, "b.markers", "T 1 99 7\nT 2 99")
	h := read(t, folder)
	if len(h.Lines) != 2 || strings.Join(h.Torn, " ") != "a.jsonl b.markers" {
		t.Errorf("lines %+v, torn %v", h.Lines, h.Torn)
	}
}

func TestBrokenLinesAreErrorsThatSayWhere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, text, want string }{
		"not JSON":        {"a.jsonl", "{\"at\":5,\"act\":\"fault\"}\nnonsense\n", "cannot read the history at a.jsonl:2: invalid character"},
		"no act":          {"a.jsonl", "{\"at\":5}\n", `cannot read the history at a.jsonl:1: a line needs act and at, not "{\"at\":5}"`},
		"short marker":    {"a.markers", "T 1 99\n", "cannot read the history at a.markers:1: a marker is `task attempt pid when`, not \"T 1 99\""},
		"marker in words": {"a.markers", "T one 99 5\n", "cannot read the history at a.markers:1: a marker is `task attempt pid when` in numbers, not \"T one 99 5\""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			put(t, folder, c.file, c.text)
			if _, err := history.Read(folder); err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestShellScriptsMarkTheirExecutions(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	w := create(t, folder, "A/pos1", history.RoleAgent)
	if err := w.Got("before", nil, false); err != nil {
		t.Fatal(err)
	}
	wait(t, 5*time.Millisecond) // markers are whole milliseconds
	script := `echo "T1 2 $$ $(date +%s%3N)" >> "$1"`
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", script, "sh", filepath.Join(folder, "A.markers")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	wait(t, 5*time.Millisecond)
	if err := w.Got("after", nil, false); err != nil {
		t.Fatal(err)
	}
	h := read(t, folder)
	if len(h.Lines) != 3 {
		t.Fatalf("lines %+v", h.Lines)
	}
	mark := h.Lines[1]
	if mark.Task != "T1" || mark.Attempt != 2 || mark.PID == 0 || mark.Act != history.ActExecuted || mark.Role != history.RoleExecutor ||
		mark.Who != "A" || mark.Source != "A.markers:1" {
		t.Errorf("marker %+v", mark)
	}
}

func TestAProcessIsMeasuredWhileItIsThere(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/statm"); err != nil {
		t.Skip("there is no /proc")
	}
	if s, ok := history.Measure(os.Getpid()); !ok || s.Descriptors < 3 || s.RSSBytes < 1<<20 {
		t.Errorf("measured %+v %t", s, ok)
	}
	if s, ok := history.Measure(1 << 30); ok {
		t.Errorf("nobody uses %+v", s)
	}
}

// wait lets the clock go on.
func wait(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

func put(t *testing.T, folder, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
