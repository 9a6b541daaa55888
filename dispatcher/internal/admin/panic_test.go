package admin_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"muster/dispatcher/internal/admin"
	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
)

// brittle panics once a revocation is committed, while on.
type brittle struct {
	admin.Register
	on bool
}

func (b *brittle) RevokeTerminal(ctx context.Context, storeID, terminalID, by string, now time.Time) ([]store.TerminalKey, error) {
	keys, err := b.Register.RevokeTerminal(ctx, storeID, terminalID, by, now)
	if b.on {
		panic("after the commit")
	}
	return keys, err
}

// A command that makes headquarters panic is answered and told, and the same
// again does what is left.
func TestACommandThatPanicsIsAnsweredAndCanBeRepeated(t *testing.T) {
	hq := setup(t)
	b := &brittle{Register: hq.store, on: true}
	alarms := make(chan string, 16)
	hq.cfg.Register = b
	hq.cfg.Ward = &quarantine.Ward{Logger: hq.cfg.Logger, Now: hq.cfg.Now, Alarm: func(kind, subject string, trouble error) {
		alarms <- fmt.Sprintf("%s %s: %v", kind, subject, trouble)
	}}
	hq.start()
	key := hq.enrol(hq.token("0001", "pos1"))
	revoke := admin.RevokeRequest{Store: "0001", Terminal: "pos1", Actor: "chen"}
	_, err := hq.client().Revoke(t.Context(), revoke)
	wantRefused(t, err, protocol.CodeInternal, "headquarters panicked: after the commit")
	if said := <-alarms; said != "message_panicked the command /v1/revoke: headquarters panicked: after the commit" {
		t.Error(said)
	}
	b.on = false
	_, err = hq.client().Revoke(t.Context(), revoke)
	wantRefused(t, err, protocol.CodeNotFound, "no key and no token that could be revoked")
	if got := hq.crl(); len(got) != 1 || got[0] != key.Serial || len(hq.revoked) != 1 || hq.revoked[0] != key.KeyID {
		t.Errorf("the broker is told of %v, the gate of %v", got, hq.revoked)
	}
}
