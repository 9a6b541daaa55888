package cases_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"muster/internal/protocol"
	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
	"muster/tests/chaos/site"
	"muster/tests/programs"
)

// stubborn is work that ignores every request to end, and has a child and a
// grandchild, in a session of its own, that do so too.
const stubborn = `if [ ! -e "$GATE" ]; then
trap '' TERM INT HUP
cat > "$0.deaf" <<'DEAF'
trap '' TERM INT HUP
echo $$ >> "$1"
if [ "$2" = child ]; then setsid sh "$0" "$1" grandchild & fi
while [ -e "$0" ]; do sleep 1; done
DEAF
echo $$ >> "$0.pids"
sh "$0.deaf" "$0.pids" child &
while [ -e "$0" ]; do sleep 1; done
fi`

// TestCancelEndsAWholeProcessTreeThatIgnoresIt: a technician cancels with a
// stock client what ignores SIGTERM. Every process of it is gone, the terminal's
// only place is free, the task is CANCELLED and headquarters knows of its end.
func TestCancelEndsAWholeProcessTreeThatIgnoresIt(t *testing.T) {
	t.Parallel()
	s := site.New(t, bin, site.Config{Work: stubborn, Claims: site.Executed("I2 events", "I9 withdrawn"), Agent: "max_parallel: 1\n", Policy: "attempts: 2, run_timeout: 5m, lease: 1m, barrier: 1h, makeup: 1h"}, "A")
	person, eye := s.Writer(site.Wang), s.Writer(site.Watch)
	s.Serve()
	s.Watch(eye)
	s.Agent("A")
	run := s.Ask(person, protocol.VerbRun, `{"job":"probe","stores":["A"]}`)
	pids := filepath.Join(s.Dir, "A.sh.pids")
	programs.Eventually(t, "the child and the grandchild", func() bool {
		text, err := os.ReadFile(pids)
		return err == nil && strings.Count(string(text), "\n") == 3
	})
	tree := strings.Fields(readFile(t, pids))
	for _, pid := range tree {
		if !alive(pid) {
			t.Fatalf("process %s ended by itself", pid)
		}
	}
	next := s.Ask(person, protocol.VerbRun, `{"requestId":"next","job":"probe","stores":["A"]}`) // waits for the place
	s.Open("A")                                                                                  // for what comes after it
	reply := cancel(t, s.Addr, run.RunID)
	if !reply.OK || reply.Cancelled == nil || *reply.Cancelled != 1 {
		t.Errorf("the reply is %+v", reply)
	}
	programs.Eventually(t, "the end of the whole tree", func() bool {
		for _, pid := range tree {
			if alive(pid) {
				return false
			}
		}
		return true
	})
	s.Revision(next.RunID, 1)
	s.Revision(run.RunID, 1)
	if got := s.Rows(`SELECT status, reason FROM tasks ORDER BY task_id`); !reflect.DeepEqual(got, []string{"CANCELLED by_user", "SUCCEEDED "}) {
		t.Errorf("tasks %q", got)
	}
	programs.Seldom(t, "the word of its end, and its receipt", func() bool { return ended(t, s) })
	s.Judge(eye)
}

// ended reports whether the agent said that the attempt was cancelled and got
// the receipt for it.
func ended(t *testing.T, s *site.Site) bool {
	t.Helper()
	h, err := history.Read(s.History())
	if err != nil {
		t.Fatal(err)
	}
	said := ""
	for _, l := range h.Lines {
		var m struct {
			protocol.Result
			Order    protocol.OrderKind `json:"order"`
			Accepted *bool              `json:"accepted"`
		}
		if l.Role != history.RoleAgent || json.Unmarshal([]byte(l.Payload), &m) != nil {
			continue
		}
		switch {
		case l.Act == history.ActSent && m.Outcome == protocol.AnswerCancelled:
			said = m.TaskID
		case l.Act == history.ActGot && m.Order == protocol.OrderReceipt && m.TaskID == said && said != "":
			return m.Accepted != nil && *m.Accepted
		}
	}
	return false
}

