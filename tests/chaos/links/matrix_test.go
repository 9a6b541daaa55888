package links_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/task"
	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
	"muster/tests/chaos/site"
	"muster/tests/programs"
)

// The stores, named as what is wrong with their links.
const (
	good    = "good"    // nothing
	late    = "late"    // its agent starts after the barrier
	latency = "latency" // 2 s ± 1 s, both ways; its agent is killed
	narrow  = "narrow"  // 1 KB/s, and a result of 9 KB
	sliced  = "sliced"  // torn into pieces of some 40 bytes
	reset   = "reset"   // connections are reset at random moments
	black   = "black"   // nothing comes through any more, nor any end of it
	deaf    = "deaf"    // half open: nothing comes from the broker
	dumb    = "dumb"    // half open: nothing goes to the broker
	closes  = "closes"  // ends of connections come 3 s late
	breaks  = "breaks"  // 4 KB/s, and cut while the result is on its way
	modem   = "modem"   // 5 KB/s, and a result of 240 KB, which takes longer than a keep-alive
)

// work makes results of a size that is the store's.
const work = `case $STORE in narrow) n=9000;; breaks) n=12000;; sliced) n=20000;; modem) n=240000;; *) n=10;; esac
sleep 1
printf '{"marker":"%s did it","pad":"' "$STORE"
head -c $n /dev/zero | tr '\0' x
printf '"}\n'
exit 0`

// patient lets an attempt be lost to a link again and again.
const patient = "attempts: 10, run_timeout: 5m, lease: 8s, barrier: 30s, makeup: 1h, retry_interrupted: true, retry_first: 100ms, retry_max: 1s, backlog: all"

// troubles are what is wrong with a link from the start.
var troubles = map[string][]toxic{
	latency: both("latency", attributes{"latency": 2000, "jitter": 1000}),
	narrow:  both("bandwidth", attributes{"rate": 1}),
	sliced:  both("slicer", attributes{"average_size": 40, "size_variation": 20, "delay": 500}),
	closes:  both("slow_close", attributes{"delay": 3000}),
	breaks:  both("bandwidth", attributes{"rate": 4}),
	modem:   both("bandwidth", attributes{"rate": 5}),
	// The toxic that is never on makes every end of its connections a reset.
	reset: {{Name: never.Name, Type: never.Type, Stream: never.Stream}},
}

var never = toward("downstream", "reset_peer", attributes{"timeout": 0})

// holes are what befalls a link once its store executes, so that the result is
// lost. The end of a connection is held back for an hour: it must be noticed.
var holes = map[string][]toxic{
	black: append(both("slow_close", attributes{"delay": 3_600_000}), both("timeout", attributes{"timeout": 0})...),
	deaf:  {toward("downstream", "slow_close", attributes{"delay": 3_600_000}), toward("downstream", "timeout", attributes{"timeout": 0})},
	dumb:  {toward("upstream", "slow_close", attributes{"delay": 3_600_000}), toward("upstream", "timeout", attributes{"timeout": 0})},
}

// TestEveryAnswerOutlivesItsLink: with each link bad in its own way, with
// headquarters and an agent killed meanwhile, nothing is lost, nothing is done
// twice, and once the links are good everything is there within bounded time.
func TestEveryAnswerOutlivesItsLink(t *testing.T) {
	t.Parallel()
	stores, length, settle := []string{good, late, latency, narrow, reset, black, dumb, breaks}, 9*time.Second, 5*time.Second
	if programs.Full() { // long enough for a keep-alive of 30 s to find out twice
		stores, length, settle = append(stores, deaf, sliced, closes, modem), 64*time.Second, 10*time.Second
	}
	b := newBench(t, site.Config{Policy: patient, Work: work, Claims: site.Executed("I2 events", "I5 moved"), Limits: checker.Limits{
		MaxRunning: 8, GrantsPerSecond: 20, GrantBurst: 5, Settle: settle, Reoffer: 15 * time.Second}}, stores...)
	m := &matrix{bench: b, stores: stores, length: length, ends: -1, agents: map[string]*programs.Process{}}
	m.start()
	if missed := play(length, m.events()); missed > 0 {
		t.Errorf("%d events did not come about", missed)
	}
	m.judge()
}

