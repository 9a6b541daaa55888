package transport_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
)

type recorder struct {
	mu  sync.Mutex
	out []transport.Outbound
	err error
}

func (r *recorder) Publish(_ context.Context, out transport.Outbound) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	r.out = append(r.out, out)
	return nil
}

func newSender(t *testing.T, r *recorder) *transport.Sender {
	t.Helper()
	topics, err := protocol.NewTopics(protocol.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	return transport.NewSender(r, topics, time.Now)
}

func TestOrderCarriesIdTimeAndGrowingNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{}
		s := newSender(t, r)
		for range 2 {
			order := protocol.Order{Order: protocol.OrderSend, TaskID: "t1", Attempt: 1}
			if err := s.Order(t.Context(), "S1", "pos-1", order); err != nil {
				t.Fatal(err)
			}
		}
		var got [2]protocol.Order
		for i, out := range r.out {
			if out.Topic != "muster/v1/stores/S1/terminals/pos-1/orders" || out.Retain {
				t.Errorf("published on %s, retained %t", out.Topic, out.Retain)
			}
			if err := protocol.Decode(out.Payload, protocol.MaxPayloadBytes, &got[i]); err != nil {
				t.Fatal(err)
			}
		}
		if got[0].ID == got[1].ID || len(got[0].ID) != 26 {
			t.Errorf("ids %q and %q", got[0].ID, got[1].ID)
		}
		if got[1].Seq <= got[0].Seq {
			t.Errorf("numbers %d then %d", got[0].Seq, got[1].Seq)
		}
		if !got[0].At.Equal(time.Now()) {
			t.Errorf("at %v, now is %v", got[0].At, time.Now())
		}
	})
}

func TestNumbersGrowAcrossARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := newSender(t, &recorder{})
		var last int64
		for range 1000 {
			last = first.Meta().Seq
		}
		time.Sleep(time.Second)
		if next := newSender(t, &recorder{}).Meta().Seq; next <= last {
			t.Errorf("after a restart %d follows %d", next, last)
		}
	})
}

func TestTwoWaysOutShareOneSeries(t *testing.T) {
	one, other := &recorder{}, &recorder{}
	s := newSender(t, one)
	q := s.Through(other)
	last := int64(0)
	for i := range 10 {
		next := []*transport.Sender{s, q}[i%2].Meta().Seq
		if next <= last {
			t.Errorf("%d follows %d", next, last)
		}
		last = next
	}
	if err := q.Order(t.Context(), "S1", "pos-1", protocol.Order{}); err != nil || len(one.out) != 0 || len(other.out) != 1 {
		t.Errorf("published %d and %d, %v", len(one.out), len(other.out), err)
	}
}

func TestClearIsAnEmptyRetainedMessage(t *testing.T) {
	r := &recorder{}
	if err := newSender(t, r).Clear(t.Context(), "muster/v1/stores/S1/tasks/t1"); err != nil {
		t.Fatal(err)
	}
	if len(r.out) != 1 || len(r.out[0].Payload) != 0 || !r.out[0].Retain {
		t.Errorf("published %+v", r.out)
	}
}

func TestSenderNamesTheTopicOfAFailure(t *testing.T) {
	down := errors.New("link is down")
	r := &recorder{err: down}
	err := newSender(t, r).Order(t.Context(), "S1", "pos-1", protocol.Order{})
	if !errors.Is(err, down) || err.Error() != "cannot publish on muster/v1/stores/S1/terminals/pos-1/orders: link is down" {
		t.Errorf("got %v", err)
	}
}
