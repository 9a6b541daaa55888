package agent_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oklog/ulid/v2"

	"muster/edge-agent/internal/agent"
	"muster/edge-agent/internal/executor"
	"muster/edge-agent/internal/hqtest"
	"muster/edge-agent/internal/identity"
	"muster/edge-agent/internal/journal"
	"muster/edge-agent/internal/outbox"
	"muster/edge-agent/internal/stamp"
	"muster/internal/protocol"
	"muster/internal/task"
	"muster/internal/trust"
)

const (
	storeID    = "007"
	terminalID = "pos-1"
	lease      = time.Minute
)

func topics(t testing.TB) protocol.Topics {
	topics, err := protocol.NewTopics(protocol.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	return topics
}

// sent is one message of the terminal.
type sent struct {
	kind    protocol.Kind
	payload []byte
}

// wire is the far end: what the agent hands to its link.
type wire struct {
	mu   sync.Mutex
	all  []sent
	take func(sent) // instead of collecting, when set
}

func (w *wire) Send(kind protocol.Kind, payload []byte) bool {
	m := sent{kind, payload}
	if w.take != nil {
		w.take(m)
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, m)
	return true
}

// drain returns and forgets what was sent, of one kind.
func drain[T any](t testing.TB, w *wire, kind protocol.Kind) []T {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []T
	w.all = slices.DeleteFunc(w.all, func(m sent) bool {
		if m.kind != kind {
			return false
		}
		out = append(out, decode[T](t, m.payload))
		return true
	})
	return out
}

func decode[T any](t testing.TB, payload []byte) T {
	t.Helper()
	var v T
	if err := protocol.Decode(payload, protocol.MaxPayloadBytes, &v); err != nil {
		t.Fatalf("%v in %.200s", err, payload)
	}
	return v
}

// bench is one terminal in a synctest bubble, with real files.
type bench struct {
	t      testing.TB
	folder string
	// marksFolder is where executions leave their marks; "": in folder.
	marksFolder string

	wire *wire
	cfg  agent.Config
	jobs executor.Registry

	agent *agent.Agent
	kill  func()
	seq   int64

	// With identity on: the folder, and the key that signs for headquarters.
	identity string
	signer   *trust.Signer
	hashes   map[string]string // of the newest offer of a task
	log      *slog.Logger      // nil: nobody reads it
}

// identify switches identity on for the agents that are started from now on.
func (b *bench) identify() *hqtest.HQ {
	hq := hqtest.New(b.t)
	b.identity, b.signer = hq.Enrolled(storeID, terminalID), hq.Key
	return hq
}

// newBench makes a terminal that runs the given work for job "count" version 1.
func newBench(t testing.TB, work executor.Func) *bench {
	t.Helper()
	b := &bench{t: t, folder: t.TempDir(), wire: &wire{}, hashes: map[string]string{}}
	b.jobs = executor.Registry{{Type: "count", Version: 1}: b.marking(work)}
	b.cfg = agent.Config{StoreID: storeID, TerminalID: terminalID, Version: "test", MaxParallel: 1,
		Measure: func() protocol.Condition { return protocol.Condition{} }}
	return b
}

// marking writes down each execution, by the executed work itself.
func (b *bench) marking(work executor.Func) executor.Executor {
	return executorFunc(func(ctx context.Context, o executor.Order) (executor.Output, error) {
		f, err := os.OpenFile(b.marksFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return executor.Output{}, err
		}
		_, err = fmt.Fprintf(f, "%s/%d\n", o.TaskID, o.Attempt)
		if err := errors.Join(err, f.Close()); err != nil {
			return executor.Output{}, err
		}
		return work.Run(ctx, o)
	})
}

type executorFunc func(context.Context, executor.Order) (executor.Output, error)

func (f executorFunc) Run(ctx context.Context, o executor.Order) (executor.Output, error) {
	return f(ctx, o)
}

func (b *bench) marksFile() string {
	return filepath.Join(cmp.Or(b.marksFolder, b.folder), "marks")
}

// marks lists the executions, as "task/attempt".
func (b *bench) marks() []string {
	data, err := os.ReadFile(b.marksFile())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		b.t.Fatal(err)
	}
	return strings.Fields(string(data))
}

