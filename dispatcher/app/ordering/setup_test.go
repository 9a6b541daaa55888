// Package ordering_test tries the trigger and the plan together, over the real
// store: the steps know nothing of each other, so this stands with app.
package ordering_test

import (
	"crypto/rand"
	"io/fs"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/plan"
	"muster/dispatcher/internal/schema"
	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/dispatcher/internal/trigger"
	"muster/internal/protocol"
	"muster/schemas"
)

// desk is a trigger over a real store, with a clock that the test turns.
type desk struct {
	*steptest.Bench
	t       *testing.T
	path    string
	trigger *trigger.Trigger
	replies *schema.Schema

	mu  sync.Mutex
	now time.Time
	off time.Duration // how far the clock was set
}

func setup(t *testing.T, tune ...func(*trigger.Config)) *desk {
	t.Helper()
	d := &desk{t: t, path: filepath.Join(t.TempDir(), "muster.db"), now: time.Date(2026, 9, 17, 7, 30, 12, 0, time.UTC)}
	d.replies = compile(t, "reply.v1.schema.json")
	d.open(tune...)
	_, _, _, err := d.Store.ReplacePlaces(t.Context(), "", []store.Place{
		{StoreID: "007", Name: "seven", TimeZone: "UTC", Labels: map[string]string{"region": "east"}},
		{StoreID: "1E5", Name: "exp", TimeZone: "UTC", Labels: map[string]string{"region": "west"}},
		{StoreID: "SH_1", Name: "one", TimeZone: "Asia/Shanghai", Labels: map[string]string{"region": "east"}},
	}, d.now)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func compile(t *testing.T, file string) *schema.Schema {
	t.Helper()
	doc, err := fs.ReadFile(schemas.FS, file)
	if err != nil {
		t.Fatal(err)
	}
	s, err := schema.Compile(file, doc)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// shanghai is the zone in which this headquarters' people read times.
var shanghai = time.FixedZone("Asia/Shanghai", 8*3600)

// open starts headquarters over the desk's database, for the first time or
// again.
func (d *desk) open(tune ...func(*trigger.Config)) {
	d.t.Helper()
	d.Bench = steptest.Open(d.t, d.path)
	cfg := trigger.Config{
		Runs: d.Store, Tasks: d.Store, World: d.Store, Approvals: d.Store, Past: d.Store, Planner: plan.New(rand.Reader), Sender: d.Sender, Now: d.clock, Steady: d.steady, Zone: shanghai, Logger: d.Logger,
		Rate: rate.Inf, Waiting: func(string) int { return 7 },
		Jobs: job.NewRegistry(job.Spec{Name: "collect_log", Version: 1, Title: "Collect", TitleZh: "收集", Policy: job.DefaultPolicy(),
			Input: compile(d.t, "collect_log_input.v1.schema.json"), Output: compile(d.t, "collect_log_output.v1.schema.json")}),
	}
	for _, f := range tune {
		f(&cfg)
	}
	var err error
	if d.trigger, err = trigger.New(cfg); err != nil {
		d.t.Fatal(err)
	}
	if err := d.trigger.Start(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) clock() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now.Add(d.off)
}

func (d *desk) steady() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

func (d *desk) set(off time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off = off
}

func (d *desk) pass(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = d.now.Add(by)
}

func request(user string, verb protocol.Verb) protocol.Address {
	return protocol.Address{Area: protocol.AreaRequest, User: user, Verb: verb}
}

// ask sends one request of user wang and returns its only reply, which must
// fit the published schema.
func (d *desk) ask(verb protocol.Verb, payload string) protocol.Reply {
	d.t.Helper()
	d.Broker.Forget()
	if err := d.trigger.Handle(d.t.Context(), request("wang", verb), transport.Inbound{Payload: []byte(payload)}); err != nil {
		d.t.Fatalf("not acknowledged: %v", err)
	}
	sent := d.Broker.Sent()
	if len(sent) != 1 {
		d.t.Fatalf("%d messages instead of one reply", len(sent))
	}
	return d.reply(sent[0])
}

func (d *desk) reply(sent steptest.Sent) protocol.Reply {
	d.t.Helper()
	if sent.Retain {
		d.t.Errorf("the reply %s is retained", sent.Payload)
	}
	if err := d.replies.Validate(sent.Payload); err != nil {
		d.t.Errorf("the reply %s does not fit its schema: %v", sent.Payload, err)
	}
	var reply protocol.Reply
	if err := protocol.Decode(sent.Payload, protocol.MaxPayloadBytes, &reply); err != nil {
		d.t.Fatal(err)
	}
	return reply
}

func (d *desk) runs() int {
	d.t.Helper()
	runs, err := d.Store.ListOpenRuns(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	return len(runs)
}
