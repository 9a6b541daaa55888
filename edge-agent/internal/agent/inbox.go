package agent

import (
	"time"

	"muster/internal/protocol"
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

// Presence gives the payload of this terminal's presence topic.
func (a *Agent) Presence(sessionID string, online bool) []byte {
	meta := a.cfg.Stamp.Meta()
	payload, err := protocol.Encode(protocol.Presence{Meta: meta, Online: online, Since: meta.At, SessionID: sessionID})
	if err != nil {
		a.log.Error("presence cannot be encoded", "error", err)
	}
	return payload
}

// Message takes in one message of the broker and returns once it is journalled
// and acted upon. What is malformed or not for this terminal is refused with a
// line in the log; it is never an error to the link.
func (a *Agent) Message(topic string, payload []byte) {
	address, ok := a.cfg.Topics.Parse(topic)
	if !ok || address.Area != protocol.AreaStores || address.Store != a.cfg.StoreID {
		a.log.Warn("message on a foreign topic refused", "topic", topic)
		return
	}
	switch {
	case address.Kind == protocol.KindOffer:
		a.takeOffer(address.Task, payload)
	case address.Kind == protocol.KindOrders && address.Terminal == a.cfg.TerminalID:
		a.takeOrder(payload)
	default:
		a.log.Warn("message of a foreign kind refused", "topic", topic)
	}
}

func (a *Agent) takeOffer(taskID string, payload []byte) {
	if len(payload) == 0 {
		a.post(func(now time.Time) { a.withdraw(taskID) })
		return
	}
	var o protocol.Offer
	if err := protocol.Decode(payload, protocol.MaxPayloadBytes, &o); err != nil {
		a.log.Warn("offer refused", "task_id", taskID, "error", err)
		return
	}
	if o.TaskID != taskID || o.StoreID != a.cfg.StoreID {
		a.log.Warn("offer refused: it is for another task or store", "task_id", taskID,
			"named_task_id", o.TaskID, "named_store_id", o.StoreID)
		return
	}
	a.post(func(now time.Time) { a.offered(&o, now) })
}

func (a *Agent) takeOrder(payload []byte) {
	var o protocol.Order
	if err := protocol.Decode(payload, protocol.MaxPayloadBytes, &o); err != nil {
		a.log.Warn("order refused", "error", err)
		return
	}
	if o.Order != protocol.OrderSync && !protocol.ValidID(o.TaskID) {
		a.log.Warn("order refused: it names no task", "order", string(o.Order))
		return
	}
	a.post(func(now time.Time) { a.obey(o, now) })
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
		a.log.Warn("order of an unknown kind ignored", "order", string(o.Order))
	}
}
