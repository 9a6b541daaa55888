package transport

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"muster/internal/protocol"
	"muster/internal/trust"
)

// Publisher is the sending half of a Link.
type Publisher interface {
	Publish(ctx context.Context, out Outbound) error
}

// Sender frames what headquarters says: it stamps every message with an id,
// the time and a growing number, encodes it and hands it to the broker. All
// steps share one, so that the numbers are headquarters' own. Safe for
// concurrent use; the zero value is not usable, call NewSender.
type Sender struct {
	out    Publisher
	topics protocol.Topics
	now    func() time.Time
	seq    *atomic.Int64
	signer func() *trust.Signer    // nil: nothing is signed
	heard  func(topic string) bool // nil: nobody knows who listens
}

// NewSender returns a sender over out. Its numbers follow the clock's
// microseconds, so that they go on growing across restarts and stay exact as
// JSON numbers, and never go back with it. If out can tell who subscribes, what
// nobody keeps and nobody hears is neither encoded nor signed.
func NewSender(out Publisher, topics protocol.Topics, now func() time.Time) *Sender {
	s := &Sender{out: out, topics: topics, now: now, seq: &atomic.Int64{}}
	s.seq.Store(now().UnixMicro())
	if l, ok := out.(interface{ Subscribed(topic string) bool }); ok {
		s.heard = l.Subscribed
	}
	return s
}

// errLost says that a message would be heard by nobody.
var errLost = errors.New("nobody hears it")

// lost reports whether a message that nobody keeps would be heard by nobody.
func (s *Sender) lost(topic string, opts Options) bool {
	return !opts.Retain && s.heard != nil && !s.heard(topic)
}

// farAhead bounds how far above the clock numbers may be pushed: a clock that
// was set back by a day is survived, and nobody can use the numbers up.
const farAhead = int64(48 * time.Hour / time.Microsecond)

// StartAbove has the numbers go on above one that was used before, whatever the
// clock says: a terminal refuses numbers that it has seen. It reports false, and
// changes nothing, when that is more than 48 hours ahead of the clock.
func (s *Sender) StartAbove(number int64) bool {
	if number > s.now().UnixMicro()+farAhead {
		return false
	}
	s.next(number)
	return true
}

// next returns a number above all earlier ones and not below least.
func (s *Sender) next(least int64) int64 {
	for {
		last := s.seq.Load()
		number := max(last+1, least)
		if s.seq.CompareAndSwap(last, number) {
			return number
		}
	}
}

// Number is the newest one given out.
func (s *Sender) Number() int64 { return s.seq.Load() }

// Through returns a sender over another way out, such as a Queue. Its numbers
// are the same series: to a receiver headquarters is one.
func (s *Sender) Through(out Publisher) *Sender {
	return &Sender{out: out, topics: s.topics, now: s.now, seq: s.seq, signer: s.signer, heard: s.heard}
}

// Signing returns a sender that signs offers and orders, what terminals act on,
// with the key that signer names at that moment. With a nil signer nothing is
// signed. Its numbers are the same series. signer is called from many
// goroutines.
func (s *Sender) Signing(signer func() *trust.Signer) *Sender {
	return &Sender{out: s.out, topics: s.topics, now: s.now, seq: s.seq, signer: signer, heard: s.heard}
}

// Options says how a message is to be published. The zero value is a message
// that is not retained and does not expire.
type Options struct {
	Retain          bool
	Expiry          time.Duration
	CorrelationData []byte
	soon            bool // see Outbound
}

// Topics returns the topics that the sender builds under.
func (s *Sender) Topics() protocol.Topics { return s.topics }

// Meta returns the frame of a new message.
func (s *Sender) Meta() protocol.Meta {
	now := s.now()
	return protocol.Meta{
		ID:  ulid.MustNew(ulid.Timestamp(now), rand.Reader).String(),
		At:  protocol.At(now),
		Seq: s.next(now.UnixMicro()),
	}
}

// Order gives one terminal an order; its Meta is set here. A Queue encodes and signs
// it in its own time: what o points to must not change any more.
func (s *Sender) Order(ctx context.Context, store, terminal string, o protocol.Order) error {
	o.Meta = s.Meta()
	topic := s.topics.Terminal(store, terminal, protocol.KindOrders)
	queue, ok := s.out.(*Queue)
	if !ok {
		return s.JSON(ctx, topic, o, Options{})
	}
	if err := queue.publishLater(topic, func() (Outbound, error) {
		if s.lost(topic, Options{}) {
			return Outbound{}, errLost
		}
		return s.Frame(topic, o, Options{soon: true})
	}); err != nil {
		return fmt.Errorf("cannot publish on %s: %w", topic, err)
	}
	return nil
}

// JSON publishes v, which carries its own Meta, on topic.
func (s *Sender) JSON(ctx context.Context, topic string, v any, opts Options) error {
	if s.lost(topic, opts) {
		return nil
	}
	out, err := s.Frame(topic, v, opts)
	if err != nil {
		return fmt.Errorf("cannot publish on %s: %w", topic, err)
	}
	return s.Send(ctx, out)
}

// Send publishes what Frame made.
func (s *Sender) Send(ctx context.Context, out Outbound) error {
	if err := s.out.Publish(ctx, out); err != nil {
		return fmt.Errorf("cannot publish on %s: %w", out.Topic, err)
	}
	return nil
}

// Frame is v, which carries its own Meta, as it travels on topic: encoded, and signed
// if such a message is. Nothing is published.
func (s *Sender) Frame(topic string, v any, opts Options) (Outbound, error) {
	payload, err := protocol.Encode(v)
	if err != nil {
		return Outbound{}, err
	}
	return Outbound{Topic: topic, Payload: payload, Retain: opts.Retain, Expiry: opts.Expiry,
		CorrelationData: opts.CorrelationData, Signature: s.sign(topic, payload), Soon: opts.soon}, nil
}

// sign signs what starts or stops work at a terminal. What people and tools
// read starts nothing, and a withdrawal has nothing to sign: whoever could
// forge one could as well keep the offer back.
func (s *Sender) sign(topic string, payload []byte) trust.Signature {
	if s.signer == nil {
		return trust.Signature{}
	}
	if a, ok := s.topics.Parse(topic); !ok || (a.Kind != protocol.KindOffer && a.Kind != protocol.KindOrders) {
		return trust.Signature{}
	}
	return s.signer().Sign(topic, payload)
}

// Clear withdraws what is retained on topic.
func (s *Sender) Clear(ctx context.Context, topic string) error {
	if err := s.out.Publish(ctx, Outbound{Topic: topic, Retain: true, Soon: true}); err != nil {
		return fmt.Errorf("cannot clear %s: %w", topic, err)
	}
	return nil
}

// Text publishes one human line, which is not retained.
func (s *Sender) Text(ctx context.Context, topic, line string) error {
	if s.lost(topic, Options{}) {
		return nil
	}
	if err := s.out.Publish(ctx, Outbound{Topic: topic, Payload: []byte(line)}); err != nil {
		return fmt.Errorf("cannot publish on %s: %w", topic, err)
	}
	return nil
}
