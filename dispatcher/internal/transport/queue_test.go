package transport_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
	"muster/internal/trust"
)

// stuck is a broker whose readers of one topic do not read.
type stuck struct {
	recorder
	topic string
	free  chan struct{}
}

func (s *stuck) Publish(ctx context.Context, out transport.Outbound) error {
	if out.Topic == s.topic {
		select {
		case <-s.free:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.recorder.Publish(ctx, out)
}

func TestQueueKeepsTheOrderOfATopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		q := transport.NewQueue(r, slog.New(slog.DiscardHandler))
		q.Start(t.Context())
		for i := range 500 {
			topic := fmt.Sprintf("t/%d", i%7)
			if err := q.Publish(t.Context(), transport.Outbound{Topic: topic, Payload: fmt.Append(nil, i)}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		q.Stop()
		q.Stop()
		last := map[string]int{}
		for _, out := range r.out {
			var n int
			if _, err := fmt.Sscan(string(out.Payload), &n); err != nil {
				t.Fatal(err)
			}
			if before, seen := last[out.Topic]; seen && n <= before {
				t.Errorf("on %s %d follows %d", out.Topic, n, before)
			}
			last[out.Topic] = n
		}
		if len(r.out) != 500 {
			t.Errorf("%d of 500 were handed on", len(r.out))
		}
	})
}

func TestAStuckReaderHoldsUpOnlyItsLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stuck{topic: "stuck", free: make(chan struct{})}
		q := transport.NewQueue(s, slog.New(slog.DiscardHandler))
		q.Start(t.Context())
		defer q.Stop()
		publish := func(topic string) error {
			return q.Publish(t.Context(), transport.Outbound{Topic: topic})
		}
		if err := publish("stuck"); err != nil {
			t.Fatal(err)
		}
		for i := range 160 {
			if err := publish(fmt.Sprintf("free/%d", i)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		s.mu.Lock()
		got := len(s.out)
		s.mu.Unlock()
		if got < 100 || got == 161 {
			t.Errorf("%d of 160 passed the stuck reader", got)
		}
		var full error
		for range 2000 {
			full = errors.Join(full, publish("stuck"))
		}
		if !errors.Is(full, transport.ErrQueueFull) || strings.Count(full.Error(), "\n") > 1200 {
			t.Error("a full lane took everything, or nothing")
		}
		close(s.free)
	})
}

// hostile is a broker that panics over one topic.
type hostile struct{ recorder }

func (h *hostile) Publish(ctx context.Context, out transport.Outbound) error {
	if out.Topic == "poison" {
		panic("nobody can publish that")
	}
	return h.recorder.Publish(ctx, out)
}

// TestAMessageThatPanicsIsLostAlone: whatever else is in the queue arrives, and
// operators are told, once of many.
func TestAMessageThatPanicsIsLostAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, alarms := &hostile{}, steptest.Alarms{}
		q := transport.NewQueue(h, slog.New(slog.DiscardHandler))
		q.Ward = &quarantine.Ward{Logger: slog.New(slog.DiscardHandler), Now: time.Now, Alarm: alarms.Raise}
		q.Start(t.Context())
		defer q.Stop()
		for i := range 160 {
			for _, topic := range []string{"poison", fmt.Sprintf("free/%d", i)} {
				if err := q.Publish(t.Context(), transport.Outbound{Topic: topic}); err != nil {
					t.Fatal(err)
				}
			}
		}
		synctest.Wait()
		if len(h.out) != 160 {
			t.Errorf("%d of 160 others arrived", len(h.out))
		}
		if told := alarms.Told(); told != "step_panicked the message on poison: headquarters panicked: nobody can publish that" {
			t.Errorf("alarms %q", told)
		}
	})
}

// TestAPanicIsLoggedWhereNobodyListens for alarms.
func TestAPanicIsLoggedWhereNobodyListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		q := transport.NewQueue(&hostile{}, slog.New(slog.NewTextHandler(&log, nil)))
		q.Start(t.Context())
		if err := q.Publish(t.Context(), transport.Outbound{Topic: "poison"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		q.Stop()
		if !strings.Contains(log.String(), "nobody can publish that") {
			t.Errorf("the log says %q", log.String())
		}
	})
}

// TestOrdersAreNumberedAtOnceAndSignedByTheLanes, in the order in which they were
// given, with the key that signs then.
func TestOrdersAreNumberedAtOnceAndSignedByTheLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		q := transport.NewQueue(r, slog.New(slog.DiscardHandler))
		signed := atomic.Int64{}
		s := newSender(t, r).Signing(func() *trust.Signer { signed.Add(1); return key(1) }).Through(q)
		first := s.Number()
		for i := range 100 {
			if err := s.Order(t.Context(), "S1", fmt.Sprintf("pos-%d", i%7), protocol.Order{Order: protocol.OrderGrant, Attempt: i + 1}); err != nil {
				t.Fatal(err)
			}
		}
		last := s.Number()
		if signed.Load() != 0 || last < first+100 {
			t.Errorf("%d were signed by who gave them, numbers %d to %d", signed.Load(), first, last)
		}
		q.Start(t.Context())
		synctest.Wait()
		q.Stop()
		if len(r.out) != 100 || s.Number() != last {
			t.Fatalf("%d arrived, the newest number is %d", len(r.out), s.Number())
		}
		newest := map[string]int64{}
		for _, out := range r.out {
			var o protocol.Order
			if err := protocol.Decode(out.Payload, protocol.MaxPayloadBytes, &o); err != nil {
				t.Fatal(err)
			}
			if err := out.Signature.Verify(publicKey(1), out.Topic, out.Payload); err != nil || len(o.ID) != 26 {
				t.Errorf("%+v: %v", o, err)
			}
			if o.Seq <= newest[out.Topic] || o.Seq <= first || o.Seq > last {
				t.Errorf("on %s number %d follows %d", out.Topic, o.Seq, newest[out.Topic])
			}
			newest[out.Topic] = o.Seq
		}
	})
}

// TestAFullLaneRefusesAloudAndCounts: its log has one line a minute, who gives the
// order an error each time.
func TestAFullLaneRefusesAloudAndCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		q := transport.NewQueue(&recorder{}, slog.New(slog.NewTextHandler(&log, nil)))
		s := newSender(t, &recorder{}).Through(q) // not started: nothing leaves the lane
		refused := int64(0)
		for range 3000 {
			if err := s.Order(t.Context(), "S1", "pos", protocol.Order{}); errors.Is(err, transport.ErrQueueFull) {
				refused++
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if refused != 3000-1024 || q.Refused() != refused {
			t.Errorf("%d were refused, %d counted", refused, q.Refused())
		}
		if strings.Count(log.String(), "level=ERROR") != 1 {
			t.Errorf("the log says %s", log.String())
		}
	})
}

// TestABrokerThatIsDownDoesNotFillTheLog with a line an order.
func TestABrokerThatIsDownDoesNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		q := transport.NewQueue(&recorder{err: errors.New("link is down")}, slog.New(slog.NewTextHandler(&log, nil)))
		q.Start(t.Context())
		defer q.Stop()
		send := func(n int) {
			for range n {
				if err := q.Publish(t.Context(), transport.Outbound{Topic: "t"}); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
		}
		send(500)
		time.Sleep(time.Minute)
		send(1)
		if n := strings.Count(log.String(), "\n"); n != 2 || !strings.Contains(log.String(), "left_out=499") {
			t.Errorf("%d lines: %s", n, log.String())
		}
	})
}
