// Package backlog_test runs real programs over what piles up for a store and
// over who may do it: runs that a store missed, stores that come and go, and two
// machines with one identity.
package backlog_test

import (
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

var bin string

func TestMain(m *testing.M) {
	programs.SideBySide(6)
	os.Exit(programs.BuildAndRun(m, func(folder string) { bin = folder }))
}

// policy has short windows and long make-up; keep is its backlog.
func policy(keep string) string {
	return "attempts: 2, run_timeout: 60s, lease: 60s, barrier: 1s, makeup: 744h, retry_first: 100ms, retry_max: 1s, backlog: " + keep
}

// tasks are a store's tasks, the oldest first.
func tasks(s *site.Site, store string) (of []checker.Task) {
	for _, k := range s.Store().Tasks {
		if k.StoreID == store {
			of = append(of, k)
		}
	}
	slices.SortFunc(of, func(a, b checker.Task) int { return strings.Compare(a.TaskID, b.TaskID) })
	return of
}

func count(of []checker.Task, status task.Status) (n int) {
	for _, k := range of {
		if k.Status == status {
			n++
		}
	}
	return n
}

// await waits until so many of a store's tasks have a status.
func await(s *site.Site, what, store string, status task.Status, n int) {
	s.None(what, `SELECT count(*) FROM tasks WHERE store_id = ? AND status = ? HAVING count(*) <> ?`, store, status, n)
}

// offered lists the tasks of which the store's agent saw an offer.
func offered(t *testing.T, s *site.Site, store string) (ids []string) {
	t.Helper()
	h, err := history.Read(s.History())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range h.Lines {
		_, id, is := strings.Cut(l.Topic, "/stores/"+store+"/tasks/")
		if is && l.Act == history.ActGot && l.Payload != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// marked lists a store's executions, as task ids in their order.
func marked(t *testing.T, s *site.Site, store string) (ids []string) {
	t.Helper()
	text, err := os.ReadFile(s.Marks(store))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		ids = append(ids, strings.Fields(line)[0])
	}
	return ids
}

// TestAStoreThatMissedManyRunsDoesTheNewest, and each of them, the oldest first,
// where the job says so. Headquarters is killed in between.
func TestAStoreThatMissedManyRunsDoesTheNewest(t *testing.T) {
	t.Parallel()
	for _, keep := range []string{"newest", "all"} {
		t.Run(keep, func(t *testing.T) {
			t.Parallel()
			runs := 3
			if programs.Full() {
				runs = 12 // thirty are in the test of the step, on virtual time
			}
			limits := checker.Limits{GrantsPerSecond: 20, GrantBurst: 2}
			s := site.New(t, bin, site.Config{Policy: policy(keep), Limits: limits}, "A")
			s.Serve()
			var person *history.Writer
			for n := range runs {
				if n%10 == 0 { // nobody may connect as often as this test asks
					person = s.Writer(history.Participant{Who: fmt.Sprint("wang", n), Role: history.RoleClient})
				}
				reply := s.Ask(person, protocol.VerbRun, fmt.Sprintf(`{"requestId":"r%d","job":"probe","stores":["A"]}`, n))
				if n == runs/2 {
					s.HQ.Kill()
					s.Serve()
				}
				s.Revision(reply.RunID, 1)
			}
			want := map[string]int{"newest": 1, "all": runs}[keep]
			await(s, "the older ones are withdrawn", "A", task.Pending, want)
			s.Agent("A")
			await(s, "the store has done its part", "A", task.Succeeded, want)
			all := tasks(s, "A")
			if done := marked(t, s, "A"); len(done) != want || done[want-1] != all[runs-1].TaskID || !slices.IsSorted(done) {
				t.Errorf("executed %v of %v", done, all)
			}
			if keep == "newest" && len(offered(t, s, "A")) != 1 {
				t.Errorf("offered %v", offered(t, s, "A"))
			}
			if n := count(all, task.Cancelled); n != runs-want {
				t.Errorf("%d are cancelled", n)
			}
		})
	}
}

// TestTheRegisterOfTheDayDecides: a store that is added after a run was made is
// not in it, one that was taken out stays in it.
func TestTheRegisterOfTheDayDecides(t *testing.T) {
	t.Parallel()
	s := site.New(t, bin, site.Config{Policy: policy("all")}, "A", "GONE")
	person, eye := s.Writer(site.Wang), s.Writer(site.Watch)
	s.Serve()
	before := s.Ask(person, protocol.VerbRun, `{"requestId":"r1","job":"probe","stores":"all"}`)
	s.Revision(before.RunID, 1)
	s.HQ.Terminate()
	s.Write("stores.csv", "store_id,name,time_zone,labels\nA,A,Asia/Shanghai,region=east\nNEW,N,Asia/Shanghai,region=east\n")
	s.Serve()
	for _, store := range []string{"NEW", "GONE"} {
		s.Agent(store)
	}
	await(s, "the store that is gone does what it was asked", "GONE", task.Succeeded, 1)
	s.Revision(before.RunID, 2)
	after := s.Ask(person, protocol.VerbRun, `{"requestId":"r2","job":"probe","stores":"all"}`)
	if after.Stores != 2 {
		t.Errorf("the run after it is for %d stores", after.Stores)
	}
	await(s, "the new store does the new run", "NEW", task.Succeeded, 1)
	if ids := offered(t, s, "NEW"); len(ids) != 1 || ids[0] != tasks(s, "NEW")[0].TaskID || len(tasks(s, "NEW")) != 1 {
		t.Errorf("the new store was offered %v, its tasks are %v", ids, tasks(s, "NEW"))
	}
	s.Revision(after.RunID, 1)
	for name, content := range s.Look(eye) {
		has := strings.Contains(string(content), "NEW")
		if filepath.Ext(name) == ".csv" && has != strings.Contains(name, after.RunID) {
			t.Errorf("%s lists the new store: %t", name, has)
		}
	}
}
