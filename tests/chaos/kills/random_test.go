package kills_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"muster/internal/protocol"
	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
	"muster/tests/chaos/site"
	"muster/tests/programs"
)

// seedVariable repeats the moments of an earlier test; threads still run as they
// like.
const seedVariable = "MUSTER_CHAOS_SEED"

// Kills of each in the whole test, and in a share.
const (
	allOfHeadquarters, someOfHeadquarters = 60, 6
	allOfAgents, someOfAgents             = 90, 6 // a new agent is back at once, an old one waits longer after each failure
)

// clientPatience is how long a client waits before it counts its call as lost:
// shorter than a start of headquarters, so that some are.
const clientPatience = time.Second

// chaos is a site under fire.
type chaos struct {
	*site.Site
	t           *testing.T
	stores      []string
	agents      []*programs.Process
	person, eye *history.Writer
	dice        *rand.Rand
}

// TestNothingIsLostOrDoneTwiceUnderRandomKills orders runs without end while
// headquarters and agents are killed and started again, and judges all of it
// once that is over.
func TestNothingIsLostOrDoneTwiceUnderRandomKills(t *testing.T) {
	t.Parallel()
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv(seedVariable), strconv.FormatUint(rand.Uint64N(1_000_000), 10)), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s=%d", seedVariable, seed)
	ofHeadquarters, ofAgents, stores := someOfHeadquarters, someOfAgents, 4
	if programs.Full() {
		ofHeadquarters, ofAgents, stores = allOfHeadquarters, allOfAgents, 10
	}
	c := &chaos{t: t, dice: rand.New(rand.NewPCG(seed, seed))} //nolint:gosec // to be repeated
	for i := range stores {
		c.stores = append(c.stores, fmt.Sprintf("S%02d", i+1))
	}
	c.Site = site.New(t, bin, site.Config{Limits: checker.Limits{MaxRunning: 8, GrantsPerSecond: 20, GrantBurst: 5, Settle: 10 * time.Second, Reoffer: 10 * time.Second},
		Policy: "attempts: 3, backlog: all, retry_interrupted: true, run_timeout: 10s, lease: 5s, barrier: 20s, makeup: 1h, retry_first: 100ms, retry_max: 1s",
		Work:   "sleep 0.$(($$ % 3))", Claims: site.Executed()}, c.stores...)
	c.person, c.eye = c.Writer(site.Wang), c.Writer(site.Watch)
	c.Serve()
	for _, store := range c.stores {
		c.agents = append(c.agents, c.Agent(store))
	}
	stop := c.order(rand.New(rand.NewPCG(seed, seed+1))) //nolint:gosec // to be repeated
	early := c.fire(ofHeadquarters, ofAgents)
	stop()
	c.quiet()
	e := c.Judge(c.eye, early)
	c.weigh(e, ofHeadquarters)
}

// order asks for run after run, each until somebody answers, until stop is
// called: a call that is lost is made again with the same id.
func (c *chaos) order(dice *rand.Rand) (stop func()) {
	done := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for n := 1; ; n++ {
			stores := slices.Clone(c.stores)
			dice.Shuffle(len(stores), func(i, j int) { stores[i], stores[j] = stores[j], stores[i] })
			stores = stores[:1+dice.IntN(len(stores))]
			request := fmt.Sprintf(`{"requestId":"r%d","job":"probe","stores":["%s"]}`, n, join(stores))
			pause := 200*time.Millisecond + time.Duration(dice.IntN(1000))*time.Millisecond
			for again := true; again; {
				_, outcome := c.Try(c.person, protocol.VerbRun, request, clientPatience)
				if again = outcome == history.OutcomeUnknown; !again {
					break
				}
				if !wait(done, 50*time.Millisecond) {
					return
				}
			}
			if !wait(done, pause) {
				return
			}
		}
	})
	return func() { close(done); all.Wait() }
}

func join(stores []string) (list string) {
	for i, id := range stores {
		if list += id; i+1 < len(stores) {
			list += `","`
		}
	}
	return list
}

// wait lets time pass, unless done.
func wait(done <-chan struct{}, d time.Duration) bool {
	select {
	case <-done:
		return false
	case <-time.After(d):
		return true
	}
}

// fire kills and starts again at moments of the dice. It returns a copy of the
// database from the middle.
func (c *chaos) fire(ofHeadquarters, ofAgents int) (early checker.Store) {
	c.t.Helper()
	var shots []bool // headquarters
	for i := range ofHeadquarters + ofAgents {
		shots = append(shots, i < ofHeadquarters)
	}
	c.dice.Shuffle(len(shots), func(i, j int) { shots[i], shots[j] = shots[j], shots[i] })
	for i, atHeadquarters := range shots {
		wait(nil, time.Duration(20+c.dice.IntN(800))*time.Millisecond) // the moment is the point
		if atHeadquarters {
			c.Fault(c.eye, true)
			c.HQ.Kill()
			c.Serve()
			c.Fault(c.eye, false)
		} else {
			victim := c.dice.IntN(len(c.agents))
			c.agents[victim].Kill()
			c.agents[victim] = c.Agent(c.stores[victim])
		}
		if i == len(shots)/2 {
			early = c.Store()
		}
	}
	return early
}

// quiet waits until everything is over: then what is looked at one after the
// other was so at one moment. New agents need not wait for their next try.
func (c *chaos) quiet() {
	c.t.Helper()
	for i, store := range c.stores {
		c.agents[i].Kill()
		c.agents[i] = c.Agent(store)
	}
	c.None("the end of all tasks", `SELECT task_id, status FROM tasks WHERE settled_at = 0`)
	c.Revised()
}

// weigh wants that something happened: runs were made, work was done, calls
// were lost, and work was cut off.
func (c *chaos) weigh(e checker.Evidence, kills int) {
	c.t.Helper()
	count := map[string]int{}
	for _, l := range e.History {
		count[string(l.Act)]++
		if l.Act == history.ActAnswered {
			count[string(l.Outcome)]++
		}
		if l.Act == history.ActFault && l.On {
			count["killed"]++
		}
	}
	for _, a := range e.Store.Attempts {
		if a.Attempt > 1 {
			count["attempts again"]++
		}
	}
	c.t.Logf("%d runs, %d tasks, %d revisions, %d lines: %v", len(e.Store.Runs), len(e.Store.Tasks), len(e.Store.Revisions), len(e.History), count)
	if count["killed"] != kills || len(e.Store.Runs) < kills/4 || count["executed"] < len(e.Store.Runs) {
		c.t.Errorf("%d kills; that was no test: %v", kills, count)
	}
}
