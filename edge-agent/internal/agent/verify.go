package agent

import (
	"errors"
	"time"

	"muster/edge-agent/internal/agent/refused"
	"muster/edge-agent/internal/identity"
	"muster/internal/protocol"
	"muster/internal/trust"
)

const (
	// orderWindow is how many of headquarters' newest numbers are told apart:
	// it numbers what it says to all terminals, and a bad link brings orders out
	// of their order.
	orderWindow = 65_536
	// maxOrderAge bounds how old an order may be on headquarters' clock. Orders
	// are not retained; what is so old was held back.
	maxOrderAge = 15 * time.Minute
)

// verify returns the key of headquarters that signed the message. With identity
// off it takes every message, and the key is the zero one.
func (a *Agent) verify(topic string, payload []byte, s trust.Signature) (trust.Key, bool) {
	if a.cfg.Identity == nil {
		return trust.Key{}, true
	}
	key, err := a.cfg.Identity.Document().Verify(topic, payload, s)
	if err == nil {
		return key, true
	}
	reason := refused.BadSignature
	switch {
	case errors.Is(err, trust.ErrUnsigned):
		reason = refused.Unsigned
	case errors.Is(err, trust.ErrUnknownKey):
		reason = refused.UnknownKey
	}
	a.refused.Add(time.Now(), reason, "topic", topic, "error", err)
	return trust.Key{}, false
}

// believe asks whether the key that signed a message was valid at the message's
// own time and is valid still, as far as headquarters' time is proven: by the
// newest time that it signed. No clock of this terminal takes part.
func (a *Agent) believe(key trust.Key, at, now time.Time) bool {
	if a.cfg.Identity == nil {
		return true
	}
	newest := a.proven
	if at.After(newest) {
		newest = at
	}
	if !key.Covers(at) || !key.Covers(newest) {
		a.refused.Add(now, refused.ExpiredKey, "key_id", key.KeyID, "signed_at", at, "proven_at", newest)
		return false
	}
	a.proven = newest
	return true
}

// isNew asks whether an order is heard for the first time, and in time.
func (a *Agent) isNew(o protocol.Order, now time.Time) bool {
	if a.cfg.Identity == nil {
		return true
	}
	if err := a.window.Take(o.Seq); err != nil {
		a.refused.Add(now, refused.Replayed, "order", string(o.Order), "task_id", o.TaskID, "error", err)
		return false
	}
	if _, asked := a.hellos[o.HelloID]; asked && o.Order == protocol.OrderSync {
		return true // it names a question of a moment ago: the clock may be set back
	}
	if !a.clock.known() {
		return true
	}
	age := protocol.Span(a.clock.nowMs(now) - o.At.UnixMilli())
	if age <= maxOrderAge {
		return true
	}
	a.refused.Add(now, refused.Expired, "order", string(o.Order), "task_id", o.TaskID, "age", age)
	a.measureAgain(now)
	return false
}

// takeKeys takes headquarters' list of its keys in.
func (a *Agent) takeKeys(payload []byte, now time.Time) {
	switch err := a.learn(payload, now); {
	case errors.Is(err, identity.ErrUnkept):
		a.refused.Add(now, refused.Unkept, "error", err)
	case err != nil:
		a.refused.Add(now, refused.Keys, "error", err)
	}
}

// learn has the identity take a list of keys. One that is good and cannot be
// written down is tried again: headquarters says it once a connection.
func (a *Agent) learn(payload []byte, now time.Time) error {
	taken, err := a.cfg.Identity.Take(payload)
	if errors.Is(err, identity.ErrUnkept) {
		a.unkept, a.unkeptAt = payload, now.Add(lookAgain)
		a.later(a.unkeptAt, now)
	}
	if taken {
		a.unkept = nil
		document := a.cfg.Identity.Document()
		a.log.Info("headquarters' keys have changed", "version", document.Version, "keys", len(document.Keys))
	}
	return err
}

// tryKeys tries a list of keys again that could not be written down. What the new
// keys signed meanwhile was refused: a hello brings it again.
func (a *Agent) tryKeys(now time.Time) {
	if a.unkept == nil || a.later(a.unkeptAt, now) {
		return
	}
	payload := a.unkept
	a.unkept = nil
	if a.learn(payload, now) == nil && a.up {
		a.helloSoon(now)
	}
}
