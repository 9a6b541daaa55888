package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/internal/protocol"
	"muster/tests/programs"
)

// anyAgent is a terminal's program in whatever language: how it is started at store A
// with a shell script that does the job probe, and where it keeps answers.
type anyAgent struct {
	start   func(s *site, script string) *programs.Process
	answers string // a glob of files below the site's folder
	holding string // what such a file has in it while it keeps an answer
	wards   bool   // what it started ends with it, even by kill -9
}

// agents are ours, and the example of docs/examples, which is written after
// docs/protocol/terminal.md alone.
func agents(t *testing.T) map[string]anyAgent {
	t.Helper()
	python := pythonWithMQTT(t)
	example, err := filepath.Abs(filepath.Join("..", "..", "docs", "examples", "python-agent", "agent.py"))
	if err != nil {
		t.Fatal(err)
	}
	return map[string]anyAgent{
		"ours": {answers: "agents/A/kept/outbox/*.answer", start: func(s *site, script string) *programs.Process {
			return s.agent("A", fmt.Sprintf("executors:\n  - type: probe\n    version: 1\n    command: [sh, %q]\n", script))
		}},
		"python": {answers: "python/*.task", holding: `"outcome"`, wards: true, start: func(s *site, script string) *programs.Process {
			return programs.Launch(s.t, python, example, s.addr, "A", "pos1", filepath.Join(s.dir, "python"), "probe", "1", "sh", script)
		}},
	}
}

// pythonWithMQTT is an interpreter that has paho-mqtt: Debian's has it from the
// package python3-paho-mqtt, another one on the path may not.
func pythonWithMQTT(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		path, err := exec.LookPath(name)
		if err == nil && exec.CommandContext(t.Context(), path, "-c", "import paho.mqtt.client").Run() == nil { //nolint:gosec // it is the machine's
			return path
		}
	}
	programs.Lack(t, "no python3 has paho-mqtt (Debian: python3-paho-mqtt)")
	return ""
}

// scene is one headquarters and one agent, whose script marks each execution with
// task and attempt, starts a process that would outlive it, notes both process ids, waits
// for the gate, and answers.
type scene struct {
	*site
	kind                  anyAgent
	script, markers, gate string
	pids                  string
	agent                 *programs.Process
}

// TestAnyAgentHoldsTheFourDuties is what docs/protocol/terminal.md asks of an agent,
// the same of ours and of the example in another language.
func TestAnyAgentHoldsTheFourDuties(t *testing.T) { // I1, I3, I9
	t.Parallel()
	apart := map[string]func(*scene){ // over a broker on which somebody else may speak
		"copies of offer and grant are one": (*scene).copies,
		"a withdrawn offer starts nothing":  (*scene).withdrawn,
	}
	embedded := map[string]func(*scene){
		"a round, and a failed one":          (*scene).round,
		"a large result by ready and send":   (*scene).large,
		"killed in the middle":               (*scene).interrupted,
		"a kept result outlives both sides":  (*scene).kept,
		"a stored result answers":            (*scene).stored,
		"cancel stops what runs":             (*scene).cancelled,
		"the link breaks while it runs":      (*scene).reconnected,
		"what it cannot do, it refuses":      (*scene).refused,
		"the time limit ends what runs long": (*scene).limited,
	}
	for kind, agent := range agents(t) {
		for name, try := range apart {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				try(setScene(t, agent, standAlone(t)))
			})
		}
		for name, try := range embedded {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				try(setScene(t, agent, ""))
			})
		}
	}
}

// setScene is newSite with an agent, and headquarters running.
func setScene(t *testing.T, kind anyAgent, external string) *scene {
	t.Helper()
	s := &scene{site: newSite(t, []string{"A"}, external), kind: kind}
	s.markers, s.gate, s.pids = filepath.Join(s.dir, "markers"), filepath.Join(s.dir, "gate"), filepath.Join(s.dir, "pids")
	s.answering(`echo '{"marker":"done"}'`)
	s.serve()
	return s
}

// answering sets how an execution ends.
func (s *scene) answering(end string) {
	s.script = s.write("probe.sh", fmt.Sprintf(`(while [ -e "$0" ]; do sleep 0.05; done) > /dev/null 2>&1 &
printf '%%s\n' $$ $! >> %q
echo "$MUSTER_TASK_ID $MUSTER_ATTEMPT" >> %q
while [ -e "$0" ] && [ ! -e %q ]; do sleep 0.05; done
%s
`, s.pids, s.markers, s.gate, end))
}

