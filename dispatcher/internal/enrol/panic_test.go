package enrol_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"muster/dispatcher/internal/enrol"
	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
)

// brittle panics before or after it records a key, while told to.
type brittle struct {
	enrol.Keys
	before, after atomic.Bool
}

func (b *brittle) Enrol(ctx context.Context, token string, key store.TerminalKey, now time.Time) (store.TerminalKey, error) {
	if b.before.Load() {
		panic("before the commit")
	}
	known, err := b.Keys.Enrol(ctx, token, key, now)
	if b.after.Load() {
		panic("after the commit")
	}
	return known, err
}

// An enrolment that makes headquarters panic is answered, told and takes no
// place; the same again succeeds, wherever it was.
func TestAnEnrolmentThatPanicsIsAnsweredAndCanBeRepeated(t *testing.T) {
	t.Parallel()
	b := &brittle{}
	alarms := make(chan string, 16)
	hq := setup(t, func(cfg *enrol.Config) {
		b.Keys, cfg.Keys, cfg.MaxRequests = cfg.Keys, b, 4
		cfg.Ward = &quarantine.Ward{Logger: cfg.Logger, Now: cfg.Now, Alarm: func(kind, subject string, trouble error) {
			alarms <- kind + " " + subject + ": " + trouble.Error()
		}}
	})
	key := newKey(t)
	token, csr := hq.token("0001", "pos1"), request(t, key)
	for _, fault := range []*atomic.Bool{&b.before, &b.after} {
		fault.Store(true)
		for range 3 { // more than there are places, in all
			got := hq.enrol(token, csr)
			if got.status != http.StatusInternalServerError || got.Code != string(protocol.CodeInternal) || got.MessageZh == "" || !strings.Contains(got.Hint, "again") {
				t.Errorf("answered %+v", got)
			}
		}
		fault.Store(false)
	}
	if got := hq.enrol(token, csr); got.status != http.StatusOK || got.Certificate == "" {
		t.Errorf("the same once more: %+v", got)
	}
	if len(alarms) != 1 {
		t.Fatalf("%d alarms", len(alarms))
	}
	if said := <-alarms; said != "message_panicked /v1/enrol of 127.0.0.1/32: headquarters panicked: before the commit" {
		t.Error(said)
	}
	if !strings.Contains(hq.log.String(), "panic_test.go") {
		t.Error("the log has no stack")
	}
}
