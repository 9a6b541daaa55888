package links_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
	"muster/tests/chaos/site"
	"muster/tests/programs"
)

// event is something that is done once, from a moment on and as soon as ready
// says so; a nil ready is always true.
type event struct {
	after time.Duration
	ready func() bool
	do    func()
}

// grace is how long play goes on for what has not come about yet; a machine that
// is busy with other things needs some of it.
const grace = programs.Patience

// pulse is how often play looks for what has come about. Some of it stands in
// histories that are read anew each time.
const pulse = 100 * time.Millisecond

// play does the events, from one goroutine, until length is over and all are
// done. What still was not ready after the grace is left out and counted.
func play(length time.Duration, events []event) (missed int) {
	begin := time.Now()
	tick := time.NewTicker(pulse)
	defer tick.Stop()
	for elapsed := time.Duration(0); elapsed < length || len(events) > 0 && elapsed < length+grace; elapsed = time.Since(begin) {
		var rest []event
		for _, e := range events {
			if elapsed < e.after || e.ready != nil && !e.ready() {
				rest = append(rest, e)
				continue
			}
			e.do()
		}
		events = rest
		<-tick.C
	}
	return len(events)
}

// bench is a site whose stores are reached over links.
type bench struct {
	*site.Site
	t     *testing.T
	links *links
	wang  *history.Writer
	eye   *history.Writer
}

func newBench(t *testing.T, cfg site.Config, stores ...string) *bench {
	t.Helper()
	b := &bench{t: t, links: startLinks(t)}
	cfg.Behind = b.links.join
	b.Site = site.New(t, bin, cfg, stores...)
	b.wang, b.eye = b.Writer(site.Wang), b.Writer(site.Watch)
	b.Serve()
	b.Watch(b.eye)
	return b
}

// note writes down that something is wrong with a store's link, or no longer.
func (b *bench) note(name string, on bool) {
	b.t.Helper()
	if err := b.eye.Fault("link "+name, on); err != nil {
		b.t.Fatal(err)
	}
}

// restart kills headquarters and starts it anew.
func (b *bench) restart() {
	b.t.Helper()
	b.Fault(b.eye, true)
	b.HQ.Kill()
	b.Serve()
	b.Fault(b.eye, false)
	b.Watch(b.eye)
}

// lines are what a store's tap wrote so far.
func (b *bench) lines(store string) (all []string) {
	b.t.Helper()
	files, _ := filepath.Glob(filepath.Join(b.History(), "agent-"+store+"_pos1-*.jsonl"))
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			b.t.Fatal(err)
		}
		all = append(all, strings.Split(string(text), "\n")...)
	}
	return all
}

// seen counts the lines of an act in what a store's tap wrote; part is in the
// message's topic.
func (b *bench) seen(store string, act history.Act, part string) (n int) {
	b.t.Helper()
	for _, line := range b.lines(store) {
		head, _, _ := strings.Cut(line, `"payload":`)
		if strings.Contains(head, fmt.Sprintf("%q:%q", "act", act)) && strings.Contains(head, part) {
			n++
		}
	}
	return n
}

// reoffered tells whether a store's newest connection was given an offer: kept by
// the broker, or published after the store had subscribed.
func (b *bench) reoffered(store string) bool {
	b.t.Helper()
	given := false
	for _, line := range b.lines(store) {
		switch {
		case strings.Contains(line, `"act":"connected"`):
			given = false
		case strings.Contains(line, `"act":"got"`) && strings.Contains(line, `"payload":"{`):
			given = given || strings.Contains(line, "/stores/"+store+"/tasks/")
		}
	}
	return given
}

// connected waits until each store's agent has subscribed.
func (b *bench) connected(stores ...string) {
	b.t.Helper()
	for _, store := range stores {
		programs.Seldom(b.t, "the agent of "+store, func() bool { return b.seen(store, history.ActSubscribed, "") > 0 })
	}
}

// order asks for a run of the stores and returns its id.
func (b *bench) order(request string, barrierSeconds int, stores ...string) string {
	b.t.Helper()
	reply := b.Ask(b.wang, "run", fmt.Sprintf(`{"requestId":%q,"job":%q,"stores":["%s"],"barrierSeconds":%d}`,
		request, site.Job, strings.Join(stores, `","`), barrierSeconds))
	if !reply.OK {
		b.t.Fatalf("refused: %+v", reply)
	}
	return reply.RunID
}

// allSucceed waits until every task has succeeded.
func (b *bench) allSucceed() {
	b.t.Helper()
	begin := time.Now()
	for tick := time.NewTicker(2 * pulse); ; <-tick.C {
		open := b.Rows(`SELECT task_id, 'of', store_id, 'is', status, 'after attempt', attempt FROM tasks WHERE status <> 'SUCCEEDED'`)
		if len(open) == 0 {
			b.t.Logf("all tasks have succeeded %v after the links were good", time.Since(begin).Round(time.Millisecond))
			return
		}
		if time.Since(begin) > 2*programs.Patience {
			b.t.Fatalf("the links are good, but %q", open)
		}
	}
}

// judgeAll wants no finding, and one execution a task: an agent that lives
// answers a later grant with what it has. early is an older copy of the database,
// at most one; killed are the stores whose agents were killed.
func (b *bench) judgeAll(early []checker.Store, killed ...string) checker.Evidence {
	b.t.Helper()
	b.Revised()
	e := b.Judge(b.eye, early...)
	executed := map[string]int{}
	for _, l := range e.History {
		if l.Act == history.ActExecuted {
			executed[l.Task]++
		}
	}
	for _, task := range e.Store.Tasks {
		if n := executed[task.TaskID]; n != 1 && !slices.Contains(killed, task.StoreID) {
			b.t.Errorf("task %s of %s was executed %d times", task.TaskID, task.StoreID, n)
		}
	}
	return e
}
