package transport

import (
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"sync"
	"time"
)

const (
	// queueLanes publish side by side, so that one slow reader holds up a
	// sixteenth of the terminals and only until the broker's write deadline.
	queueLanes = 16
	// queueDepth bounds what waits in one lane; at 300 bytes an order that is
	// 5 MiB over all lanes.
	queueDepth = 1024
	// queuePatience bounds one publish: a broker that takes longer is down.
	queuePatience = 10 * time.Second
)

// ErrQueueFull says that a message was not taken: the broker does not keep up.
var ErrQueueFull = errors.New("outbound queue is full")

// Queue is a Publisher that never blocks: it takes a message and hands it on
// from a worker of its own. Messages on one topic keep their order. It is for
// what its receiver asks for again when it is lost, such as orders; a failure
// is logged and the message is gone.
type Queue struct {
	out   Publisher
	log   *slog.Logger
	seed  maphash.Seed
	lanes [queueLanes]chan Outbound

	mu     sync.Mutex
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// NewQueue returns a queue in front of out that is not yet started; what is
// published before Start waits.
func NewQueue(out Publisher, log *slog.Logger) *Queue {
	q := &Queue{out: out, log: log, seed: maphash.MakeSeed()}
	for i := range q.lanes {
		q.lanes[i] = make(chan Outbound, queueDepth)
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
	lane := q.lanes[maphash.String(q.seed, out.Topic)%queueLanes]
	select {
	case lane <- out:
		return nil
	default:
		return ErrQueueFull
	}
}

func (q *Queue) work(ctx context.Context, lane <-chan Outbound) {
	for {
		select {
		case <-ctx.Done():
			return
		case out := <-lane:
			q.hand(ctx, out)
		}
	}
}

func (q *Queue) hand(ctx context.Context, out Outbound) {
	ctx, cancel := context.WithTimeout(ctx, queuePatience)
	defer cancel()
	if err := q.out.Publish(ctx, out); err != nil && !errors.Is(err, context.Canceled) {
		q.log.Warn("an order could not be published; its receiver will ask again", "topic", out.Topic, "error", err)
	}
}
