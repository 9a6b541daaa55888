package transport

import (
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"muster/dispatcher/internal/quarantine"
	"muster/internal/logs"
)

const (
	// queueLanes publish side by side, so that one slow reader holds up a
	// sixteenth of the terminals and only until the broker's write deadline.
	queueLanes = 16
	// queueDepth bounds what waits in one lane; at 500 bytes an order that is
	// 8 MiB over all lanes.
	queueDepth = 1024
)

// ErrQueueFull says that a message was not taken: the broker does not keep up.
var ErrQueueFull = errors.New("outbound queue is full")

// Queue is a Publisher that never blocks: it takes a message and hands it on
// from a worker of its own. Messages on one topic keep their order. It is for
// what its receiver asks for again when it is lost, such as orders; a failure
// is logged and the message is gone. One that makes the broker panic is gone
// alone.
type Queue struct {
	// Ward is told of a message that makes headquarters panic. It may be set before
	// Start; what NewQueue puts there tells the log alone.
	Ward *quarantine.Ward

	out     Publisher
	log     *slog.Logger
	seed    maphash.Seed
	lanes   [queueLanes]chan frame
	refused atomic.Int64
	sparing logs.Sparing

	mu     sync.Mutex
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// frame is one message in a lane. build may still have to encode and sign it.
type frame struct {
	topic string
	build func() (Outbound, error)
}

// NewQueue returns a queue in front of out that is not yet started; what is
// published before Start waits.
func NewQueue(out Publisher, log *slog.Logger) *Queue {
	q := &Queue{out: out, log: log, seed: maphash.MakeSeed(), Ward: &quarantine.Ward{Logger: log, Now: time.Now}}
	for i := range q.lanes {
		q.lanes[i] = make(chan frame, queueDepth)
	}
	return q
}

// Start begins to hand on. It returns at once.
func (q *Queue) Start(ctx context.Context) {
	q.mu.Lock()
	defer q.mu.Unlock()
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	q.cancel = cancel
	for _, lane := range q.lanes {
		q.wg.Go(func() { q.work(run, lane) })
	}
}

// Stop ends the handing on; what still waits is dropped. It may be called
// twice, or before Start.
func (q *Queue) Stop() {
	q.mu.Lock()
	cancel := q.cancel
	q.mu.Unlock()
	if cancel == nil {
		return
	}
	cancel()
	q.wg.Wait()
}

// Publish takes the message and returns at once, with ErrQueueFull when it had
// to be refused. Safe for concurrent use.
func (q *Queue) Publish(_ context.Context, out Outbound) error {
	return q.publishLater(out.Topic, func() (Outbound, error) { return out, nil })
}

// publishLater is Publish for a message that a worker is to build: what encoding and
// signing cost, the lanes pay side by side.
func (q *Queue) publishLater(topic string, build func() (Outbound, error)) error {
	lane := q.lanes[maphash.String(q.seed, topic)%queueLanes]
	select {
	case lane <- frame{topic, build}:
		return nil
	default:
	}
	refused := q.refused.Add(1)
	if _, due := q.sparing.Due("full", time.Now()); due {
		q.log.Error("the broker does not keep up: a message is refused; its receiver will ask again", "topic", topic, "refused_since_start", refused)
	}
	return ErrQueueFull
}

// Refused is how many messages were not taken since the start.
func (q *Queue) Refused() int64 { return q.refused.Load() }

func (q *Queue) work(ctx context.Context, lane <-chan frame) {
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-lane:
			q.hand(ctx, f)
		}
	}
}

func (q *Queue) hand(ctx context.Context, f frame) {
	err := q.Ward.Do(quarantine.AlarmStep, "the message on "+f.topic, func() error {
		out, err := f.build()
		if errors.Is(err, errLost) {
			return nil
		}
		if err != nil {
			return err
		}
		return q.out.Publish(ctx, out)
	})
	if err == nil || quarantine.Broke(err) || errors.Is(err, context.Canceled) {
		return
	}
	if left, due := q.sparing.Due(f.topic, time.Now()); due {
		q.log.Warn("an order could not be published; its receiver will ask again", "topic", f.topic, "error", err, "left_out", left)
	}
}
