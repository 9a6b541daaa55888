package storage_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"muster/internal/protocol"
	"muster/internal/task"
	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
	"muster/tests/chaos/site"
	"muster/tests/programs"
)

// TestRestoreOfAnOlderBackupWhileAgentsGoOn: the backup is made while a run goes
// on. Then its barrier closes, it is revised, another run comes and is over,
// headquarters dies and is restored. The agents live through all of it: A and B have
// receipts, C keeps an answer that has none, D still works.
func TestRestoreOfAnOlderBackupWhileAgentsGoOn(t *testing.T) {
	t.Parallel()
	s := &stand{Site: site.New(t, bin, site.Config{Work: site.AwaitGate,
		Limits: checker.Limits{MaxRunning: 5, GrantsPerSecond: 20, GrantBurst: 5}}, "A", "B", "C", "D", "E"), t: t}
	person, eye := s.Writer(site.Wang), s.Writer(site.Watch)
	ask := func(id, stores string) protocol.Reply {
		reply := s.Ask(person, protocol.VerbRun, fmt.Sprintf(`{"requestId":%q,"job":"probe","stores":[%s],"barrierSeconds":6}`, id, stores))
		if !reply.OK {
			t.Fatalf("%s: %+v", id, reply)
		}
		return reply
	}
	s.Open("E")
	s.Serve()
	for _, store := range []string{"A", "B", "C", "D", "E"} {
		s.Agent(store)
	}
	over := ask("over", `"E"`).RunID
	s.Revision(over, 1)
	run := ask("goes-on", `"A","B","C","D"`).RunID
	for _, store := range []string{"A", "B", "C", "D"} {
		s.Executed(store, 1)
	}

	file := filepath.Join(s.Dir, "backup.db")
	s.Fault(eye, true) // for the restored database it is away from here on
	if said, code := dispatcher(t, "backup", file, "--data", s.Data()); code != 0 {
		t.Fatal(said)
	}
	s.Open("A")
	s.Revision(run, 1)
	s.Open("B")
	s.Revision(run, 2)
	forgotten := ask("forgotten", `"E"`).RunID
	s.Revision(forgotten, 1)
	s.HQ.Kill()
	before := s.Look(eye)
	s.Open("C")
	programs.Eventually(t, "the answer that C keeps", func() bool {
		kept, _ := filepath.Glob(filepath.Join(s.Kept("C"), "outbox", "*.answer"))
		return len(kept) == 1
	})

	if said, code := dispatcher(t, "restore", file, "--data", s.Data()); code != 0 {
		t.Fatal(said)
	}
	s.Serve()
	s.Fault(eye, false)
	s.Revision(run, 3)
	s.Open("D")
	if again := ask("goes-on", `"A","B","C","D"`); again.RunID != run || !*again.Duplicate {
		t.Errorf("the run that goes on, asked for again: %+v", again)
	}
	again := ask("forgotten", `"E"`)
	if again.RunID == forgotten || *again.Duplicate {
		t.Errorf("the forgotten run, asked for again: %+v", again)
	}
	s.Revision(again.RunID, 1)
	programs.Eventually(t, "a revision in which all succeeded", func() bool {
		heads := s.heads(run)
		return heads[len(heads)-1].Counts.Succeeded == 4
	})

	for name, bytes := range before {
		if now, err := os.ReadFile(filepath.Join(s.Reports(), name)); !checker.Changing(name) && string(now) != string(bytes) {
			t.Errorf("%s was changed, %v", name, err)
		}
	}
	s.wantExplained(run)
	s.wantFenced(run)
	s.wantExecutions(map[string]int{"A": 2, "B": 2, "C": 1, "D": 1, "E": 3}) // a receipt of the lost past is nobody's answer
	s.judgeFromTheBackupOn(eye)
}

