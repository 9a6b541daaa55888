package intake_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"muster/dispatcher/internal/intake"
	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

// model is what collection must look like from outside.
type model struct {
	t       *rapid.T
	d       *desk
	limits  limits
	began   time.Time
	size    map[int]int
	waiting []int             // in order of service
	sending map[int]time.Time // until when
	seen    int
	paid    []payment
}

type payment struct {
	at    time.Time
	bytes int
}

// stubTasks is a store in which every attempt is the running one: the model is
// about turns and bytes, and needs no disk.
type stubTasks struct{}

func (stubTasks) GetTask(_ context.Context, taskID string) (store.Task, error) {
	return store.Task{TaskID: taskID, StoreID: taskID[len(taskID)-4:], RunID: "r" + taskID[len(taskID)-1:], Type: steptest.Job, HolderID: "pos",
		State: task.State{Status: task.Running, Attempt: 1}}, nil
}

// GetRun gives the odd stores the higher priority.
func (stubTasks) GetRun(_ context.Context, runID string) (store.Run, error) {
	p := job.DefaultPolicy()
	p.Priority = int(runID[1]-'0') % 2
	return store.Run{RunID: runID, Policy: p}, nil
}

func (stubTasks) ListAttempts(context.Context, string) ([]store.Attempt, error) { return nil, nil }
func (stubTasks) Sign(context.Context, store.Sign, time.Time) (bool, error)     { return true, nil }
func (stubTasks) Settle(context.Context, store.Answer, time.Time) (store.Settled, error) {
	return store.Settled{}, nil
}

// TestCollectionKeepsItsBudget drives collection with announcements, answers,
// absences and time in any order, and checks I6 after each step: uploads in
// flight, bytes, the order of service, and that nobody waits while there is
// room.
func TestCollectionKeepsItsBudget(t *testing.T) {
	bench := steptest.New(t)
	rapid.Check(t, func(rt *rapid.T) {
		steptest.Bubble(t, rt, func(t *testing.T) {
			m := newModel(t, rt, bench)
			for range rapid.IntRange(1, 60).Draw(rt, "steps") {
				m.step()
				m.check()
			}
		})
	})
}

func newModel(t *testing.T, rt *rapid.T, bench *steptest.Bench) *model {
	m := &model{t: rt, began: time.Now(), size: map[int]int{}, sending: map[int]time.Time{}}
	m.limits = limits{
		inFlight:  rapid.IntRange(1, 4).Draw(rt, "inFlight"),
		perSecond: rapid.SampledFrom([]float64{0, 1000, 50_000}).Draw(rt, "rate"),
		burst:     rapid.SampledFrom([]int{1, 9000, 100_000}).Draw(rt, "burst"),
	}
	bench.Broker.Forget()
	m.d = &desk{Bench: bench, t: t, leases: &leases{}}
	m.d.Intake = intake.New(intake.Config{Tasks: stubTasks{}, Attempts: stubTasks{}, Jobs: registry(t), Leases: m.d.leases,
		Orders: bench.Sender, Now: time.Now, Logger: bench.Logger,
		InFlight: m.limits.inFlight, BytesPerSecond: m.limits.perSecond, BurstBytes: m.limits.burst})
	if err := m.d.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.d.Intake.Stop)
	return m
}

