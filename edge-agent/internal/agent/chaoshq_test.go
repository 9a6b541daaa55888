package agent_test

import (
	"encoding/json"
	"time"

	"muster/internal/protocol"
	"muster/internal/task"
)

// carry delivers after a delay, or not, or twice, or again much later.
func (h *hq) carry(deliver func()) {
	copies := 1
	if !h.calm {
		if h.rng.Float64() < h.loss {
			return
		}
		if h.rng.Float64() < h.twice {
			copies++
		}
		if h.rng.Float64() < h.replay {
			time.AfterFunc(time.Duration(h.rng.IntN(600))*time.Second, deliver)
		}
	}
	for range copies {
		delay := time.Duration(h.rng.Int64N(int64(h.delay) + int64(time.Millisecond)))
		if h.calm {
			delay = time.Millisecond
		}
		time.AfterFunc(delay, deliver)
	}
}

// toAgent sends while the lock is held.
func (h *hq) toAgent(topic string, message any) {
	var payload []byte
	if message != nil {
		var err error
		if payload, err = protocol.Encode(message); err != nil {
			h.t.Error(err)
		}
	}
	h.carry(func() {
		h.mu.Lock()
		a, up := h.agent, h.up
		h.mu.Unlock()
		if up {
			a.Message(topic, payload, h.sign(topic, payload))
		}
	})
}

func (h *hq) tell(o protocol.Order) {
	o.Meta = h.meta()
	h.toAgent(topics(h.t).Terminal(storeID, terminalID, protocol.KindOrders), o)
}

func (h *hq) linkUp() {
	h.mu.Lock()
	h.up = true
	a := h.agent
	h.mu.Unlock()
	h.offerAll() // retained: all of them on every connection
	a.Up()
}

func (h *hq) linkDown() {
	h.mu.Lock()
	h.up = false
	a := h.agent
	h.mu.Unlock()
	a.Down()
}

func (h *hq) offerAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.tasks {
		if !t.state.Settled {
			h.publish(t)
		}
	}
}

func (h *hq) publish(t *hqTask) {
	h.toAgent(topics(h.t).Offer(storeID, t.id), h.offerOf(t))
}

func (h *hq) offerOf(t *hqTask) protocol.Offer {
	now := time.Now()
	return protocol.Offer{Meta: h.meta(), TypeVersion: 1, Attempts: maxAttempts,
		RunTimeoutMs: 60_000, QueueDeadline: now.Add(24 * time.Hour).UnixMilli(),
		Record: protocol.Record{TaskID: t.id, ParentID: "run1", StoreID: storeID, Type: "count", Input: json.RawMessage(`{}`),
			Status: t.state.Status, Attempt: t.state.Attempt, Deadline: now.Add(time.Hour).UnixMilli()}}
}

func (h *hq) move(t *hqTask, e task.Event) {
	next, err := t.state.Next(e)
	if err != nil {
		h.t.Error(err)
	}
	t.state = next
	if next.Settled {
		h.toAgent(topics(h.t).Offer(storeID, t.id), nil)
	}
}

func (h *hq) fail(t *hqTask) {
	if t.state.Attempt >= maxAttempts {
		h.move(t, task.GiveUp)
		return
	}
	h.move(t, task.Fail)
	h.publish(t)
}

func (h *hq) cancel(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.tasks[id]
	if t.state.Settled {
		return
	}
	h.move(t, task.Cancel)
	h.tell(protocol.Order{Order: protocol.OrderCancel, TaskID: id, Attempt: t.state.Attempt, Reason: "by_user"})
}

// fromAgent carries one message of the terminal to headquarters.
func (h *hq) fromAgent(m sent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.up {
		return
	}
	h.carry(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.takeIn(m)
	})
}

func (h *hq) takeIn(m sent) {
	switch m.kind {
	case protocol.KindHello:
		hello := decode[protocol.Hello](h.t, m.payload)
		o := protocol.Order{Order: protocol.OrderSync, HelloID: hello.ID, ServerTimeMs: time.Now().UnixMilli()}
		for _, t := range h.tasks {
			if !t.state.Settled {
				o.Open = append(o.Open, protocol.SyncTask{TaskID: t.id, Status: t.state.Status, Attempt: t.state.Attempt,
					Mine: t.state.Status == task.Running})
			}
		}
		h.tell(o)
	case protocol.KindClaim:
		h.claimed(h.tasks[decode[protocol.Claim](h.t, m.payload).TaskID])
	case protocol.KindProgress:
		p := decode[protocol.Progress](h.t, m.payload)
		h.renew(p.TaskID, p.Attempt)
	case protocol.KindReady:
		r := decode[protocol.Ready](h.t, m.payload)
		h.renew(r.TaskID, r.Attempt)
		h.tell(protocol.Order{Order: protocol.OrderSend, TaskID: r.TaskID, Attempt: r.Attempt})
	case protocol.KindResult:
		h.answered(decode[protocol.Result](h.t, m.payload))
	default:
		h.t.Errorf("the terminal sent %s", m.kind)
	}
}

func (h *hq) claimed(t *hqTask) {
	if t.state.Settled {
		h.tell(protocol.Order{Order: protocol.OrderDeny, TaskID: t.id, Code: protocol.CodeSettled})
		return
	}
	if t.state.Status != task.Running {
		h.move(t, task.Grant)
		t.lease = time.Now().Add(lease)
	}
	h.tell(protocol.Order{Order: protocol.OrderGrant, TaskID: t.id, Attempt: t.state.Attempt,
		LeaseMs: lease.Milliseconds(), RunTimeoutMs: 60_000, OfferSHA256: h.offerOf(t).Hash()})
}

func (h *hq) renew(id string, attempt int) {
	if t := h.tasks[id]; t.state.Status == task.Running && t.state.Attempt == attempt {
		t.lease = time.Now().Add(lease)
	}
}

func (h *hq) answered(r protocol.Result) {
	t := h.tasks[r.TaskID]
	if want := h.offerOf(t).Hash(); r.OfferSHA256 != want && (r.Executed || r.OfferSHA256 != "") {
		h.t.Errorf("the answer of %s/%d names the offer %q, want %s", r.TaskID, r.Attempt, r.OfferSHA256, want)
	}
	_, again := t.stored[r.Attempt]
	if !again {
		t.stored[r.Attempt] = r.SHA256
		if t.state.Status == task.Running && t.state.Attempt == r.Attempt {
			t.taken[r.Attempt] = true
			if r.Outcome == protocol.AnswerSucceeded {
				t.value = string(r.Result)
				h.move(t, task.Succeed)
			} else {
				h.fail(t)
			}
		}
	}
	accepted, code := t.taken[r.Attempt] && t.stored[r.Attempt] == r.SHA256, protocol.Code("")
	if !accepted {
		code = protocol.CodeStale
	}
	h.tell(protocol.Order{Order: protocol.OrderReceipt, TaskID: r.TaskID, Attempt: r.Attempt, SHA256: r.SHA256,
		Accepted: &accepted, Code: code})
}
