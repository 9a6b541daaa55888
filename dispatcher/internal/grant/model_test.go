package grant_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/steptest"
	"muster/internal/task"
)

// model is what admission must look like from outside.
type model struct {
	t       *rapid.T
	d       *desk
	limits  limits
	runs    []modelRun
	began   time.Time
	waiting []string       // in order of asking
	running map[string]int // run
	seen    int            // grants looked at
	moments []time.Time    // of grants
	perRun  map[int][]time.Time
	free    map[string]bool // tasks that nobody asked for yet
}

type modelRun struct {
	name   string
	policy job.Policy
	tasks  int
}

// TestAdmissionKeepsItsPromises drives admission with claims, ends, absences
// and time in any order, and checks I6 after each step: caps, budgets, the
// order of service, and that nobody waits while there is room (no lost
// wake-up).
func TestAdmissionKeepsItsPromises(t *testing.T) {
	folder := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		path := filepath.Join(folder, fmt.Sprint(n))
		steptest.Bubble(t, rt, func(t *testing.T) {
			m := newModel(t, rt, path)
			for range rapid.IntRange(1, 40).Draw(rt, "steps") {
				m.step()
				m.check()
			}
		})
	})
}

func newModel(t *testing.T, rt *rapid.T, path string) *model {
	m := &model{t: rt, running: map[string]int{}, perRun: map[int][]time.Time{}, free: map[string]bool{}}
	m.limits = limits{
		running:   rapid.IntRange(1, 8).Draw(rt, "cap"),
		perSecond: rapid.SampledFrom([]float64{0, 0.5, 3, 50}).Draw(rt, "rate"),
		burst:     rapid.IntRange(1, 5).Draw(rt, "burst"),
	}
	m.d = open(t, path, m.limits)
	for i := range rapid.IntRange(1, 3).Draw(rt, "runs") {
		p := steptest.Policy()
		p.Attempts, p.Lease = 1, time.Hour
		p.Barrier, p.Makeup = time.Hour, 24*time.Hour
		p.Priority = rapid.IntRange(0, 1).Draw(rt, "priority")
		p.MaxRunning = rapid.IntRange(0, 3).Draw(rt, "maxRunning")
		if rapid.Bool().Draw(rt, "paced") {
			p.GrantRate, p.GrantBurst = rapid.SampledFrom([]float64{0.2, 2}).Draw(rt, "grantRate"), rapid.IntRange(1, 3).Draw(rt, "grantBurst")
		}
		run := modelRun{name: fmt.Sprintf("r%d", i), policy: p, tasks: rapid.IntRange(1, 8).Draw(rt, "tasks")}
		m.d.Create(run.name, run.tasks, p)
		m.runs = append(m.runs, run)
		for k := range run.tasks {
			m.free[steptest.TaskID(run.name, k)] = true
		}
	}
	m.began = time.Now()
	return m
}

func (m *model) pick(label string, from []string) (string, bool) {
	if len(from) == 0 {
		return "", false
	}
	return rapid.SampledFrom(from).Draw(m.t, label), true
}

func (m *model) step() {
	switch rapid.IntRange(0, 5).Draw(m.t, "act") {
	case 0, 1, 2:
		for range rapid.IntRange(1, 6).Draw(m.t, "claims") {
			if id, ok := m.pick("claim", sorted(m.free)); ok {
				delete(m.free, id)
				m.waiting = append(m.waiting, id)
				m.d.claim(split(id))
				m.check()
			}
		}
	case 3:
		if id, ok := m.pick("end", sorted(m.running)); ok {
			delete(m.running, id)
			run, i := split(id)
			m.d.answer(run, i, 1, task.Succeed)
		}
	case 4:
		if id, ok := m.pick("away", m.waiting); ok {
			_, i := split(id)
			m.d.Offline(steptest.StoreID(i), "pos")
			m.dropStore(i)
		}
	case 5:
		time.Sleep(time.Duration(rapid.IntRange(1, 4000).Draw(m.t, "ms")) * time.Millisecond)
	}
}

// dropStore forgets the waiting claims of a store; they may be asked again.
func (m *model) dropStore(store int) {
	var rest []string
	for _, id := range m.waiting {
		if _, i := split(id); i == store {
			m.free[id] = true
			continue
		}
		rest = append(rest, id)
	}
	m.waiting = rest
}

func (m *model) check() {
	for _, s := range m.d.grants()[m.seen:] {
		m.seen++
		m.granted(s)
	}
	m.checkCaps()
	m.checkNobodyIsForgotten()
}

