package transport_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
	"muster/internal/trust"
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

func TestNumbersFollowTheClockAndNeverGoBack(t *testing.T) {
	at := time.Date(2026, 9, 17, 12, 0, 0, 0, time.UTC)
	topics, err := protocol.NewTopics(protocol.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	s := transport.NewSender(&recorder{}, topics, func() time.Time { return at })
	first := s.Meta().Seq
	at = at.Add(time.Hour)
	if got := s.Meta().Seq; got != at.UnixMicro() {
		t.Errorf("an hour later the number is %d, want %d", got, at.UnixMicro())
	}
	last := s.Meta().Seq
	at = at.Add(-26 * time.Hour) // the clock is set back
	if got := s.Meta().Seq; got != last+1 {
		t.Errorf("after the clock was set back %d follows %d", got, last)
	}
	again := transport.NewSender(&recorder{}, topics, func() time.Time { return at })
	if !again.StartAbove(last) || again.Meta().Seq <= last {
		t.Errorf("a later process does not go on above %d", last)
	}
	before := again.Number()
	for _, number := range []int64{at.Add(49 * time.Hour).UnixMicro(), trust.MaxNumber, math.MaxInt64} {
		if again.StartAbove(number) || again.Number() != before {
			t.Errorf("somebody pushed the numbers to %d", number)
		}
	}
	if again.StartAbove(first); again.Number() <= before {
		t.Error("an old number took the newest one back")
	}
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

func key(seed byte) *trust.Signer {
	return trust.NewSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize)))
}

// TestWhatStartsWorkIsSigned: offers and orders bear the signature of the key
// that signs at that moment, over exactly the topic and bytes that travel;
// whatever starts nothing bears none.
func TestWhatStartsWorkIsSigned(t *testing.T) {
	r, queued := &recorder{}, &recorder{}
	current := key(1)
	s := newSender(t, r).Signing(func() *trust.Signer { return current })
	ctx, topics := t.Context(), s.Topics()
	publish := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	publish(s.JSON(ctx, topics.Offer("S1", "t1"), protocol.Offer{Meta: s.Meta()}, transport.Options{Retain: true}))
	current = key(2) // the keys were rotated
	publish(s.Through(queued).Order(ctx, "S1", "pos-1", protocol.Order{Order: protocol.OrderGrant}))
	publish(s.ClearOffer(ctx, "S1", "t1"))
	publish(s.JSON(ctx, topics.Info(), protocol.Info{}, transport.Options{}))
	publish(s.JSON(ctx, topics.Trust(), trust.Sealed{Document: `{"version":1}`}, transport.Options{Retain: true}))
	publish(s.JSON(ctx, topics.LastReply("wang"), protocol.Reply{}, transport.Options{}))
	publish(s.Text(ctx, topics.Run("r", protocol.RunText), "done"))
	for i, signed := range []transport.Outbound{r.out[0], queued.out[0]} {
		public, other := publicKey(byte(i+1)), publicKey(byte(2-i))
		if err := signed.Signature.Verify(public, signed.Topic, signed.Payload); err != nil || signed.Signature.KeyID != trust.KeyID(public) {
			t.Errorf("%s: %v, key %q", signed.Topic, err, signed.Signature.KeyID)
		}
		if signed.Signature.Verify(other, signed.Topic, signed.Payload) == nil {
			t.Errorf("%s is signed with the other key", signed.Topic)
		}
	}
	if len(r.out) != 6 {
		t.Fatalf("published %d messages", len(r.out))
	}
	for _, plain := range r.out[1:] {
		if !plain.Signature.IsZero() {
			t.Errorf("%s is signed", plain.Topic)
		}
	}
}

func publicKey(seed byte) ed25519.PublicKey {
	public, _ := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize)).Public().(ed25519.PublicKey)
	return public
}

func TestNothingIsSignedWithoutIdentity(t *testing.T) {
	r := &recorder{}
	for _, s := range []*transport.Sender{newSender(t, r), newSender(t, r).Signing(nil)} {
		if err := s.Order(t.Context(), "S1", "pos-1", protocol.Order{Order: protocol.OrderSend}); err != nil {
			t.Fatal(err)
		}
	}
	for _, out := range r.out {
		if !out.Signature.IsZero() {
			t.Errorf("signed: %+v", out.Signature)
		}
	}
}

// knowing is a recorder that knows who subscribes.
type knowing struct {
	recorder
	to string
}

func (k *knowing) Subscribed(topic string) bool { return topic == k.to }

// TestWhatNobodyHearsIsNotMade: neither encoded nor signed, by whatever way. What is
// retained is for those who come later.
func TestWhatNobodyHearsIsNotMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		topics, err := protocol.NewTopics(protocol.DefaultRoot)
		if err != nil {
			t.Fatal(err)
		}
		k := &knowing{to: topics.Terminal("S1", "here", protocol.KindOrders)}
		signed := 0
		_, key, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		s := transport.NewSender(k, topics, time.Now).Signing(func() *trust.Signer { signed++; return trust.NewSigner(key) })
		queue := transport.NewQueue(k, slog.New(slog.DiscardHandler))
		queue.Start(t.Context())
		defer queue.Stop()
		for _, s := range []*transport.Sender{s, s.Through(queue)} {
			for _, who := range []string{"here", "away"} {
				if err := s.Order(t.Context(), "S1", who, protocol.Order{Order: protocol.OrderSend, TaskID: "t1", Attempt: 1}); err != nil {
					t.Error(err)
				}
			}
		}
		synctest.Wait()
		if err := errors.Join(s.Text(t.Context(), topics.Run("R", protocol.RunText), "a line"),
			s.JSON(t.Context(), topics.Offer("S1", "t1"), protocol.Offer{}, transport.Options{Retain: true})); err != nil {
			t.Error(err)
		}
		var on []string
		for _, out := range k.out {
			on = append(on, out.Topic)
		}
		if want := []string{k.to, k.to, topics.Offer("S1", "t1")}; !slices.Equal(on, want) || signed != 3 {
			t.Errorf("published on %q, signed %d times", on, signed)
		}
	})
}
