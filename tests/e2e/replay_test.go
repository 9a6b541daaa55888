package e2e_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/internal/protocol"
	"muster/tests/fleet"
	"muster/tests/programs"
)

// tap is a connection that sees every offer and every message of a terminal,
// and may say anything in headquarters' name. Only a broker that runs apart
// lets somebody do that.
type tap struct {
	s    *site
	conn *fleet.Conn

	mu      sync.Mutex
	offers  map[string]fleet.Message // task: its last offer that is not empty
	results map[string]int           // task: answers that the terminal sent
	granted []fleet.Message          // in their order
}

func (s *site) tap() *tap {
	s.t.Helper()
	w := &tap{s: s, offers: map[string]fleet.Message{}, results: map[string]int{}}
	conn, err := fleet.Dial(s.t.Context(), s.addr, fleet.Login{User: "dispatcher", ClientID: "tap"}, w.receive)
	if err != nil {
		s.t.Fatal(err)
	}
	w.conn = conn
	s.t.Cleanup(conn.Close)
	if err := conn.Subscribe(s.t.Context(), "muster/v1/stores/#"); err != nil {
		s.t.Fatal(err)
	}
	return w
}

func (w *tap) receive(m fleet.Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var result protocol.Result
	var order protocol.Order
	switch {
	case strings.Contains(m.Topic, "/tasks/") && len(m.Payload) > 0:
		w.offers[filepath.Base(m.Topic)] = m
	case strings.HasSuffix(m.Topic, "/result") && protocol.Decode(m.Payload, protocol.MaxPayloadBytes, &result) == nil:
		w.results[result.TaskID]++
	case strings.HasSuffix(m.Topic, "/orders") && protocol.Decode(m.Payload, protocol.MaxPayloadBytes, &order) == nil && order.Order == protocol.OrderGrant:
		w.granted = append(w.granted, m)
	}
}

// grants waits until n were seen and returns them.
func (w *tap) grants(n int) (all []fleet.Message) {
	w.s.t.Helper()
	programs.Eventually(w.s.t, fmt.Sprintf("%d grants", n), func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		all = slices.Clone(w.granted)
		return len(all) >= n
	})
	return all
}

// taken waits until n offers were seen and returns them.
func (w *tap) taken(n int) []fleet.Message {
	w.s.t.Helper()
	var all []fleet.Message
	programs.Eventually(w.s.t, fmt.Sprintf("%d offers", n), func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.offers) < n {
			return false
		}
		for _, m := range w.offers {
			all = append(all, m)
		}
		return true
	})
	return all
}

func (w *tap) say(topic string, payload []byte, retain bool) {
	w.s.t.Helper()
	if err := w.conn.Send(fleet.Outgoing{Topic: topic, Payload: payload, Retain: retain}); err != nil {
		w.s.t.Fatal(err)
	}
}

// apart names the brokers that run apart from headquarters.
func apart() map[string]func(t *testing.T) string {
	all := brokers()
	delete(all, "embedded")
	return all
}

// TestQueuedAndRetainedCopiesAreOneExecution: a terminal gets the retained
// offer on each subscription and, from a queue or a broker that repeats itself,
// any number of further copies: before, during and after the work, and again
// after the terminal was killed.
func TestQueuedAndRetainedCopiesAreOneExecution(t *testing.T) {
	t.Parallel()
	for name, start := range apart() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, []string{"A"}, start(t))
			s.serve()
			w := s.tap()
			reply := s.ask("run", `{"job":"probe","stores":"all"}`)
			offer := w.taken(1)[0]
			copies := func() {
				for i := range 5 {
					w.say(offer.Topic, offer.Payload, i == 2)
				}
			}
			settings, markers, gate := markingExecutor(s, "A")
			agent := s.agent("A", settings)
			copies()
			programs.Eventually(t, "the execution", func() bool { return len(lines(t, markers)) == 1 })
			copies()
			touch(t, gate)
			copies()
			report, _ := s.report(reply.RunID, 1)
			copies() // the retained one among them now lies about a settled task
			agent.Kill()
			s.agent("A", settings)
			copies()
			s.sentinel()
			if report.Counts != (protocol.Counts{Succeeded: 1}) || report.Stores[0].Attempt != 1 {
				t.Errorf("counts %+v, attempt %d", report.Counts, report.Stores[0].Attempt)
			}
			if got := lines(t, markers); len(got) != 2 { // the sentinel's is the second
				t.Errorf("executed %v", got)
			}
			again := s.ask("status", fmt.Sprintf(`{"runId":%q,"storeId":"A"}`, reply.RunID))
			if again.Task == nil || again.Task.Attempt != 1 || string(again.Task.Result) != `{"marker":"done"}` {
				t.Errorf("status %+v", again)
			}
		})
	}
}

// sentinel orders one more run and waits for its report: by then the terminal
// has met all that was said before.
func (s *site) sentinel() {
	s.t.Helper()
	reply := s.ask("run", fmt.Sprintf(`{"requestId":"sentinel-%d","job":"probe","stores":["A"]}`, time.Now().UnixNano()))
	if report, _ := s.report(reply.RunID, 1); report.Counts.Succeeded != 1 {
		s.t.Errorf("the terminal does not work any more: %+v", report.Counts)
	}
}

