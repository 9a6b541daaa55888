package intake_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/intake"
	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/schema"
	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

const outputSchema = `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object",
	"required":["lines"],"additionalProperties":false,
	"properties":{"lines":{"type":"integer"},"ratio":{"type":"number"},"text":{"type":"string"}}}`

// desk is an intake over a bench. Its leases only remember what they were told.
type desk struct {
	*steptest.Bench
	*intake.Intake
	t      testing.TB
	leases *leases
	hears  atomic.Pointer[intake.Intake] // of changes
	off    atomic.Int64                  // how far headquarters' time stepped
	told   bool                          // each change is told before its commit is answered
}

// Settle is the store's.
func (d *desk) Settle(ctx context.Context, a store.Answer, now time.Time) (store.Settled, error) {
	settled, err := d.Store.Settle(ctx, a, now)
	if d.told {
		synctest.Wait()
	}
	return settled, err
}

// Sign is the store's.
func (d *desk) Sign(ctx context.Context, s store.Sign, now time.Time) (bool, error) {
	return d.Store.Sign(ctx, s, now)
}

func (d *desk) now() time.Time { return time.Now().Add(time.Duration(d.off.Load())) }

type leases struct {
	mu     sync.Mutex
	paused map[string]int // by task and attempt: pauses less resumptions
}

func (l *leases) note(taskID string, attempt, by int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.paused == nil {
		l.paused = map[string]int{}
	}
	l.paused[fmt.Sprint(taskID, "/", attempt)] = by
}

func (l *leases) Pause(taskID string, attempt int)  { l.note(taskID, attempt, 1) }
func (l *leases) Resume(taskID string, attempt int) { l.note(taskID, attempt, 0) }

func (l *leases) isPaused(taskID string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.paused[taskID+"/1"] == 1
}

type limits struct {
	inFlight  int
	perSecond float64
	burst     int
}

func wide() limits { return limits{inFlight: 8, perSecond: 0, burst: 1} }

func registry(t testing.TB) *job.Registry {
	t.Helper()
	output, err := schema.Compile("output", []byte(outputSchema))
	if err != nil {
		t.Fatal(err)
	}
	return job.NewRegistry(job.Spec{Name: steptest.Job, Version: 1, Output: output},
		job.Spec{Name: "poisoned", Version: 1}) // no schema: its validator panics
}

func open(t testing.TB, l limits) *desk {
	t.Helper()
	d := &desk{t: t, leases: &leases{}}
	d.Bench = steptest.New(t, func(changes []store.Change) { d.hears.Load().Changed(changes) })
	d.start(l)
	return d
}

// start puts a new intake on the bench.
func (d *desk) start(l limits) {
	d.t.Helper()
	d.Intake = intake.New(intake.Config{Tasks: d.Store, Attempts: d, Jobs: registry(d.t), Leases: d.leases,
		Orders: d.Sender, Now: d.now, Logger: d.Logger, InFlight: l.inFlight, BytesPerSecond: l.perSecond, BurstBytes: l.burst})
	d.hears.Store(d.Intake)
	if err := d.Start(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(d.Intake.Stop)
}

// run makes a run of n stores and grants each its first attempt.
func (d *desk) run(n int, change ...func(*job.Policy)) {
	d.t.Helper()
	p := steptest.Policy()
	for _, c := range change {
		c(&p)
	}
	d.Create("r", n, p)
	for i := range n {
		d.grant(i)
	}
}

func (d *desk) grant(i int) { d.t.Helper(); d.grantOf("r", i) }

func (d *desk) grantOf(run string, i int) {
	d.t.Helper()
	g, err := d.Store.Grant(d.t.Context(), store.Grant{TaskID: steptest.TaskID(run, i), StoreID: steptest.StoreID(i),
		TerminalID: "pos", LeaseUntil: time.Now().Add(time.Minute)}, time.Now())
	if err != nil || g.Refusal != "" {
		d.t.Fatalf("cannot grant store %d: %v %s", i, err, g.Refusal)
	}
}

func digest(doc string) string {
	sum := sha256.Sum256([]byte(doc))
	return hex.EncodeToString(sum[:])
}

// success is a well-formed answer with the result.
func success(i, attempt int, result string) protocol.Result {
	return protocol.Result{TaskID: steptest.TaskID("r", i), Attempt: attempt, Outcome: protocol.AnswerSucceeded,
		Result: json.RawMessage(result), SHA256: digest(result), Executed: true, StartedAt: 1_789_000_000_000, FinishedAt: 1_789_000_002_000, DurationMs: 2000}
}

func failure(i, attempt int, code protocol.Code) protocol.Result {
	doc := fmt.Sprintf(`{"code":%q,"message":"it broke"}`, code)
	return protocol.Result{TaskID: steptest.TaskID("r", i), Attempt: attempt, Outcome: protocol.AnswerFailed,
		Error: json.RawMessage(doc), SHA256: digest(doc), Executed: true}
}

func (d *desk) send(i int, m protocol.Result) { d.sendRaw(i, steptest.Message(m).Payload) }

func (d *desk) sendRaw(i int, payload []byte) {
	d.t.Helper()
	in := steptest.Message(nil)
	in.Payload = payload
	if err := d.HandleResult(d.t.Context(), steptest.From(i, protocol.KindResult), in); err != nil {
		d.t.Error(err)
	}
}

// lastReceipt returns the newest receipt as "accepted|refused code path".
func (d *desk) lastReceipt() string {
	d.t.Helper()
	synctest.Wait()
	all := d.Broker.Orders(protocol.OrderReceipt)
	if len(all) == 0 {
		return "none"
	}
	o := all[len(all)-1].Order
	if o.Accepted == nil {
		return "undecided"
	}
	word := map[bool]string{true: "accepted", false: "refused"}[*o.Accepted]
	return strings.TrimSpace(word + " " + string(o.Code) + " " + o.Path)
}

func (d *desk) expect(receipt string, want task.State) {
	d.t.Helper()
	if got := d.lastReceipt(); got != receipt {
		d.t.Errorf("receipt: %s, want %s", got, receipt)
	}
	if got := d.Task("r-S000").State; got != want {
		d.t.Errorf("state: %+v, want %+v", got, want)
	}
}

func running(attempt int) task.State { return task.State{Status: task.Running, Attempt: attempt} }
func awaiting(attempt int) task.State {
	return task.State{Status: task.Failed, Attempt: attempt}
}
func over(s task.Status, attempt int) task.State {
	return task.State{Status: s, Attempt: attempt, Settled: true}
}
