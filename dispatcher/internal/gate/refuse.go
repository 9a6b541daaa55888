package gate

import (
	"context"
	"errors"
	"fmt"

	"muster/dispatcher/internal/alarm"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
	"muster/internal/trust"
)

// Reason says why a message was refused.
type Reason string

// The reasons. All but Replayed and Unnumbered mean that somebody spoke for a
// terminal without its key in force.
const (
	// Unsigned: it bears no signature.
	Unsigned Reason = "unsigned"
	// UnknownKey: its key was never enrolled.
	UnknownKey Reason = "unknown_key"
	// ForeignKey: its key is another terminal's.
	ForeignKey Reason = "foreign_key"
	// RevokedKey: its key was revoked.
	RevokedKey Reason = "revoked_key"
	// ExpiredKey: the certificate of its key has run out.
	ExpiredKey Reason = "expired_key"
	// BadSignature: the signature does not fit topic and payload.
	BadSignature Reason = "bad_signature"
	// Unnumbered: the terminal's own message has no number of 1 or more.
	Unnumbered Reason = "unnumbered"
	// Replayed: the terminal's own message was seen before, or is too old to
	// tell. Brokers deliver a message twice too, so that it is no alarm.
	Replayed Reason = "replayed"
)

var reasons = [...]Reason{Unsigned, UnknownKey, ForeignKey, RevokedKey, ExpiredKey, BadSignature, Unnumbered, Replayed}

// refusal is a reason with its particulars.
type refusal struct {
	reason Reason
	detail error
}

// believe says why a message is not its terminal's own, nil when it is.
func (g *Gate) believe(ctx context.Context, who terminal, in transport.Inbound) (*refusal, error) {
	s, now := in.Signature, g.cfg.Now()
	if s.IsZero() {
		return &refusal{Unsigned, trust.ErrUnsigned}, nil
	}
	k, err := g.keys.get(ctx, s.KeyID, now)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return &refusal{UnknownKey, trust.ErrUnknownKey}, nil
	case errors.Is(err, errSpoilt):
		return &refusal{UnknownKey, err}, nil
	case err != nil:
		return nil, fmt.Errorf("cannot tell whether a message is of %s: %w", who, err)
	case k.holder != who:
		return &refusal{ForeignKey, fmt.Errorf("key %s is that of %s", s.KeyID, k.holder)}, nil
	case !k.revoked.IsZero():
		return &refusal{RevokedKey, fmt.Errorf("key %s was revoked at %s", s.KeyID, protocol.At(k.revoked))}, nil
	case !k.fits(now):
		return &refusal{ExpiredKey, fmt.Errorf("key %s is valid until %s: %w", s.KeyID, protocol.At(k.notAfter), trust.ErrExpiredKey)}, nil
	case !k.signed(in):
		return &refusal{BadSignature, trust.ErrBadSignature}, nil
	}
	return nil, nil
}

// refuse counts a message and tells of it, unless it was told just now.
func (g *Gate) refuse(ctx context.Context, who terminal, kind protocol.Kind, in transport.Inbound, why refusal) {
	for i, reason := range reasons {
		if reason == why.reason {
			g.refused[i].Add(1)
		}
	}
	now := g.cfg.Now()
	if left, due := g.log.Due(who.String()+" "+string(why.reason), now); due {
		g.cfg.Logger.WarnContext(ctx, "a terminal's message is refused", "reason", string(why.reason), "kind", string(kind),
			"store_id", who.store, "terminal_id", who.id, "key_id", clip(in.Signature.KeyID), "user", in.User, "error", why.detail, "left_out", left)
	}
	if why.reason == Replayed || why.reason == Unnumbered || g.cfg.Alarm == nil {
		return
	}
	if _, due := g.alarms.Due(who.String(), now); due {
		g.cfg.Alarm(AlarmForged, who.String(), &alarm.Trouble{
			En: fmt.Sprintf("a %s of terminal %s is refused as %s: %v", kind, who, why.reason, why.detail),
			Zh: fmt.Sprintf("%s 消息因 %s 被拒绝", kind, why.reason)})
	}
}

// clip keeps what a stranger wrote short: a key id has 16 characters.
func clip(keyID string) string { return keyID[:min(len(keyID), 16)] }

// Stats counts since the start. Passed are the messages that went on to a step,
// also those that failed there; Refused holds every reason.
type Stats struct {
	Passed  int64
	Refused map[Reason]int64
}

// Stats returns what was counted since the start.
func (g *Gate) Stats() Stats {
	s := Stats{Passed: g.passed.Load(), Refused: make(map[Reason]int64, len(reasons))}
	for i, reason := range reasons {
		s.Refused[reason] = g.refused[i].Load()
	}
	return s
}
