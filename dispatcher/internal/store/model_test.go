package store_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

// model is what the store should say, kept in a few maps and written apart
// from it.
type model struct {
	b       *bundle
	now     time.Time
	allowed int
	tasks   []modelTask
}

type modelTask struct {
	state    task.State
	holder   string
	due      time.Time
	answered map[int]string // attempt → sha256 of the stored answer
	holders  map[int]string
	claimed  time.Time
	seen     []store.Task // how it stood, the newest last
}

const modelTasks = 3

func terminals() []string { return []string{"pos1", "pos2"} }

// TestAnySequenceKeepsTheStoreHonest plays claims, answers (current, stale,
// doubled, by others), lease ends and cancels in any order against the model.
// I2: one terminal transition a task. I3: a (task, attempt) is granted once.
// I8: the same answer makes one record. Callers say how they know the task, which may
// be long ago, or nothing.
func TestAnySequenceKeepsTheStoreHonest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		b := &bundle{t: t, path: filepath.Join(dir, fmt.Sprintf("%d.db", n))}
		b.open()
		defer b.close()
		m := &model{b: b, now: t0, allowed: rapid.IntRange(1, 3).Draw(rt, "attempts")}
		b.create(modelTasks, func(r *store.Run) { r.Policy.Attempts = m.allowed })
		for range modelTasks {
			m.tasks = append(m.tasks, modelTask{state: task.State{Status: task.Pending}, answered: map[int]string{}, holders: map[int]string{}})
		}
		rt.Repeat(map[string]func(*rapid.T){
			"grant":  m.grant,
			"answer": m.answer,
			"lease":  m.leaseEnd,
			"cancel": m.cancel,
			"note":   m.note,
			"later":  func(*rapid.T) { m.now = m.now.Add(40 * time.Second) },
			"":       m.check,
		})
		m.checkChanges(rt)
	})
}

func (m *model) pick(rt *rapid.T) (int, *modelTask) {
	i := rapid.IntRange(0, modelTasks-1).Draw(rt, "task")
	return i, &m.tasks[i]
}

// known is a task as a caller may know it.
func (k *modelTask) known(rt *rapid.T) *store.Task {
	back := rapid.IntRange(0, 3).Draw(rt, "known from so far back")
	if back == 0 || back > len(k.seen) {
		return nil
	}
	t := k.seen[len(k.seen)-back]
	return &t
}

func (m *model) note(rt *rapid.T) {
	i, k := m.pick(rt)
	if err := m.b.NoteClaim(m.b.t.Context(), taskID(i), m.now); err != nil {
		rt.Fatal(err)
	}
	if !k.state.Settled && k.claimed.IsZero() {
		k.claimed = m.now
	}
}

func (m *model) grant(rt *rapid.T) {
	i, k := m.pick(rt)
	who := rapid.SampledFrom(terminals()).Draw(rt, "terminal")
	var want protocol.Code
	switch {
	case k.state.Settled:
		want = protocol.CodeSettled
	case k.state.Status == task.Running:
		want = protocol.CodeTaken
	case k.due.After(m.now):
		want = protocol.CodeNotYet
	}
	got, err := m.b.Grant(m.b.t.Context(), store.Grant{TaskID: taskID(i), StoreID: storeID(i), TerminalID: who, LeaseUntil: m.now.Add(time.Minute), Known: k.known(rt)}, m.now)
	if err != nil || got.Refusal != want {
		rt.Fatalf("grant of %+v: %q, want %q, %v", k.state, got.Refusal, want, err)
	}
	if want != "" {
		return
	}
	k.state = task.State{Status: task.Running, Attempt: k.state.Attempt + 1}
	k.holder, k.due = who, time.Time{}
	if k.claimed.IsZero() {
		k.claimed = m.now
	}
	if k.holders[k.state.Attempt] != "" {
		rt.Fatalf("attempt %d is granted twice", k.state.Attempt)
	}
	k.holders[k.state.Attempt] = who
}

func (m *model) answer(rt *rapid.T) {
	i, k := m.pick(rt)
	attempt := rapid.IntRange(1, m.allowed+1).Draw(rt, "attempt")
	who := rapid.SampledFrom(terminals()).Draw(rt, "terminal")
	event := rapid.SampledFrom([]task.Event{task.Succeed, task.Fail, task.GiveUp, task.Cancel}).Draw(rt, "event")
	var a store.Answer
	switch event {
	case task.Succeed:
		a = success(i, attempt, rapid.SampledFrom([]string{`{"v":1}`, `{"v":2}`}).Draw(rt, "result"))
	default:
		a = failure(i, attempt, event)
		if event == task.Cancel {
			a.Attempt.Answer = protocol.AnswerCancelled
		}
	}
	a.RetryAt = m.now.Add(time.Minute)
	a.Attempt.TerminalID = who
	exit := 3
	a.Attempt.TerminalFrom, a.Attempt.TerminalTo, a.Attempt.Duration = m.now.Add(1234567), m.now.Add(time.Second), 1234567
	a.Attempt.ExitCode, a.Attempt.Columns, a.Attempt.OutputTail, a.Attempt.Redacted = &exit, []json.RawMessage{[]byte(`{"n":1}`), []byte("null")}, "tail", 1
	a.Known = k.known(rt)
	got, err := m.b.Settle(m.b.t.Context(), a, m.now)
	if err != nil {
		rt.Fatal(err)
	}
	own := k.holders[attempt] == who
	switch {
	case own && k.answered[attempt] != "" && k.answered[attempt] == a.Attempt.SHA256:
		if !got.Duplicate || got.Applied {
			rt.Fatalf("the same answer again: %+v", got)
		}
	case k.state.Settled:
		if got.Refusal != protocol.CodeSettled {
			rt.Fatalf("an answer after the end: %+v", got)
		}
	case !own || k.state.Status != task.Running || k.state.Attempt != attempt:
		if got.Refusal != protocol.CodeStale {
			rt.Fatalf("a stale answer: %+v", got)
		}
	default:
		if !got.Applied {
			rt.Fatalf("the holder's answer: %+v", got)
		}
		k.answered[attempt] = a.Attempt.SHA256
		m.end(k, event, a.RetryAt)
	}
}

