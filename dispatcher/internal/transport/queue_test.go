package transport_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"muster/dispatcher/internal/transport"
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