// bound writes the job anew, with this lease and time limit.
func (s *scene) bound(lease, limit string) {
	job, err := os.ReadFile(filepath.Join(s.dir, "jobs", "probe.yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.write("jobs/probe.yaml", strings.NewReplacer("lease: 10s", "lease: "+lease, "run_timeout: 30s", "run_timeout: "+limit).Replace(string(job)))
}

func (s *scene) work() { s.agent = s.kind.start(s.site, s.script) }

// order asks for a run, and waits until it is executing if executing is not 0: that
// many executions in all.
func (s *scene) order(executing int) (runID string) {
	s.t.Helper()
	reply := s.ask("run", fmt.Sprintf(`{"requestId":"r%d","job":"probe","stores":"all"}`, time.Now().UnixNano()))
	if !reply.OK {
		s.t.Fatalf("reply %+v", reply)
	}
	s.executing(executing)
	return reply.RunID
}

func (s *scene) executing(n int) {
	s.t.Helper()
	programs.Eventually(s.t, fmt.Sprintf("execution %d", n), func() bool { return len(lines(s.t, s.markers)) >= n })
}

// want holds the first report to its counts and to the one store's attempt, and the
// markers to the executions that there were.
func (s *scene) want(runID string, counts protocol.Counts, attempt, executions int) protocol.Report {
	s.t.Helper()
	report, _ := s.report(runID, 1)
	if report.Counts != counts || report.Stores[0].Attempt != attempt {
		s.t.Errorf("counts %+v, attempt %d; want %+v, attempt %d", report.Counts, report.Stores[0].Attempt, counts, attempt)
	}
	if got := lines(s.t, s.markers); len(got) != executions {
		s.t.Errorf("executed %v, want %d", got, executions)
	}
	return report
}

// holds waits until the terminal keeps so many answers on its disk.
func (s *scene) holds(n int) {
	s.t.Helper()
	programs.Eventually(s.t, fmt.Sprintf("%d answers on disk", n), func() bool {
		files, err := filepath.Glob(filepath.Join(s.dir, s.kind.answers))
		return err == nil && n == len(slices.DeleteFunc(files, func(file string) bool {
			text, err := os.ReadFile(file) //nolint:gosec // it is the test's own
			return err != nil || !strings.Contains(string(text), s.kind.holding)
		}))
	})
}

// gone waits until nothing runs of what the script and its process were.
func (s *scene) gone() {
	s.t.Helper()
	programs.Eventually(s.t, "the end of all processes", func() bool {
		pids := lines(s.t, s.pids)
		return len(pids) >= 2 && !slices.ContainsFunc(pids, func(pid string) bool {
			stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
			return err == nil && !strings.Contains(string(stat), ") Z ") // one that nobody has waited for has ended, too
		})
	})
}

// task is the run's one task, as headquarters tells it.
func (s *scene) task(runID string) protocol.Record {
	s.t.Helper()
	reply := s.ask("status", fmt.Sprintf(`{"runId":%q,"storeId":"A"}`, runID))
	if reply.Task == nil {
		s.t.Fatalf("status %+v", reply)
	}
	return *reply.Task
}

func (s *scene) round() {
	touch(s.t, s.gate)
	s.work()
	run := s.order(1)
	s.want(run, protocol.Counts{Succeeded: 1}, 1, 1)
	s.holds(0)
	if got := s.task(run); string(got.Result) != `{"marker":"done"}` {
		s.t.Errorf("result %s", got.Result)
	}
	s.answering("exit 3")
	s.want(s.order(3), protocol.Counts{Failed: 1}, 2, 3)
	s.holds(0)
	s.gone()
}

func (s *scene) large() {
	s.answering(`printf '{"marker":"'; head -c 100000 /dev/zero | tr '\0' x; printf '"}'`)
	touch(s.t, s.gate)
	s.work()
	run := s.order(1)
	s.want(run, protocol.Counts{Succeeded: 1}, 1, 1)
	s.holds(0)
	if got := len(s.task(run).Result); got != 100_013 {
		s.t.Errorf("%d bytes came", got)
	}
}

func (s *scene) interrupted() {
	s.work()
	run := s.order(1)
	s.agent.Kill()
	if s.kind.wards {
		s.gone()
	}
	s.work()
	s.want(run, protocol.Counts{Failed: 1}, 1, 1)
	if failure := s.task(run).Error; failure == nil || failure.Code != protocol.CodeInterrupted {
		s.t.Errorf("failed with %+v", failure)
	}
	s.holds(0)
	s.gone()
}

func (s *scene) kept() {
	s.work()
	run := s.order(1)
	s.hq.Kill()
	touch(s.t, s.gate)
	s.holds(1)
	s.agent.Kill()
	s.serve()
	s.work()
	s.want(run, protocol.Counts{Succeeded: 1}, 1, 1)
	s.holds(0)
}

// stored lets the attempt's lease end while the agent stands still: the answer it
// then has is of an attempt that is over, and it answers the next one.
func (s *scene) stored() {
	s.hq.Kill()
	s.bound("2s", "30s")
	s.serve()
	s.work()
	run := s.order(1)
	s.stop(true)
	programs.Seldom(s.t, "the end of the lease", func() bool { return s.task(run).Attempt == 1 && s.task(run).Status != "RUNNING" })
	touch(s.t, s.gate)
	s.stop(false)
	s.want(run, protocol.Counts{Succeeded: 1}, 2, 1)
	s.holds(0)
}

// stop lets the agent stand still, or go on.
func (s *scene) stop(still bool) {
	s.t.Helper()
	signal := syscall.SIGCONT
	if still {
		signal = syscall.SIGSTOP
	}
	if err := syscall.Kill(s.agent.PID(), signal); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) cancelled() {
	s.work()
	run := s.order(1)
	if reply := s.ask("cancel", fmt.Sprintf(`{"runId":%q}`, run)); !reply.OK {
		s.t.Fatalf("reply %+v", reply)
	}
	s.want(run, protocol.Counts{Cancelled: 1}, 1, 1)
	s.gone()
	s.holds(0)
}

func (s *scene) copies() {
	w := s.tap()
	s.work()
	run := s.order(1)
	offer, grant := w.taken(1)[0], w.grants(1)[0]
	again := func() {
		for i := range 5 {
			w.say(offer.Topic, offer.Payload, i == 2)
			w.say(grant.Topic, grant.Payload, false)
		}
	}
	again()
	touch(s.t, s.gate)
	s.want(run, protocol.Counts{Succeeded: 1}, 1, 1)
	again()
	s.agent.Kill()
	s.work()
	s.sentinel() // it listens
	again()
	s.sentinel()
	if got := lines(s.t, s.markers); len(got) != 3 { // two are the sentinels'
		s.t.Errorf("executed %v", got)
	}
}

func (s *scene) withdrawn() {
	touch(s.t, s.gate)
	w := s.tap()
	run := s.order(0)
	offer := w.taken(1)[0]
	if reply := s.ask("cancel", fmt.Sprintf(`{"runId":%q}`, run)); !reply.OK {
		s.t.Fatalf("reply %+v", reply)
	}
	s.work()
	w.say(offer.Topic, offer.Payload, true)
	s.sentinel()
	if got := lines(s.t, s.markers); len(got) != 1 {
		s.t.Errorf("executed %v, want the sentinel's alone", got)
	}
}

// reconnected ends headquarters, and with it the broker, while the agent executes.
func (s *scene) reconnected() {
	s.work()
	run := s.order(1)
	s.hq.Kill()
	s.serve()
	touch(s.t, s.gate)
	s.want(run, protocol.Counts{Succeeded: 1}, 1, 1)
	s.holds(0)
}

func (s *scene) refused() {
	s.hq.Kill()
	job, err := os.ReadFile(filepath.Join(s.dir, "jobs", "probe.yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.write("jobs/probe.yaml", strings.Replace(string(job), "version: 1", "version: 2", 1))
	s.serve()
	s.work()
	run := s.order(0)
	s.want(run, protocol.Counts{Failed: 1}, 1, 0)
	if failure := s.task(run).Error; failure == nil || failure.Code != protocol.CodeRefused {
		s.t.Errorf("failed with %+v", failure)
	}
}

func (s *scene) limited() {
	s.hq.Kill()
	s.bound("10s", "1s")
	s.serve()
	s.work()
	run := s.order(2)
	s.want(run, protocol.Counts{Failed: 1}, 2, 2)
	if failure := s.task(run).Error; failure == nil || failure.Code != protocol.CodeTimeLimit {
		s.t.Errorf("failed with %+v", failure)
	}
	s.gone()
}