type matrix struct {
	*bench
	stores []string
	length time.Duration
	agents map[string]*programs.Process
	ends   int    // connections of black that had ended when its hole began; -1: not yet
	first  string // run
	early  checker.Store
}

// start brings every agent but the late one up over its link.
func (m *matrix) start() {
	for _, store := range m.stores {
		if store == late {
			continue
		}
		m.agents[store] = m.Agent(store) // joins its link
		m.links.spoil(store, troubles[store]...)
		if len(troubles[store]) > 0 {
			m.note(store, true)
		}
	}
	m.connected(good, reset, black, dumb, breaks)
	m.first = m.order("r1", 6, m.stores...)
}

// events is what happens while the links are bad.
func (m *matrix) events() []event {
	share := func(of float64) time.Duration { return time.Duration(of * float64(m.length)) }
	all := []event{
		{ready: func() bool { return m.Executions(latency) > 0 }, do: func() {
			m.agents[latency].Kill()
			m.agents[latency] = m.Agent(latency)
		}},
		{after: share(0.3), do: func() { m.early = m.Store() }},
		{after: 4 * time.Second, do: m.restart},
		{after: share(0.5), do: func() { m.order("r2", 7, m.stores...) }},
		{ready: func() bool { return m.published(m.first) }, do: func() { m.agents[late] = m.Agent(late) }},
		{after: m.length - 2*time.Second, do: func() { m.order("r3", 4, m.stores...) }},
	}
	if programs.Full() { // a dead connection is found out in two keep-alives, without a word from the other end
		all = append(all, event{ready: func() bool { return m.ends >= 0 && m.ended(black) > m.ends }, do: func() {}},
			event{after: m.length - 3*time.Second, ready: func() bool { return m.receipted(modem) }, do: m.restart})
	}
	for store, hole := range holes {
		if m.agents[store] == nil {
			continue
		}
		all = append(all, event{ready: func() bool { return m.Executions(store) > 0 }, do: func() {
			m.note(store, true)
			m.links.spoil(store, hole...)
			if store == black {
				m.ends = m.ended(black)
			}
		}})
	}
	cuts := 1
	if programs.Full() {
		cuts = 3
	}
	for n := 1; n <= cuts; n++ { // the result is on its way: the link goes, and comes back
		all = append(all, event{ready: func() bool { return m.seen(breaks, history.ActSent, "/result") >= n },
			do: func() { m.links.cut(breaks, true); m.links.cut(breaks, false) }})
	}
	resets := func() bool { return m.ended(reset) > m.ended(good) } // the first time until it has worked
	for at := time.Second; at < m.length-2*time.Second; at += 2*time.Second + rand.N(8*time.Second) {
		all = append(all, event{after: at, do: func() { m.links.turn(reset, never, 1) }},
			event{after: at + 700*time.Millisecond, ready: resets, do: func() { m.links.turn(reset, never, 0) }})
		if m.agents[closes] != nil {
			all = append(all, event{after: at, do: m.Tap(closes).Cut})
		}
	}
	return all
}

// judge makes the links good and wants everything to be there, and no finding.
func (m *matrix) judge() {
	m.t.Helper()
	for _, store := range m.stores {
		m.links.heal(store)
		if store != good && store != late {
			m.note(store, false)
		}
	}
	m.allSucceed()
	e := m.judgeAll([]checker.Store{m.early}, latency)
	for _, o := range e.Store.Outcomes {
		if o.RunID != m.first || o.Revision != 1 {
			continue
		}
		if o.StoreID == late && o.Outcome == task.OutcomeSucceeded {
			m.t.Error("the agent that came after the barrier answered before it")
		}
	}
}

// ended counts the connections of a store that have ended.
func (m *matrix) ended(store string) int { return m.seen(store, history.ActDisconnected, "") }

// receipted tells whether headquarters has an answer of a store.
func (m *matrix) receipted(store string) bool {
	return slices.ContainsFunc(m.lines(store), func(line string) bool { return strings.Contains(line, `\"order\":\"receipt\"`) })
}

// published tells whether a run has its first report.
func (m *matrix) published(run string) bool {
	return len(programs.Manifests(m.Reports(), run+"_r1")) == 1
}