// granted checks one grant: its turn, and both budgets up to its moment.
func (m *model) granted(s steptest.Sent) {
	id := s.Order.TaskID
	at := -1
	for i, w := range m.waiting {
		if w == id {
			at = i
		}
	}
	if at < 0 {
		steptest.Fail("%s was granted and nobody waits for it", id)
	}
	run := m.runOf(id)
	for i, other := range m.waiting {
		theirs := m.runOf(other)
		mine, their := m.runs[run].policy.Priority, m.runs[theirs].policy.Priority
		if (their > mine || their == mine && i < at) && (theirs == run || m.mayHaveOne(theirs, s.At)) {
			steptest.Fail("%s was granted before %s, whose turn it was", id, other)
		}
	}
	m.waiting = append(append([]string(nil), m.waiting[:at]...), m.waiting[at+1:]...)
	m.running[id] = run
	m.moments = append(m.moments, s.At)
	m.perRun[run] = append(m.perRun[run], s.At)
	m.checkBudget("overall", m.moments, m.limits.perSecond, m.limits.burst)
	p := m.runs[run].policy
	m.checkBudget(m.runs[run].name, m.perRun[run], p.GrantRate, p.GrantBurst)
}

// checkBudget compares every stretch that ends now with burst + rate·t.
func (m *model) checkBudget(name string, moments []time.Time, perSecond float64, burst int) {
	if perSecond <= 0 {
		return
	}
	last := moments[len(moments)-1]
	for i, from := range moments {
		most := float64(burst) + perSecond*last.Sub(from).Seconds() + 1e-6
		if got := float64(len(moments) - i); got > most {
			steptest.Fail("%s: %v grants in %v, at most %v", name, got, last.Sub(from), most)
		}
	}
}

func (m *model) checkCaps() {
	perRun := map[int]int{}
	for _, run := range m.running {
		perRun[run]++
	}
	if len(m.running) > m.limits.running {
		steptest.Fail("%d run under a cap of %d", len(m.running), m.limits.running)
	}
	for i, r := range m.runs {
		if r.policy.MaxRunning > 0 && perRun[i] > r.policy.MaxRunning {
			steptest.Fail("%d of %s run under a cap of %d", perRun[i], r.name, r.policy.MaxRunning)
		}
		counts, _, err := m.d.Store.CountTasks(m.d.t.Context(), r.name)
		if err != nil {
			steptest.Fail("%v", err)
		}
		if counts[task.Running] != perRun[i] {
			steptest.Fail("the store has %d of %s running, the grants say %d", counts[task.Running], r.name, perRun[i])
		}
	}
}

// checkNobodyIsForgotten: whoever waits lacks a slot or a token.
func (m *model) checkNobodyIsForgotten() {
	now := time.Now()
	if len(m.running) >= m.limits.running || !m.hasToken(m.moments, m.limits.perSecond, m.limits.burst, now) {
		return
	}
	for _, id := range m.waiting {
		if m.mayHaveOne(m.runOf(id), now) {
			steptest.Fail("%s waits though a slot and a token are there", id)
		}
	}
}

// hasToken replays a bucket over the grants so far and says whether there is
// clearly a whole token at the moment.
func (m *model) hasToken(moments []time.Time, perSecond float64, burst int, now time.Time) bool {
	if perSecond <= 0 {
		return true
	}
	tokens, last := float64(burst), m.began
	refill := func(at time.Time) {
		tokens = min(float64(burst), tokens+perSecond*at.Sub(last).Seconds())
		last = at
	}
	for _, at := range moments {
		refill(at)
		tokens--
	}
	refill(now)
	return tokens > 1+1e-6
}

// mayHaveOne tells whether the run has room and a token at the moment.
func (m *model) mayHaveOne(run int, now time.Time) bool {
	p, held := m.runs[run].policy, 0
	for _, r := range m.running {
		if r == run {
			held++
		}
	}
	return (p.MaxRunning == 0 || held < p.MaxRunning) && m.hasToken(m.perRun[run], p.GrantRate, p.GrantBurst, now)
}

func (m *model) runOf(id string) int {
	name, _ := split(id)
	for i, r := range m.runs {
		if r.name == name {
			return i
		}
	}
	steptest.Fail("%s is of no run", id)
	return -1
}

func split(taskID string) (run string, i int) {
	if _, err := fmt.Sscanf(taskID[len(taskID)-3:], "%d", &i); err != nil {
		panic(err) // a test's own id
	}
	return taskID[:len(taskID)-5], i
}

func sorted[V any](set map[string]V) []string { return slices.Sorted(maps.Keys(set)) }