// permute calls each for every order of the steps.
func permute(steps []int, each func([]int)) {
	var walk func(k int)
	walk = func(k int) {
		if k == len(steps) {
			each(steps)
			return
		}
		for i := k; i < len(steps); i++ {
			steps[k], steps[i] = steps[i], steps[k]
			walk(k + 1)
			steps[k], steps[i] = steps[i], steps[k]
		}
	}
	walk(0)
}

// TestOfferCancelAndSecondOfferInAnyOrderEndTheSame withdraws a run for every
// order in which the offer, its withdrawal, the order to cancel and a second
// offer can reach a terminal, and replays each to it: it must do nothing.
func TestOfferCancelAndSecondOfferInAnyOrderEndTheSame(t *testing.T) {
	t.Parallel()
	for name, start := range apart() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, []string{"A"}, start(t))
			s.serve()
			w := s.tap()
			const orders = 24
			for i := range orders {
				user := fmt.Sprintf("u%d", i) // one alone would be too fast
				reply, err := s.asks(user, "", "run", `{"job":"probe","stores":"all"}`)
				if err != nil || !reply.OK {
					t.Fatalf("reply %+v, %v", reply, err)
				}
				reply, err = s.asks(user, "", "cancel", fmt.Sprintf(`{"runId":%q}`, reply.RunID))
				if err != nil || !reply.OK || *reply.Cancelled != 1 {
					t.Fatalf("cancel %+v, %v", reply, err)
				}
			}
			offers := w.taken(orders)
			settings, markers, gate := markingExecutor(s, "A")
			touch(t, gate)
			agent := s.agent("A", settings)
			s.sentinel() // the terminal is there
			next := 0
			permute([]int{0, 1, 2, 3}, func(steps []int) {
				w.replay(offers[next], steps, next)
				next++
			})
			s.sentinel()
			agent.Kill() // what it kept must not come alive either
			s.agent("A", settings)
			s.sentinel()
			if got := lines(t, markers); len(got) != 3 {
				t.Errorf("executed %v, want the three of the sentinels", got)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, m := range offers {
				if n := w.results[filepath.Base(m.Topic)]; n != 0 {
					t.Errorf("%d answers for the withdrawn task %s", n, filepath.Base(m.Topic))
				}
			}
		})
	}
}

// replay says the steps of one withdrawn task in the given order; every third
// task hears its second offer retained, as a broker that lost the withdrawal
// would have it.
func (w *tap) replay(offer fleet.Message, steps []int, n int) {
	w.s.t.Helper()
	id := filepath.Base(offer.Topic)
	cancel, err := protocol.Encode(protocol.Order{Meta: protocol.Meta{ID: fmt.Sprintf("01J%023d", n), At: protocol.At(time.Now()), Seq: 1},
		Order: protocol.OrderCancel, TaskID: id, Reason: "by_user"})
	if err != nil {
		w.s.t.Fatal(err)
	}
	for _, step := range steps {
		switch step {
		case 0:
			w.say(offer.Topic, offer.Payload, false)
		case 1:
			w.say(offer.Topic, nil, true)
		case 2:
			w.say("muster/v1/stores/A/terminals/pos1/orders", cancel, false)
		case 3:
			w.say(offer.Topic, offer.Payload, n%3 == 0)
		}
	}
}

// TestResultSurvivesAgentAndDispatcherKill: the work is done and its answer is
// on the terminal's disk while nobody can take it in; then the terminal dies
// too. The effect happened once, and the answer is taken in once.
func TestResultSurvivesAgentAndDispatcherKill(t *testing.T) {
	t.Parallel()
	for name, start := range brokers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, []string{"A"}, start(t))
			s.serve()
			settings, markers, gate := markingExecutor(s, "A")
			agent := s.agent("A", settings)
			reply := s.ask("run", `{"job":"probe","stores":"all"}`)
			programs.Eventually(t, "the execution", func() bool { return len(lines(t, markers)) == 1 })
			s.hq.Kill()
			touch(t, gate)
			programs.Eventually(t, "the answer on disk", func() bool { return s.answers("A") == 1 })
			agent.Kill()
			s.serve()
			s.agent("A", settings)
			report, _ := s.report(reply.RunID, 1)
			if report.Counts != (protocol.Counts{Succeeded: 1}) || report.Stores[0].Attempt != 1 {
				t.Errorf("counts %+v, attempt %d", report.Counts, report.Stores[0].Attempt)
			}
			if got := lines(t, markers); len(got) != 1 {
				t.Errorf("executed %v", got)
			}
			programs.Eventually(t, "the empty outbox", func() bool { return s.answers("A") == 0 })
		})
	}
}

// answers counts the whole answers that a terminal keeps on its disk.
func (s *site) answers(store string) int {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(s.dir, "agents", store, "kept", "outbox", "*.answer"))
	if err != nil {
		s.t.Fatal(err)
	}
	return len(files)
}