// cancel cancels as wang, with the stock client.
func cancel(t *testing.T, addr, run string) (reply protocol.Reply) {
	t.Helper()
	out := stock(t, addr, "mosquitto_rr", "wang", "-t", "muster/v1/req/wang/cancel", "-e", "muster/v1/rep/wang/cases", "-W", "60",
		"-m", fmt.Sprintf(`{"runId":%q}`, run))
	if err := json.Unmarshal([]byte(out), &reply); err != nil {
		t.Fatalf("reply %q: %v", out, err)
	}
	return reply
}

// TestCancelHitsTheNamedRunAloneAndAFinishedOneStays: of two runs of one job at
// the same stores one is withdrawn, and the other does not notice. What is over
// is not cancelled any more: the reply says so in both languages and nothing
// changes.
func TestCancelHitsTheNamedRunAloneAndAFinishedOneStays(t *testing.T) {
	t.Parallel()
	s := site.New(t, bin, site.Config{Work: site.AwaitGate, Claims: site.Executed("I2 events", "I9 withdrawn"), Agent: "max_parallel: 2\n", Policy: "attempts: 2, run_timeout: 5m, lease: 1m, barrier: 1h, makeup: 1h, backlog: all"}, "A", "B")
	person, eye := s.Writer(site.Wang), s.Writer(site.Watch)
	s.Serve()
	s.Watch(eye)
	s.Agent("A")
	named := s.Ask(person, protocol.VerbRun, `{"requestId":"named","job":"probe","stores":["A","B"]}`)
	other := s.Ask(person, protocol.VerbRun, `{"requestId":"other","job":"probe","stores":["A","B"]}`)
	s.Executed("A", 2)
	if reply := cancel(t, s.Addr, named.RunID); reply.Cancelled == nil || *reply.Cancelled != 2 {
		t.Errorf("the reply is %+v", reply)
	}
	s.Revision(named.RunID, 1)
	state := func(run string) []string {
		return s.Rows(`SELECT store_id, status, attempt, reason FROM tasks WHERE run_id = ? ORDER BY store_id`, run)
	}
	if got := state(named.RunID); !reflect.DeepEqual(got, []string{"A CANCELLED 1 by_user", "B CANCELLED 0 by_user"}) {
		t.Errorf("the named run: %q", got)
	}
	if got := state(other.RunID); !reflect.DeepEqual(got, []string{"A RUNNING 1 ", "B PENDING 0 "}) {
		t.Errorf("the other run: %q", got)
	}
	s.Open("A")
	s.Open("B")
	s.Agent("B")
	s.Revision(other.RunID, 1)
	if got := state(other.RunID); !reflect.DeepEqual(got, []string{"A SUCCEEDED 1 ", "B SUCCEEDED 1 "}) {
		t.Errorf("the other run: %q", got)
	}
	s.None("the end of both runs", `SELECT run_id FROM runs WHERE closed_at = 0 AND run_id IN (?, ?)`, named.RunID, other.RunID)
	lasting := func() map[string][]byte {
		files := s.Look(eye)
		maps.DeleteFunc(files, func(name string, _ []byte) bool { return checker.Changing(name) })
		return files
	}
	before, files := s.Store(), lasting()
	for _, run := range []string{named.RunID, other.RunID} {
		reply := cancel(t, s.Addr, run)
		if !reply.OK || reply.Cancelled == nil || *reply.Cancelled != 0 || reply.Finished == nil || *reply.Finished != 2 ||
			!strings.Contains(reply.Message, "already finished") || !strings.Contains(reply.MessageZh, "均已结束") {
			t.Errorf("the reply is %+v", reply)
		}
	}
	after := s.Store()
	before.TakenAt, after.TakenAt = 0, 0
	if !reflect.DeepEqual(before, after) || !reflect.DeepEqual(files, lasting()) {
		t.Errorf("cancelling what is over changed something:\n%+v\n%+v", before, after)
	}
	s.Judge(eye)
}