// heads are those of the run's published reports, by revision.
func (s *stand) heads(run string) (heads []protocol.ReportHead) {
	s.t.Helper()
	names, err := filepath.Glob(filepath.Join(s.Reports(), "*", "*", "*_"+run+"_r*[0-9].json"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		var head protocol.ReportHead
		if err == nil {
			err = json.Unmarshal(text, &head)
		}
		if err != nil {
			s.t.Fatal(err)
		}
		heads = append(heads, head)
	}
	slices.SortFunc(heads, func(a, b protocol.ReportHead) int { return cmp.Compare(a.Revision, b.Revision) })
	return heads
}

// wantExplained wants revision 3 to say in each format for eyes why it is not the
// first of its database, and those after it to go on from it.
func (s *stand) wantExplained(run string) {
	s.t.Helper()
	const says = "What stands in the report folder as revisions 1 to 2 is not from headquarters"
	for i, head := range s.heads(run) {
		if head.Revision != i+1 || strings.Contains(head.Text, says) != (head.Revision == 3) || (head.Supersedes == nil) != (head.Revision == 1 || head.Revision == 3) {
			s.t.Errorf("revision %d is number %d of the folder, supersedes %v and says %q", head.Revision, i+1, head.Supersedes, head.Text)
		}
	}
	found, err := filepath.Glob(filepath.Join(s.Reports(), "*", "*", "*_"+run+"_r3.html"))
	if err != nil || len(found) != 1 {
		s.t.Fatal(found, err)
	}
	if page, err := os.ReadFile(found[0]); err != nil || !strings.Contains(string(page), says) || !strings.Contains(string(page), "第 1 至 2 版") {
		s.t.Errorf("the page does not say it, %v", err)
	}
}

// wantFenced wants every task of the run to have succeeded above the restore, and
// what C and D say of an attempt from before it to be refused.
func (s *stand) wantFenced(run string) {
	s.t.Helper()
	said, err := history.Read(s.History())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, store := range []string{"C", "D"} {
		if !slices.ContainsFunc(said.Lines, func(l history.Line) bool {
			return l.Store == store && l.Act == history.ActGot && strings.Contains(l.Payload, `"receipt"`) &&
				strings.Contains(l.Payload, `"attempt":1,`) && strings.Contains(l.Payload, `"STALE"`)
		}) {
			s.t.Errorf("store %s was not told that its attempt 1 is stale", store)
		}
	}
	read := s.Store()
	for _, k := range read.Tasks {
		if k.RunID != run {
			continue
		}
		if k.Status != task.Succeeded || k.Skipped < 1_000_000 || k.Attempt != k.Skipped+2 {
			s.t.Errorf("task %s of store %s is %s in attempt %d, %d skipped", k.TaskID, k.StoreID, k.Status, k.Attempt, k.Skipped)
		}
		for _, a := range read.Attempts {
			if a.TaskID == k.TaskID && (a.Attempt == 1) != (a.Answer == "") {
				s.t.Errorf("attempt %d of store %s has the answer %q", a.Attempt, k.StoreID, a.Answer)
			}
		}
	}
}

// wantExecutions counts the executions of each store, and wants none twice.
func (s *stand) wantExecutions(want map[string]int) {
	s.t.Helper()
	for store, n := range want {
		text, err := os.ReadFile(s.Marks(store))
		if err != nil {
			s.t.Fatal(err)
		}
		seen := map[string]bool{}
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if id := fields[0] + " " + fields[1]; seen[id] {
				s.t.Errorf("store %s executed twice: %s", store, id)
			} else {
				seen[id] = true
			}
		}
		if len(seen) != n {
			s.t.Errorf("store %s executed %d times, want %d:\n%s", store, len(seen), n, text)
		}
	}
}

// judgeFromTheBackupOn judges what the restored database knows: without what was
// said between the backup and the restore, except by terminals.
func (s *stand) judgeFromTheBackupOn(eye *history.Writer) {
	s.t.Helper()
	e := checker.Evidence{Store: s.Store(), Limits: s.Config.Limits}
	e.Reports = s.Look(eye) // after the database, which lists no file that is not there yet
	read, err := history.Read(s.History())
	if err != nil {
		s.t.Fatal(err)
	}
	var from, to int64
	for _, l := range read.Lines {
		if l.Act == history.ActFault && l.On {
			from = l.MonoUs
		} else if l.Act == history.ActFault {
			to = l.MonoUs
		}
	}
	known := map[string]bool{}
	for _, k := range e.Store.Tasks {
		known[k.TaskID] = true
	}
	for _, l := range read.Lines {
		var about struct{ TaskID string }
		_ = json.Unmarshal([]byte(l.Payload), &about) // whatever it is
		id := cmp.Or(l.Task, about.TaskID)
		if id != "" && !known[id] {
			continue
		}
		if between := l.MonoUs > from && l.MonoUs < to; !between || l.Act == history.ActSent || l.Act == history.ActLooked {
			e.History = append(e.History, l)
		}
	}
	found, err := checker.Check(e)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range found {
		s.t.Error(f)
	}
}
