package cases_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"muster/internal/protocol"
	"muster/tests/chaos/site"
	"muster/tests/programs"
)

// tries is how often headquarters may break on one answer.
const tries = 3

// TestAPoisonedAnswerIsSetAsideOverKillsAndTheRestFlows: headquarters breaks on one
// answer, and is killed after each try. It counts on where it was: after the third
// try the answer is kept for a person, its terminal is told, an alarm says so, and
// what others answer is taken all the time.
func TestAPoisonedAnswerIsSetAsideOverKillsAndTheRestFlows(t *testing.T) {
	t.Parallel()
	s := site.New(t, bin, site.Config{Work: `if [ "$STORE" = A ]; then echo '{"marker":"poison"}'; exit; fi`, Claims: site.Executed()}, "A", "B")
	person, eye := s.Writer(site.Wang), s.Writer(site.Watch)
	s.Serve()
	forbidPoison(t, s.Data())
	s.Agent("A")
	s.Agent("B")
	run := s.Ask(person, protocol.VerbRun, `{"requestId":"r1","job":"probe","stores":["A"],"barrierSeconds":120}`).RunID
	var alarms *site.Alarms
	for try := 1; ; try++ {
		s.HQ.AwaitOutput(fmt.Sprintf("try=%d", try)) // told once a minute: it is the first in this process
		if try == tries {
			break
		}
		others := s.Ask(person, protocol.VerbRun, `{"job":"probe","stores":["B"]}`)
		s.Revision(others.RunID, 1)
		s.Fault(eye, true)
		s.HQ.Kill()
		s.Serve()
		s.Fault(eye, false)
		alarms = s.Alarms()
	}
	s.Revision(run, 1)
	if got := s.Rows(`SELECT k.status, k.reason, k.attempt, a.code FROM tasks AS k JOIN attempts AS a USING (task_id) WHERE k.run_id = ?`, run); !reflect.DeepEqual(got, []string{"FAILED invalid_result 1 INVALID_RESULT"}) {
		t.Errorf("the task: %q", got)
	}
	if n := s.Executions("A"); n != 1 {
		t.Errorf("%d executions", n)
	}
	said := alarms.Await("result_quarantined", false).Message
	kept, err := filepath.Glob(filepath.Join(s.Data(), "quarantine", "*.message.json"))
	if err != nil || len(kept) != 1 || !strings.Contains(readFile(t, kept[0]), "poison") || !strings.Contains(said, filepath.Base(kept[0])) {
		t.Errorf("set aside: %v, %v; the alarm says %q", kept, err, said)
	}
	programs.Eventually(t, "the receipt", func() bool {
		left, err := os.ReadDir(filepath.Join(s.Kept("A"), "outbox"))
		return err == nil && len(left) == 0
	})
	s.Judge(eye)
}

// forbidPoison has the database take no such answer: the write of it breaks by
// itself, as by a fault of headquarters' own.
func forbidPoison(t *testing.T, data string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(data, "muster.db")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), `CREATE TRIGGER no_poison BEFORE UPDATE OF result ON attempts WHEN NEW.result LIKE '%poison%'
		BEGIN SELECT RAISE(ABORT, 'a fault of headquarters own'); END`); err != nil {
		t.Fatal(err)
	}
}