func (m *model) leaseEnd(rt *rapid.T) {
	i, k := m.pick(rt)
	if k.state.Status != task.Running {
		rt.Skip()
	}
	a := leaseEnd(i, k.state.Attempt, task.Fail)
	a.Attempt.TerminalID, a.RetryAt = k.holder, m.now.Add(time.Minute)
	if got, err := m.b.Settle(m.b.t.Context(), a, m.now); err != nil || !got.Applied {
		rt.Fatalf("lease end: %+v, %v", got, err)
	}
	m.end(k, task.Fail, a.RetryAt)
}

// end moves the model's task out of RUNNING.
func (m *model) end(k *modelTask, event task.Event, retry time.Time) {
	switch {
	case event == task.Succeed:
		k.state = task.State{Status: task.Succeeded, Attempt: k.state.Attempt, Settled: true}
	case event == task.Cancel:
		k.state = task.State{Status: task.Cancelled, Attempt: k.state.Attempt, Settled: true}
	case event == task.Fail && k.state.Attempt < m.allowed:
		k.state, k.due = task.State{Status: task.Failed, Attempt: k.state.Attempt}, retry
	default:
		k.state = task.State{Status: task.Failed, Attempt: k.state.Attempt, Settled: true}
	}
}

func (m *model) cancel(rt *rapid.T) {
	i, k := m.pick(rt)
	cancelled, settled, err := m.b.Cancel(m.b.t.Context(), "R", []string{storeID(i)}, task.ReasonByUser, "ada", m.now)
	if err != nil || len(cancelled)+settled != 1 || (settled == 1) != k.state.Settled {
		rt.Fatalf("cancel of %+v: %+v, %d, %v", k.state, cancelled, settled, err)
	}
	if !k.state.Settled {
		k.state = task.State{Status: task.Cancelled, Attempt: k.state.Attempt, Settled: true}
		k.due = time.Time{}
	}
}

func (m *model) check(rt *rapid.T) {
	for i, k := range m.tasks {
		got, err := m.b.GetTask(m.b.t.Context(), taskID(i))
		m.tasks[i].seen = append(m.tasks[i].seen, got)
		if err != nil || got.State != k.state || got.HolderID != k.holder || got.SettledAt.IsZero() == k.state.Settled || !got.ClaimedAt.Equal(k.claimed) {
			rt.Fatalf("task %d is %+v, want %+v held by %q, %v", i, got, k.state, k.holder, err)
		}
		attempts, err := m.b.ListAttempts(m.b.t.Context(), taskID(i))
		if err != nil || len(attempts) != k.state.Attempt {
			rt.Fatalf("task %d has %d records after %d grants, %v", i, len(attempts), k.state.Attempt, err)
		}
		for _, a := range attempts {
			if a.TerminalID != k.holders[a.Attempt] || a.SHA256 != k.answered[a.Attempt] {
				rt.Fatalf("record %+v, want %q by %q", a, k.answered[a.Attempt], k.holders[a.Attempt])
			}
		}
	}
}

// checkChanges replays what the observer heard: it must lead from the first
// state to the last, one legal move at a time, each task settling at most once,
// with the record of the attempt that ended as it is read.
func (m *model) checkChanges(rt *rapid.T) {
	heard := map[string]task.State{}
	for _, c := range m.b.heard() {
		if c.Kind != store.TaskMoved {
			continue
		}
		from, ok := heard[c.Task.TaskID]
		if !ok {
			from = task.State{Status: task.Pending}
		}
		next, err := from.Next(c.Event)
		if err != nil || from != c.From || next != c.Task.State {
			rt.Fatalf("heard %s from %+v to %+v, was at %+v: %v", c.Event, c.From, c.Task.State, from, err)
		}
		heard[c.Task.TaskID] = next
		if c.Attempt == nil {
			continue
		}
		records, err := m.b.ListAttempts(m.b.t.Context(), c.Task.TaskID)
		if err != nil || !reflect.DeepEqual(withTimes(*c.Attempt, records), records[c.From.Attempt-1]) {
			rt.Fatalf("heard that %+v ended, read %+v, %v", *c.Attempt, records, err)
		}
	}
	for i, k := range m.tasks {
		got, ok := heard[taskID(i)]
		if ok && got != k.state || !ok && k.state.Status != task.Pending {
			rt.Fatalf("heard of task %d up to %+v, it is %+v", i, got, k.state)
		}
	}
}