func (b *bench) wantMarks(want ...string) {
	b.t.Helper()
	if got := b.marks(); !slices.Equal(got, want) {
		b.t.Errorf("executed %v, want %v", got, want)
	}
}

// start runs an agent on the folder, as after a boot.
func (b *bench) start() {
	b.t.Helper()
	log := slog.New(slog.DiscardHandler)
	if b.log != nil {
		log = b.log
	}
	lock, err := journal.Acquire(b.folder, time.Now())
	if err != nil {
		b.t.Fatal(err)
	}
	book, err := journal.Open(b.folder, time.Now, log)
	if err != nil {
		b.t.Fatal(err)
	}
	box, err := outbox.Open(filepath.Join(b.folder, "outbox"), log)
	if err != nil {
		b.t.Fatal(err)
	}
	cfg := b.cfg
	cfg.Topics, cfg.Jobs, cfg.Journal, cfg.Outbox, cfg.Logger = topics(b.t), b.jobs, book, box, log
	cfg.Stamp, cfg.Home = stamp.New(time.Now, book.LastWrite()), func() error { return lock.Here(time.Now()) }
	if b.identity != "" {
		if cfg.Identity, err = identity.Open(b.identity, storeID, terminalID, time.Now()); err != nil {
			b.t.Fatal(err)
		}
	}
	b.agent = agent.New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	a, w := b.agent, b.wire
	go func() {
		defer close(done)
		a.Run(ctx, w)
	}()
	b.kill = func() {
		cancel()
		<-done
		if err := errors.Join(book.Close(), lock.Release()); err != nil {
			b.t.Error(err)
		}
	}
}

// connect brings the link up and answers the hello with a sync of what is open.
func (b *bench) connect(open ...protocol.SyncTask) {
	b.t.Helper()
	b.agent.Up()
	b.sync(open...)
}

// sync answers the newest hello.
func (b *bench) sync(open ...protocol.SyncTask) protocol.Hello {
	b.t.Helper()
	sleep(100 * time.Millisecond)
	hellos := drain[protocol.Hello](b.t, b.wire, protocol.KindHello)
	if len(hellos) == 0 {
		b.t.Fatal("no hello")
	}
	hello := hellos[len(hellos)-1]
	b.order(protocol.Order{Order: protocol.OrderSync, HelloID: hello.ID, ServerTimeMs: time.Now().UnixMilli(), Open: open})
	return hello
}

func (b *bench) meta() protocol.Meta {
	b.seq++
	return protocol.Meta{ID: ulid.Make().String(), At: protocol.At(time.Now()), Seq: b.seq}
}

func (b *bench) order(o protocol.Order) {
	b.t.Helper()
	if o.ID == "" {
		o.Meta = b.meta()
	}
	payload, err := protocol.Encode(o)
	if err != nil {
		b.t.Fatal(err)
	}
	b.deliver(orders(b.t), payload)
}

func orders(t testing.TB) string { return topics(t).Terminal(storeID, terminalID, protocol.KindOrders) }

// deliver brings one message, signed when identity is on.
func (b *bench) deliver(topic string, payload []byte) {
	b.agent.Message(topic, payload, b.sign(topic, payload))
	synctest.Wait()
}

func (b *bench) sign(topic string, payload []byte) trust.Signature {
	if b.signer == nil || len(payload) == 0 {
		return trust.Signature{}
	}
	return b.signer.Sign(topic, payload)
}

func (b *bench) grant(taskID string, attempt int) {
	b.t.Helper()
	o := protocol.Order{Order: protocol.OrderGrant, TaskID: taskID, Attempt: attempt,
		LeaseMs: lease.Milliseconds(), RunTimeoutMs: 60_000}
	if b.identity != "" {
		o.OfferSHA256 = b.hashes[taskID]
	}
	b.order(o)
}

func (b *bench) receipt(r protocol.Result, accepted bool, code protocol.Code) {
	b.t.Helper()
	b.order(protocol.Order{Order: protocol.OrderReceipt, TaskID: r.TaskID, Attempt: r.Attempt, SHA256: r.SHA256,
		Accepted: &accepted, Code: code})
}

