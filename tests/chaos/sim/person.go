package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"muster/internal/protocol"
	"muster/tests/chaos/history"
	"muster/tests/chaos/tap"
	"muster/tests/fleet"
)

// replyWithin is how long a person waits for a reply, and tries is how often the
// person asks when none came.
const (
	replyWithin = 10 * time.Second
	tries       = 8
)

// order asks for a run and does about it what the plan says.
func (w *world) order(ctx context.Context, i int, a Ask) {
	w.until(a.At)
	request := map[string]any{"requestId": a.ID, "job": a.Job, "stores": a.stores()}
	if a.Barrier > 0 {
		request["barrierSeconds"] = int(a.Barrier.Seconds())
	}
	payload, err := json.Marshal(request)
	w.check(err)
	var more sync.WaitGroup
	for n, after := range a.Again {
		more.Go(func() {
			wait(after)
			w.ask(ctx, a.User, fmt.Sprintf("%d-%d", i, n), protocol.VerbRun, payload)
		})
	}
	defer more.Wait()
	var reply protocol.Reply
	for n := range tries {
		if reply = w.ask(ctx, a.User, fmt.Sprintf("%d", i), protocol.VerbRun, payload); reply.Status != "" {
			break
		}
		wait(time.Duration(n+1) * time.Second)
	}
	if !reply.OK {
		return
	}
	if a.ID == "anchor" {
		w.mu.Lock()
		w.hangs = true
		w.mu.Unlock()
	}
	for n, after := range a.Retries {
		more.Go(func() {
			wait(after)
			w.retry(ctx, a.User, fmt.Sprintf("%d-r%d", i, n), reply.RunID)
		})
	}
	for n, c := range a.Cancels {
		more.Go(func() {
			wait(c.After)
			payload, err := json.Marshal(protocol.CancelRequest{RunID: reply.RunID, Stores: c.Stores})
			w.check(err)
			for range tries {
				if w.ask(ctx, a.User, fmt.Sprintf("%d-c%d", i, n), protocol.VerbCancel, payload).Status != "" {
					return
				}
			}
		})
	}
}

// retry asks again what a run misses, which may be nothing yet, and of what that misses
// once more.
func (w *world) retry(ctx context.Context, user, id, run string) {
	for more := range 2 {
		payload, err := json.Marshal(protocol.RetryRequest{RequestID: fmt.Sprintf("%s-%d", id, more), RunID: run})
		w.check(err)
		var reply protocol.Reply
		for n := range tries {
			if reply = w.ask(ctx, user, id, protocol.VerbRetry, payload); reply.Status != "" && reply.Code != protocol.CodeConflict {
				break
			}
			wait(time.Duration(n+1) * 2 * time.Second)
		}
		if !reply.OK {
			return
		}
		run = reply.RunID
		wait(time.Until(reply.BarrierAt.Time))
	}
}

// countermand waits for a grant and has its task cancelled while it is held back.
func (w *world) countermand(ctx context.Context) {
	granted := make(chan withheld, 1)
	w.mu.Lock()
	w.counter = append(w.counter, granted)
	n := len(w.counter)
	w.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case h := <-granted:
		payload, err := json.Marshal(protocol.CancelRequest{RunID: h.run, Stores: []string{h.store}})
		w.check(err)
		w.ask(ctx, "wang", fmt.Sprintf("counter%d", n), protocol.VerbCancel, payload)
	case <-timer.C:
	}
}

// countermands tells one who waits for it that the attempt of an offer is granted
// to a terminal. It returns false when nobody waits.
func (w *world) countermands(s *seat, offer tap.Message) bool {
	var o protocol.Offer
	if protocol.Decode(offer.Payload, protocol.MaxPayloadBytes, &o) != nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, waits := range w.counter {
		if waits != nil {
			w.counter[i] = nil
			waits <- withheld{o.ParentID, s.seat.Store}
			return true
		}
	}
	return false
}

func (a Ask) stores() any {
	if len(a.Stores) > 0 {
		return a.Stores
	}
	return "all"
}

// person is the history of one user.
func (w *world) person(user string) *history.Writer {
	w.mu.Lock()
	out := w.people[user]
	w.mu.Unlock()
	if out != nil {
		return out
	}
	out = w.writer(history.Participant{Who: user, Role: history.RoleClient})
	w.mu.Lock()
	defer w.mu.Unlock()
	if other := w.people[user]; other != nil {
		return other
	}
	w.people[user] = out
	return out
}

// ask asks over a connection of its own. The reply is the zero value when what
// came of it is not known.
func (w *world) ask(ctx context.Context, user, id string, verb protocol.Verb, payload []byte) (reply protocol.Reply) {
	topics, err := protocol.NewTopics(protocol.DefaultRoot)
	w.check(err)
	back := topics.Root() + "/rep/" + user + "/sim" + id
	answers := make(chan []byte, 64)
	ctx, cancel := context.WithTimeout(ctx, replyWithin)
	defer cancel()
	answered, err := w.person(user).Asked(topics.Request(user, verb), payload)
	w.check(err)
	outcome, body := history.OutcomeUnknown, []byte(nil)
	defer func() { w.check(answered(outcome, body)) }()
	conn, err := w.connect(ctx, user, user+"-"+id, func(m fleet.Message) {
		if m.Topic == back {
			answers <- m.Payload
		}
	})
	if err != nil {
		return reply
	}
	defer conn.Close()
	if conn.Subscribe(ctx, back) != nil ||
		conn.Send(fleet.Outgoing{Topic: topics.Request(user, verb), Payload: payload, ResponseTopic: back}) != nil {
		return reply
	}
	select {
	case body = <-answers:
		if err := json.Unmarshal(body, &reply); err != nil {
			w.check(fmt.Errorf("reply %s: %w", body, err))
		}
		if outcome = history.OutcomeRefused; reply.OK {
			outcome = history.OutcomeOK
		}
	case <-conn.Done():
	case <-ctx.Done():
	}
	return reply
}

func (w *world) connect(ctx context.Context, user, client string, got func(fleet.Message)) (*fleet.Conn, error) {
	raw, err := w.office.Dial(ctx, "tcp", broker)
	if err != nil {
		return nil, err
	}
	conn, err := fleet.Over(ctx, raw, fleet.Login{User: user, ClientID: client}, got)
	if err != nil {
		_ = raw.Close() // never fails
	}
	return conn, err
}

// watch writes down the events of all runs, over one connection after the other.
func (w *world) watch(ctx context.Context) {
	for ctx.Err() == nil {
		w.watchOnce(ctx)
		timer := time.NewTimer(3 * time.Second)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (w *world) watchOnce(ctx context.Context) {
	out := w.writer(history.Participant{Who: "watch", Role: history.RoleCollector})
	defer func() { w.check(out.Close()) }()
	dialing, cancel := context.WithTimeout(ctx, replyWithin)
	defer cancel()
	conn, err := w.connect(dialing, "watch", "watch", func(m fleet.Message) { w.check(out.Got(m.Topic, m.Payload, m.Retained)) })
	if err != nil {
		return
	}
	defer conn.Close()
	if conn.Subscribe(dialing, "muster/v1/runs/#") != nil {
		return
	}
	select {
	case <-conn.Done():
	case <-ctx.Done():
	}
}
