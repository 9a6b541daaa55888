package app_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/config"
	"muster/internal/protocol"
	"muster/tests/fleet"
)

// puppet is a terminal whose orders the test answers by hand: it claims, says
// that it started, and does nothing else.
type puppet struct {
	*fleet.Terminal
	t      *testing.T
	orders chan protocol.Order
}

func (hq *headquarters) puppet(store string) *puppet {
	hq.t.Helper()
	p := &puppet{t: hq.t, orders: make(chan protocol.Order, 64)}
	p.Terminal = hq.terminal(store, fleet.Options{Observe: func(kind string, o protocol.Order) {
		if kind == string(o.Order) {
			p.orders <- o
		}
	}})
	return p
}

// await returns the next order of a kind.
func (p *puppet) await(kind protocol.OrderKind) protocol.Order {
	p.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case o := <-p.orders:
			if o.Order == kind {
				return o
			}
		case <-deadline:
			p.t.Fatalf("no order %s came", kind)
		}
	}
}

// calledBefore waits until either of two is called to send, and tells whether it
// was p.
func (p *puppet) calledBefore(other *puppet) bool {
	p.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case o := <-p.orders:
			if o.Order == protocol.OrderSend {
				return true
			}
		case o := <-other.orders:
			if o.Order == protocol.OrderSend {
				return false
			}
		case <-deadline:
			p.t.Fatal("nobody was called")
		}
	}
}

func (p *puppet) say(kind protocol.Kind, message any) {
	p.t.Helper()
	if err := p.Send(kind, message); err != nil {
		p.t.Fatal(err)
	}
}

// announce is granted its task and says that a large result is ready.
func (p *puppet) announce(large json.RawMessage) (ready protocol.Result) {
	p.t.Helper()
	grant := p.await(protocol.OrderGrant)
	ready = p.NewResult(grant.TaskID, grant.Attempt, fleet.Reply{Result: large})
	p.say(protocol.KindReady, protocol.Ready{Meta: p.Meta(), TaskID: grant.TaskID, Attempt: grant.Attempt,
		Bytes: int64(len(ready.Result)), SHA256: ready.SHA256})
	return ready
}

func (p *puppet) begin(r protocol.Result) {
	p.t.Helper()
	p.say(protocol.KindProgress, protocol.Progress{Meta: p.Meta(), TaskID: r.TaskID, Attempt: r.Attempt, Percent: 100})
}

// Of two uploads that were called for, the one whose terminal says nothing
// loses its slot, and the one that is heard keeps it.
func TestAHeardUploadKeepsItsSlotAndAStuckOneLosesIt(t *testing.T) {
	t.Parallel()
	names := []string{"HEARD", "STUCK", "NEXT", "LAST"}
	hq := setup(t, config.TransportEmbedded, names, func(cfg *config.Config) { cfg.Collection.InFlight = 2 })
	puppets := map[string]*puppet{}
	for _, name := range names {
		puppets[name] = hq.puppet(name)
	}
	hq.technician("wang").run(`{"job":"probe","stores":"all"}`)
	large := json.RawMessage(`{"value":"` + strings.Repeat("x", 3*protocol.InlineLimit) + `"}`)
	ready := map[string]protocol.Result{}
	var called time.Time // the later of the two calls
	for _, name := range names[:2] {
		ready[name] = puppets[name].announce(large)
		called = puppets[name].await(protocol.OrderSend).At.Time
		if name == "HEARD" {
			puppets[name].begin(ready[name])
		}
	}
	for _, name := range names[2:] {
		ready[name] = puppets[name].announce(large)
	}
	next, last := "NEXT", "LAST" // whichever announced first
	if puppets[last].calledBefore(puppets[next]) {
		next, last = last, next
	}
	puppets[next].begin(ready[next]) // it has the slot of the stuck one
	// By now it would have lost its slot too, 10 s after its call, unheard.
	<-time.After(time.Until(called.Add(10*time.Second + 500*time.Millisecond)))
	released := protocol.At(time.Now())
	puppets["HEARD"].say(protocol.KindResult, ready["HEARD"])
	receipt := puppets["HEARD"].await(protocol.OrderReceipt)
	if receipt.Accepted == nil || !*receipt.Accepted {
		t.Errorf("receipt %+v", receipt)
	}
	if call := puppets[last].await(protocol.OrderSend); call.At.Before(released.Time) {
		t.Errorf("the heard upload lost its slot: it was sent at %v, and the last was called at %v", released, call.At)
	}
}

// A claim that waits is dropped with its terminal: the slot goes to who is there.
func TestWhoWentAwayTakesNoSlot(t *testing.T) {
	t.Parallel()
	hq := setup(t, config.TransportEmbedded, []string{"RUNS", "GOES", "STAYS"}, func(cfg *config.Config) { cfg.Admission.MaxRunning = 1 })
	runs := hq.puppet("RUNS")
	tech := hq.technician("wang")
	if err := tech.conn.Subscribe(t.Context(), hq.topics.Root()+"/stores/+/terminals/+/presence"); err != nil {
		t.Fatal(err)
	}
	run := tech.run(`{"job":"probe","stores":"all"}`)
	grant := runs.await(protocol.OrderGrant)
	goes := hq.puppet("GOES")
	poll := time.NewTicker(250 * time.Millisecond) // slower than the technician's rate limit
	defer poll.Stop()
	for deadline := time.Now().Add(patience); ; <-poll.C { // until its claim waits
		reply := tech.ask(protocol.VerbStatus, fmt.Sprintf(`{"runId":%q}`, run.RunID))
		if reply.State != nil && reply.State.Waiting == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the claim of GOES does not wait: %+v", reply.State)
		}
	}
	goes.Close()
	tech.await("the word that GOES is offline", func(m fleet.Message) bool {
		var p protocol.Presence
		return m.Topic == hq.topics.Terminal("GOES", "pos1", protocol.KindPresence) && json.Unmarshal(m.Payload, &p) == nil && !p.Online
	})
	hq.terminal("STAYS", fleet.Options{Execute: value("2")})
	runs.say(protocol.KindResult, runs.NewResult(grant.TaskID, 1, fleet.Reply{Result: json.RawMessage(`{"value":1}`)}))
	tech.await("the success of STAYS", func(m fleet.Message) bool {
		var e protocol.StoreEvent
		return m.Topic == hq.topics.RunStore(run.RunID, "STAYS") && json.Unmarshal(m.Payload, &e) == nil && e.Event == "succeeded"
	})
	if reply := tech.ask(protocol.VerbStatus, fmt.Sprintf(`{"runId":%q,"storeId":"GOES"}`, run.RunID)); reply.Task == nil || reply.Task.Attempt != 0 {
		t.Errorf("a terminal that is away was granted: %+v", reply.Task)
	}
}
