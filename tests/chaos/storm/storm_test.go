package storm_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"muster/internal/protocol"
	"muster/internal/task"
	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
	"muster/tests/chaos/site"
	"muster/tests/programs"
)

// patience is how long a technician waits for an answer while a thousand
// terminals come back.
const patience = 5 * time.Second

// lifeMemory is how far headquarters' memory may go up from its start through two
// floods of connections: it lets garbage wait until its heap has 128 MiB. How far in
// all is bounded by small.
const lifeMemory = 64 << 20

// TestAThousandComeBackAtOnce: with a run in flight, headquarters is killed and
// started again, and later, just before the barrier, every connection is cut.
// Nothing is lost or done twice, the grants keep to their rate, the report comes
// on time, a technician is answered, and headquarters stays small.
func TestAThousandComeBackAtOnce(t *testing.T) {
	t.Parallel()
	terminals, rate, barrier := 150, 50.0, 6
	if programs.Full() {
		terminals, rate, barrier = 1000, 100.0, 14
	}
	c := newCrowd(t, site.Config{
		Policy: "attempts: 3, run_timeout: 30s, lease: 15s, barrier: 60s, makeup: 1h, retry_first: 100ms, retry_max: 1s",
		Claims: site.Executed("I2 events", "I5 moved", "flat samples"),
		Limits: checker.Limits{MaxRunning: terminals, GrantsPerSecond: rate, GrantBurst: 30, Settle: 5 * time.Second, Reoffer: 10 * time.Second, MemoryMore: lifeMemory},
	}, terminals)
	person, eye := c.Writer(site.Wang), c.Writer(site.Watch)
	c.Serve()
	c.Watch(eye)
	c.run()
	there := terminals - absent
	c.allThere(there, 1)
	run := c.Ask(person, protocol.VerbRun, fmt.Sprintf(`{"requestId":"r1","job":%q,"stores":"all","barrierSeconds":%d}`, site.Job, barrier))
	closes := time.Now().Add(time.Duration(barrier) * time.Second)

	c.answers(terminals / 10)
	c.Fault(eye, true)
	c.HQ.Kill()
	c.Serve()
	c.Fault(eye, false)
	c.Watch(eye)
	stop := c.Sample(eye, "dispatcher", c.HQ)
	c.told(person, run.RunID)
	c.allThere(there, 2)

	programs.Eventually(t, "the last second before the barrier", func() bool { return time.Until(closes) < time.Second })
	for _, terminal := range c.terminals {
		terminal.Cut()
	}
	c.told(person, run.RunID)
	c.allThere(there, 3)
	c.Revision(run.RunID, 1)
	for _, terminal := range c.terminals {
		terminal.Away(false, false)
	}
	c.answers(terminals)
	c.Revision(run.RunID, 2)
	c.small(terminals)
	stop()
	c.stop()
	c.judge(eye, terminals)
}

// absent is how many terminals come after the barrier, so that it must close at
// its deadline.
const absent = 5

// allThere waits until the terminals have their connections, for the nth time.
func (c *crowd) allThere(terminals, nth int) {
	c.t.Helper()
	begin := time.Now()
	programs.Eventually(c.t, "every terminal's connection", func() bool {
		return int(c.up.Load()) == terminals && int(c.joined.Load()) >= nth*terminals
	})
	c.t.Logf("all there after %v", time.Since(begin).Round(time.Millisecond))
}

// answers waits until so many answers were accepted.
func (c *crowd) answers(wanted int) {
	c.t.Helper()
	programs.Eventually(c.t, fmt.Sprintf("%d answers", wanted), func() bool { return int(c.answered.Load()) >= wanted })
}

// told asks as a technician, five times while the crowd comes back.
func (c *crowd) told(person *history.Writer, run string) {
	c.t.Helper()
	var longest time.Duration
	for range 5 {
		begin := time.Now()
		if _, outcome := c.Try(person, protocol.VerbStatus, fmt.Sprintf(`{"runId":%q}`, run), patience); outcome != history.OutcomeOK {
			c.t.Errorf("a technician's question was %s after %v", outcome, time.Since(begin))
		}
		longest = max(longest, time.Since(begin))
	}
	if longest > patience {
		c.t.Errorf("a technician waited %v", longest)
	}
	c.t.Logf("a technician waited at most %v", longest.Round(time.Millisecond))
}

// small wants headquarters to use no more than its terminals explain.
func (c *crowd) small(terminals int) {
	c.t.Helper()
	open, threads, memory := c.HQ.Descriptors(), c.HQ.Status("Threads"), c.HQ.Status("VmHWM")
	c.t.Logf("%d descriptors, %d threads, at most %d MiB", open, threads, memory>>10)
	if most := terminals + 64; open > most {
		c.t.Errorf("headquarters has %d descriptors open, at most %d are explained", open, most)
	}
	if threads > mostThreads {
		c.t.Errorf("headquarters has %d threads, at most %d are explained", threads, mostThreads)
	}
	if most := 128<<10 + 128*terminals; memory > most {
		c.t.Errorf("headquarters had %d KiB resident, at most %d are explained", memory, most)
	}
}

// mostThreads is what the scheduler, the database and waiting system calls take.
const mostThreads = 64

// judge wants no finding, one execution and one success a store.
func (c *crowd) judge(eye *history.Writer, terminals int) {
	c.t.Helper()
	e := c.Judge(eye)
	executed := map[string]int{}
	connected := map[string]int{}
	for _, l := range e.History {
		if l.Act == history.ActExecuted {
			executed[l.Task]++
		}
		if l.Act == history.ActConnected {
			connected[l.Who]++
		}
	}
	again := slices.DeleteFunc(slices.Clone(e.Store.Tasks), func(t checker.Task) bool { return executed[t.TaskID] == 1 })
	if len(again) > 0 {
		c.t.Errorf("%d tasks were not executed exactly once, the first is %+v", len(again), again[0])
	}
	for _, t := range e.Store.Tasks {
		if t.Status != task.Succeeded {
			c.t.Errorf("task %s is %s", t.TaskID, t.Status)
		}
	}
	often := 0
	for _, times := range connected {
		if times >= 3 {
			often++
		}
	}
	if len(connected) != terminals || often < terminals-absent {
		c.t.Errorf("%d of %d terminals connected at all, %d after both storms", len(connected), terminals, often)
	}
}
