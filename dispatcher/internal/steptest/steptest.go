// Package steptest is the bench on which the steps are tested: a real store in
// a temporary folder, runs over made-up stores, and a broker that records what
// is published.
//
// Only tests import it. Inside a synctest bubble everything it starts belongs
// to the bubble, so its time is the bubble's.
package steptest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
)

// Job is the name of the job of every run.
const Job = "collect_log"

// Bench is one headquarters without its steps.
type Bench struct {
	t      testing.TB
	Store  *store.Store
	Broker *Broker
	Sender *transport.Sender
	Logger *slog.Logger

	terminal string // that new tasks are for
}

// Address lets the tasks of runs that are created from now on be for one
// terminal.
func (b *Bench) Address(terminal string) *Bench {
	b.terminal = terminal
	return b
}

// New opens a bench that is closed with the test. observers follow the store's
// change feed.
func New(t testing.TB, observers ...func([]store.Change)) *Bench {
	t.Helper()
	return Open(t, filepath.Join(t.TempDir(), "muster.db"), observers...)
}

// Open opens a bench over the database at path, which may exist.
func Open(t testing.TB, path string, observers ...func([]store.Change)) *Bench {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	for _, observe := range observers {
		s.Observe(observe)
	}
	topics, err := protocol.NewTopics(protocol.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	b := &Bench{t: t, Store: s, Broker: &Broker{}, Logger: slog.New(slog.DiscardHandler)}
	b.Sender = transport.NewSender(b.Broker, topics, time.Now)
	t.Cleanup(b.Close)
	return b
}

// Close closes the store; calling it again is harmless.
func (b *Bench) Close() {
	if err := b.Store.Close(); err != nil {
		b.t.Error(err)
	}
}

// Policy is a policy that limits nothing but attempts (2) and silence (45 s).
func Policy() job.Policy {
	p := job.DefaultPolicy()
	p.Attempts, p.Lease, p.RunTimeout = 2, 45*time.Second, time.Minute
	p.RetryFirst, p.RetryMax = 2*time.Second, 30*time.Second
	return p
}

// Create makes a run with one task in each of n stores: S000, S001 and so on.
// See Task for the tasks' ids.
func (b *Bench) Create(runID string, n int, policy job.Policy) store.Run {
	b.t.Helper()
	now := time.Now()
	places, tasks := make([]store.Place, n), make([]store.NewTask, n)
	for i := range n {
		places[i] = store.Place{StoreID: StoreID(i), Name: StoreID(i), TimeZone: "UTC"}
		tasks[i] = store.NewTask{TaskID: TaskID(runID, i), StoreID: StoreID(i), TerminalID: b.terminal}
	}
	if _, _, _, err := b.Store.ReplacePlaces(b.t.Context(), "", places, now); err != nil {
		b.t.Fatal(err)
	}
	run := store.Run{
		RunID: runID, Job: Job, JobVersion: 1, RequestedBy: "tech", Input: json.RawMessage(`{"date":"2026-09-17"}`),
		Policy: policy, Targets: n, CreatedAt: now, BarrierAt: now.Add(policy.Barrier),
		MakeupUntil: now.Add(policy.Barrier + policy.Makeup),
	}
	created, err := b.Store.CreateRun(b.t.Context(), run, places, tasks, store.Request{User: "tech", RequestID: runID, ContentHash: runID}, now)
	if err != nil {
		b.t.Fatal(err)
	}
	return created.Run
}

// StoreID names the i-th store.
func StoreID(i int) string { return fmt.Sprintf("S%03d", i) }

// TaskID names the task of the i-th store in a run.
func TaskID(runID string, i int) string { return runID + "-" + StoreID(i) }

// Task reads a task.
func (b *Bench) Task(taskID string) store.Task {
	b.t.Helper()
	t, err := b.Store.GetTask(b.t.Context(), taskID)
	if err != nil {
		b.t.Fatal(err)
	}
	return t
}

// Property is what a property of rapid reports to.
type Property interface {
	Fatalf(format string, args ...any)
}

// broken is a failure on its way out of a bubble.
type broken string

// Fail ends a Bubble's test as failed.
func Fail(format string, args ...any) { panic(broken(fmt.Sprintf(format, args...))) }

// Bubble runs test, one example of a property, in a synctest bubble. rapid
// knows only panics of its own goroutine, and tells them apart by their place:
// in the bubble call Fail, and draw freely.
func Bubble(t *testing.T, property Property, test func(t *testing.T)) {
	t.Helper()
	var failure any
	synctest.Test(t, func(t *testing.T) {
		defer func() { failure = recover() }()
		test(t)
	})
	switch f := failure.(type) {
	case nil:
	case broken:
		property.Fatalf("%s", string(f))
	default:
		panic(f)
	}
}

// From is the address of a message from terminal "pos" of the i-th store.
func From(i int, kind protocol.Kind) protocol.Address {
	return protocol.Address{Area: protocol.AreaStores, Store: StoreID(i), Terminal: "pos", Kind: kind}
}

// Message frames v as a terminal would send it.
func Message(v any) transport.Inbound {
	payload, err := protocol.Encode(v)
	if err != nil {
		panic(err) // a test's own message
	}
	return transport.Inbound{Payload: payload}
}

// Sent is one published message.
type Sent struct {
	transport.Outbound
	Address protocol.Address
	At      time.Time
	Order   protocol.Order // of an order
}

// Broker records what is published. Safe for concurrent use.
type Broker struct {
	mu   sync.Mutex
	sent []Sent
	fail error
}

// Publish records out, or fails as told by Break.
func (b *Broker) Publish(_ context.Context, out transport.Outbound) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail != nil {
		return b.fail
	}
	topics, err := protocol.NewTopics(protocol.DefaultRoot)
	if err != nil {
		return err
	}
	s := Sent{Outbound: out, At: time.Now()}
	s.Address, _ = topics.Parse(out.Topic)
	if s.Address.Kind == protocol.KindOrders {
		if err := json.Unmarshal(out.Payload, &s.Order); err != nil {
			return fmt.Errorf("cannot read an order: %w", err)
		}
	}
	b.sent = append(b.sent, s)
	return nil
}

// Break lets Publish fail with err, or work again with nil.
func (b *Broker) Break(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail = err
}

// Sent returns everything published so far.
func (b *Broker) Sent() []Sent {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]Sent(nil), b.sent...)
}

// Orders returns the orders of one kind published so far.
func (b *Broker) Orders(kind protocol.OrderKind) (out []Sent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.sent {
		if b.sent[i].Order.Order == kind {
			out = append(out, b.sent[i])
		}
	}
	return out
}

// Retained returns the payload that lies retained on topic, nil if none does.
func (b *Broker) Retained(topic string) []byte {
	var last []byte
	for _, s := range b.Sent() {
		if s.Topic == topic && s.Retain {
			last = s.Payload
		}
	}
	if len(last) == 0 {
		return nil
	}
	return last
}

// Forget drops what was recorded.
func (b *Broker) Forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sent = nil
}
