package agent

import (
	"time"

	"muster/edge-agent/internal/agent/refused"
	"muster/internal/protocol"
	"muster/internal/trust"
)

// Up is called by the link when messages flow.
func (a *Agent) Up() {
	a.post(func(now time.Time) {
		a.up, a.synced = true, false
		a.helloAt = now.Add(helloDelay)
		clear(a.hellos)
		a.unanswered = 0
		for _, w := range a.tasks {
			w.claimUntil = time.Time{} // that claim may be lost
			w.slot = false
			if !w.sendAt.IsZero() {
				w.sendAt = now
			}
		}
	})
}

// Down is called by the link when the connection is gone.
func (a *Agent) Down() {
	a.post(func(time.Time) {
		a.up, a.synced = false, false
	})
}

// Presence gives the payload of this terminal's presence topic. A connection begins
// with it, so its number is the one that counts the connections of this terminal.
func (a *Agent) Presence(sessionID string, online bool) []byte {
	a.cfg.Stamp.Advance()
	meta := a.cfg.Stamp.Meta()
	payload, err := protocol.Encode(protocol.Presence{Meta: meta, Online: online, Since: meta.At, SessionID: sessionID})
	if err != nil {
		a.log.Error("presence cannot be encoded", "error", err)
	}
	return payload
}

// Message takes in one message of the broker and returns once it is journalled
// and acted upon. What is not proven to be headquarters', malformed or not for
// this terminal is refused, counted and told to the log; it is never an error to
// the link.
func (a *Agent) Message(topic string, payload []byte, signature trust.Signature) {
	address, ok := a.cfg.Topics.Parse(topic)
	switch {
	case ok && address.Area == protocol.AreaTrust && a.cfg.Identity != nil:
		a.post(func(now time.Time) { a.takeKeys(payload, now) })
	case !ok || address.Area != protocol.AreaStores || address.Store != a.cfg.StoreID:
		a.refused.Add(time.Now(), refused.Foreign, "topic", topic)
	case address.Kind == protocol.KindOffer && len(payload) == 0:
		// Unsigned: whoever can send it can as well withhold the offer.
		a.post(func(time.Time) { a.withdraw(address.Task) })
	case address.Kind == protocol.KindOffer:
		if key, ok := a.verify(topic, payload, signature); ok {
			a.takeOffer(address.Task, payload, key)
		}
	case address.Kind == protocol.KindOrders && address.Terminal == a.cfg.TerminalID:
		if key, ok := a.verify(topic, payload, signature); ok {
			a.takeOrder(payload, key)
		}
	default:
		a.refused.Add(time.Now(), refused.Foreign, "topic", topic)
	}
}

func (a *Agent) takeOffer(taskID string, payload []byte, key trust.Key) {
	var o protocol.Offer
	if err := protocol.Decode(payload, protocol.MaxPayloadBytes, &o); err != nil {
		a.refused.Add(time.Now(), refused.Malformed, "task_id", taskID, "error", err)
		return
	}
	if o.TaskID != taskID || o.StoreID != a.cfg.StoreID {
		a.refused.Add(time.Now(), refused.Foreign, "task_id", taskID, "named_task_id", o.TaskID, "named_store_id", o.StoreID)
		return
	}
	a.post(func(now time.Time) {
		if a.believe(key, o.At.Time, now) {
			a.hear(o.At.Time, now)
			a.offered(&o, now)
		}
	})
}

func (a *Agent) takeOrder(payload []byte, key trust.Key) {
	var o protocol.Order
	if err := protocol.Decode(payload, protocol.MaxPayloadBytes, &o); err != nil {
		a.refused.Add(time.Now(), refused.Malformed, "error", err)
		return
	}
	if o.Order != protocol.OrderSync && !protocol.ValidID(o.TaskID) {
		a.refused.Add(time.Now(), refused.Malformed, "order", string(o.Order), "task_id", o.TaskID)
		return
	}
	a.post(func(now time.Time) {
		// In this order: a key that is over must not move the window.
		if a.believe(key, o.At.Time, now) && a.isNew(o, now) {
			a.hear(o.At.Time, now)
			a.obey(o, now)
		}
	})
}

func (a *Agent) obey(o protocol.Order, now time.Time) {
	switch o.Order {
	case protocol.OrderGrant:
		a.granted(o, now)
	case protocol.OrderDeny:
		a.denied(o, now)
	case protocol.OrderSend:
		a.slotGiven(o, now)
	case protocol.OrderReceipt:
		a.receipted(o)
	case protocol.OrderCancel:
		a.cancelled(o)
	case protocol.OrderSync:
		a.synchronise(o, now)
	default:
		a.refused.Add(now, refused.Malformed, "order", string(o.Order))
	}
}