func (m *model) step() {
	switch rapid.IntRange(0, 3).Draw(m.t, "act") {
	case 0:
		i := rapid.IntRange(0, 9).Draw(m.t, "ready")
		if m.size[i] != 0 {
			return
		}
		m.size[i] = rapid.IntRange(1, 120_000).Draw(m.t, "bytes")
		m.waiting = append(m.waiting, i)
		slices.SortStableFunc(m.waiting, func(a, b int) int { return b%2 - a%2 })
		m.d.ready(i, int64(m.size[i]))
	case 1:
		for _, i := range m.first() {
			sent := large(rapid.SampledFrom([]int{1, m.size[i], m.size[i] + 30_000}).Draw(m.t, "sent"))
			if over := len(sent) - m.size[i]; over > 0 && len(sent) > protocol.InlineLimit { // it is paid for all the same
				m.paid = append(m.paid, payment{time.Now(), over})
			}
			delete(m.sending, i)
			delete(m.size, i)
			m.d.send(i, success(i, 1, sent))
		}
	case 2:
		for _, i := range m.first() { // away and back: at its old place, to be paid again
			m.d.Offline(steptest.StoreID(i), "pos")
			delete(m.sending, i)
			delete(m.size, i)
			m.check()
			m.d.Changed([]store.Change{{Kind: store.TaskMoved, Task: &store.Task{TaskID: steptest.TaskID("r", i)},
				From: task.State{Status: task.Running, Attempt: 1}}})
		}
	case 3:
		time.Sleep(time.Duration(rapid.IntRange(1, 20_000).Draw(m.t, "ms")) * time.Millisecond)
	}
}

// first returns the lowest store that sends, if any does.
func (m *model) first() []int {
	stores := slices.Sorted(maps.Keys(m.sending))
	return stores[:min(len(stores), 1)]
}

func (m *model) check() {
	synctest.Wait()
	calls := m.d.Broker.Orders(protocol.OrderSend)
	for ; m.seen < len(calls); m.seen++ {
		m.called(calls[m.seen])
	}
	for i, until := range m.sending { // given up by time
		if !time.Now().Before(until) {
			delete(m.sending, i)
			delete(m.size, i)
		}
	}
	if len(m.sending) > m.limits.inFlight {
		steptest.Fail("%d uploads at once, %d allowed", len(m.sending), m.limits.inFlight)
	}
	if len(m.waiting) > 0 && len(m.sending) < m.limits.inFlight && m.affordable(m.size[m.waiting[0]]) {
		steptest.Fail("store %d waits though a turn and its bytes are there", m.waiting[0])
	}
}

func (m *model) called(s steptest.Sent) {
	var i int
	if _, err := fmt.Sscanf(s.Address.Store, "S%d", &i); err != nil {
		steptest.Fail("%v", err)
	}
	if len(m.waiting) == 0 || m.waiting[0] != i {
		steptest.Fail("store %d was called, the line is %v", i, m.waiting)
	}
	m.waiting = m.waiting[1:]
	m.sending[i] = s.At.Add(10 * time.Second)
	if i%3 != 0 && time.Now().Before(m.sending[i]) { // the others are stuck and say nothing
		m.d.Heard(s.Address.Store, "pos")
		m.sending[i] = time.Now().Add(30*time.Second + time.Duration(m.size[i])*time.Second/4096)
	}
	m.paid = append(m.paid, payment{s.At, m.size[i]})
	if m.limits.perSecond <= 0 {
		return
	}
	sum := 0
	for _, p := range m.paid {
		sum += p.bytes
	}
	if most := m.limits.perSecond*s.At.Sub(m.began).Seconds() + 1; float64(sum) > most {
		steptest.Fail("%d bytes called for in %v, at most %.0f", sum, s.At.Sub(m.began), most)
	}
}

// affordable replays the bucket and says whether there are clearly enough
// tokens. It does not say so while a result larger than the bucket saves up.
func (m *model) affordable(size int) bool {
	if m.limits.perSecond <= 0 {
		return true
	}
	burst, tokens, last := float64(m.limits.burst), 0.0, m.began // it begins empty
	for _, p := range m.paid {
		tokens = min(burst, tokens+m.limits.perSecond*p.at.Sub(last).Seconds()) - float64(p.bytes)
		last = p.at
	}
	tokens = min(burst, tokens+m.limits.perSecond*time.Since(last).Seconds())
	saving := slices.ContainsFunc(m.waiting, func(i int) bool { return m.size[i] > m.limits.burst })
	return !saving && tokens > float64(size)+1
}