// offer is an offer of job "count", changed as said.
func (b *bench) offer(taskID string, change ...func(*protocol.Offer)) {
	b.t.Helper()
	now := time.Now()
	o := protocol.Offer{Meta: b.meta(), TypeVersion: 1, Attempts: 2, RunTimeoutMs: 60_000,
		QueueDeadline: now.Add(time.Hour).UnixMilli(), ScheduledFor: protocol.At(now),
		Record: protocol.Record{TaskID: taskID, ParentID: "run1", StoreID: storeID, Type: "count",
			Input: json.RawMessage(`{"n":1}`), Status: task.Pending, Deadline: now.Add(2 * time.Minute).UnixMilli()}}
	for _, f := range change {
		f(&o)
	}
	payload, err := protocol.Encode(o)
	if err != nil {
		b.t.Fatal(err)
	}
	b.hashes[taskID] = o.Hash()
	b.deliver(topics(b.t).Offer(storeID, taskID), payload)
}

func (b *bench) withdraw(taskID string) {
	b.deliver(topics(b.t).Offer(storeID, taskID), nil)
}

// claims drains the ids of the tasks that were claimed.
func (b *bench) claims() []string {
	b.t.Helper()
	var ids []string
	for _, c := range drain[protocol.Claim](b.t, b.wire, protocol.KindClaim) {
		ids = append(ids, c.TaskID)
	}
	return ids
}

func (b *bench) wantClaims(want ...string) {
	b.t.Helper()
	if got := b.claims(); !slices.Equal(got, want) {
		b.t.Errorf("claimed %v, want %v", got, want)
	}
}

// wantSomeClaims allows for the jitter: one claim or more, all of one task.
func (b *bench) wantSomeClaims(taskID string) {
	b.t.Helper()
	if got := slices.Compact(b.claims()); !slices.Equal(got, []string{taskID}) {
		b.t.Errorf("claimed %v, want %s once or more", got, taskID)
	}
}

// result drains exactly one result.
func (b *bench) result() protocol.Result {
	b.t.Helper()
	synctest.Wait()
	all := drain[protocol.Result](b.t, b.wire, protocol.KindResult)
	if len(all) != 1 {
		b.t.Fatalf("%d results, want 1", len(all))
	}
	return all[0]
}

func (b *bench) wantFailure(r protocol.Result, code protocol.Code) {
	b.t.Helper()
	if r.Outcome == protocol.AnswerSucceeded {
		b.t.Fatalf("succeeded, want %s", code)
	}
	if f := decode[protocol.Failure](b.t, r.Error); f.Code != code {
		b.t.Errorf("failed with %s (%s), want %s", f.Code, f.Message, code)
	}
}

// answers counts what lies in the outbox.
func (b *bench) answers() int {
	b.t.Helper()
	files, err := filepath.Glob(filepath.Join(b.folder, "outbox", "*.answer"))
	if err != nil {
		b.t.Fatal(err)
	}
	return len(files)
}

func mine(taskID string, attempt int) protocol.SyncTask {
	return protocol.SyncTask{TaskID: taskID, Status: task.Running, Attempt: attempt, Mine: true}
}

func pending(taskID string) protocol.SyncTask {
	return protocol.SyncTask{TaskID: taskID, Status: task.Pending}
}

func count(context.Context, json.RawMessage, time.Time) (json.RawMessage, error) {
	return json.RawMessage(`{"n": 9007199254740993, "x": 1.0}`), nil
}

// slow works for ten seconds, or until it is told to stop.
func slow(ctx context.Context, input json.RawMessage, at time.Time) (json.RawMessage, error) {
	return lasting(10*time.Second)(ctx, input, at)
}

// lasting is work that takes so long, or until it is told to stop.
func lasting(d time.Duration) executor.Func {
	return func(ctx context.Context, _ json.RawMessage, _ time.Time) (json.RawMessage, error) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return json.RawMessage(`{}`), nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// inBubble runs a test on virtual time and ends its agent.
func inBubble(t *testing.T, work executor.Func, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, work)
		b.start()
		defer func() { b.kill() }()
		test(t, b)
	})
}

func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// last drains the results and returns the newest.
func last(b *bench) protocol.Result {
	b.t.Helper()
	all := drain[protocol.Result](b.t, b.wire, protocol.KindResult)
	if len(all) == 0 {
		b.t.Fatal("no result")
	}
	return all[len(all)-1]
}
