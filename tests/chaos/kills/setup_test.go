// Package kills_test ends real programs with kill -9: at random moments, and at
// named points of what they do, which strace(1) meets from outside. The judge is
// the checker; nothing inside a program helps.
package kills_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/internal/protocol"
	"muster/internal/task"
	"muster/tests/chaos/history"
	"muster/tests/chaos/site"
	"muster/tests/chaos/strace"
	"muster/tests/programs"
)

// bin is the folder of the programs.
var bin string

func TestMain(m *testing.M) {
	programs.SideBySide(6)
	os.Exit(programs.BuildAndRun(m, func(folder string) { bin = folder }))
}

// policy leaves a second attempt to what is cut off, and renews no lease while a
// test looks.
const policy = "attempts: 2, retry_interrupted: true, run_timeout: 60s, lease: 60s, barrier: 60s, makeup: 1h, retry_first: 100ms, retry_max: 1s"

// delayed marks a call in a trace that has returned and is held.
const delayed = "(DELAYED)"

// grace is how long strace may take to see that its victim is dead.
const grace = 3 * time.Second

// scene is one store and one run.
type scene struct {
	*site.Site
	t           *testing.T
	person, eye *history.Writer
	agent       *programs.Process
}

func newScene(t *testing.T) *scene { t.Helper(); return newSceneOf(t, policy) }

func newSceneOf(t *testing.T, policy string) *scene {
	t.Helper()
	s := &scene{t: t, Site: site.New(t, bin, site.Config{Policy: policy, Work: site.AwaitGate, Claims: site.Executed()}, "A")}
	s.person, s.eye = s.Writer(site.Wang), s.Writer(site.Watch)
	s.Serve()
	s.startAgent()
	return s
}

func (s *scene) startAgent() {
	s.agent = s.Agent("A")
	s.agent.AwaitOutput("link is up")
}

const order = `{"requestId":"request-1","job":"probe","stores":["A"]}`

// ask orders the run; the outcome is unknown when headquarters dies.
func (s *scene) ask() (protocol.Reply, history.Outcome) {
	return s.Try(s.person, protocol.VerbRun, order, programs.Patience)
}

// later asks in the background, and gives the reply when it is called.
func (s *scene) later() func() (protocol.Reply, history.Outcome) {
	type answer struct {
		reply   protocol.Reply
		outcome history.Outcome
	}
	done := make(chan answer, 1)
	go func() {
		reply, outcome := s.ask()
		done <- answer{reply, outcome}
	}()
	return func() (protocol.Reply, history.Outcome) {
		a := <-done
		return a.reply, a.outcome
	}
}

// trap is a strace that waits for its victim at a point.
type trap struct {
	t      *testing.T
	tracer *programs.Process
	file   string
	victim *programs.Process
	held   int // lines of calls held so far
}

// set attaches strace to a running program.
func set(t *testing.T, s *scene, victim *programs.Process, options []string) *trap {
	t.Helper()
	tr := &trap{t: t, file: filepath.Join(s.Dir, "trap.trace"), victim: victim}
	line := strace.Attach(tr.file, options, victim.PID())
	tr.tracer = programs.Launch(t, line[0], line[1:]...)
	programs.Eventually(t, "strace at its victim", func() bool {
		select {
		case <-tr.tracer.Done():
			programs.Lack(t, "strace cannot attach: %s", tr.tracer.Output())
		default:
		}
		return strings.Contains(tr.tracer.Output(), "attached")
	})
	return tr
}

func (tr *trap) text() []byte {
	text, err := os.ReadFile(tr.file)
	if err != nil && !os.IsNotExist(err) {
		tr.t.Fatal(err)
	}
	return text
}

// another says that a further call has returned and that its thread is held
// there.
func (tr *trap) another() bool {
	n := bytes.Count(tr.text(), []byte(delayed))
	more := n > tr.held
	tr.held = n
	return more
}

// kill ends a victim of which a thread is held: that is gone with its tracer.
func (tr *trap) kill() {
	tr.t.Helper()
	if err := syscall.Kill(tr.victim.PID(), syscall.SIGKILL); err != nil {
		tr.t.Fatal(err)
	}
	tr.tracer.Kill()
}

// gone waits for the victim's end and says what it did.
func (tr *trap) gone() []strace.Call {
	tr.t.Helper()
	if code := tr.victim.ExitCode(); code != -1 {
		tr.t.Fatalf("the victim ended by itself, with code %d", code)
	}
	select { // what the victim left behind may run on under strace
	case <-tr.tracer.Done():
	case <-time.After(grace):
		tr.tracer.Terminate()
	}
	calls, err := strace.Parse(bytes.NewReader(tr.text()))
	if err != nil {
		tr.t.Fatal(err)
	}
	return calls
}

// ended wants the task of the one run done in that attempt, after that many
// executions, with its answer in the store and a whole report.
func (s *scene) ended(run string, attempt, executions int) {
	s.t.Helper()
	s.Revision(run, 1)
	evidence := s.Judge(s.eye)
	if n := s.Executions("A"); n != executions {
		s.t.Errorf("%d executions, want %d", n, executions)
	}
	tasks := evidence.Store.Tasks
	if len(tasks) != 1 || tasks[0].Status != task.Succeeded || tasks[0].Attempt != attempt {
		s.t.Fatalf("tasks %+v, want one that succeeded in attempt %d", tasks, attempt)
	}
	for _, a := range evidence.Store.Attempts {
		if a.Attempt == attempt && (a.Result == nil || *a.Result != `{"marker":"A did it"}`) {
			s.t.Errorf("the store holds %v", a.Result)
		}
	}
	for _, ending := range []string{".json", ".csv", ".html", ".xlsx", "_manifest.json"} {
		if files, _ := filepath.Glob(filepath.Join(s.Reports(), "*", "*", "*_r1"+ending)); len(files) != 1 {
			s.t.Errorf("report files %s: %v", ending, files)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(s.Kept("A"), "outbox", "*")); len(left) != 0 {
		s.t.Errorf("the outbox still holds %v", left)
	}
}

// pause stops headquarters as a frozen machine would, until resume is called.
func (s *scene) pause() (resume func()) {
	s.t.Helper()
	signal := func(what syscall.Signal, on bool) {
		if err := s.eye.Fault("dispatcher paused", on); err != nil {
			s.t.Fatal(err)
		}
		if err := syscall.Kill(s.HQ.PID(), what); err != nil {
			s.t.Fatal(err)
		}
	}
	signal(syscall.SIGSTOP, true)
	return func() { signal(syscall.SIGCONT, false) }
}

// stem is how the files of a run's first revision begin.
func (s *scene) stem(run string) string {
	zone, err := time.LoadLocation("Asia/Shanghai") // headquarters' default
	if err != nil {
		s.t.Fatal(err)
	}
	for _, r := range s.Store().Runs {
		if r.RunID == run {
			return time.UnixMilli(r.CreatedAt).In(zone).Format("20060102-1504") + "_probe_" + run + "_r1"
		}
	}
	s.t.Fatalf("no run %s", run)
	return ""
}

// said tells whether a message that holds the text stands in the histories.
func (s *scene) said(act history.Act, text string) bool {
	h, err := history.Read(s.History())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, l := range h.Lines {
		if l.Act == act && strings.Contains(l.Payload, text) {
			return true
		}
	}
	return false
}
