package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"muster/internal/protocol"
	"muster/tests/fleet"
)

// deadline bounds one run; it only passes in full when messages were lost.
const deadline = 2 * time.Minute

// pair is a publisher and its subscriber.
type pair struct {
	topic    string
	from, to *fleet.Conn
	room     chan struct{} // holds a token for each message under way
	arrived  chan struct{}
}

// user may do everything under the topic root on a broker that stands alone.
const user = "dispatcher"

func newPair(ctx context.Context, addr string, i, window int) (*pair, error) {
	p := &pair{topic: fmt.Sprintf("%s/runs/bench-%d/text", protocol.DefaultRoot, i),
		room: make(chan struct{}, window), arrived: make(chan struct{}, window)}
	id := fmt.Sprintf("%d-%d", time.Now().UnixNano(), i) // a new one each time: ids that come too often are banned
	var err error
	p.to, err = fleet.Dial(ctx, addr, fleet.Login{User: user, ClientID: "to-" + id}, func(fleet.Message) {
		<-p.room
		p.arrived <- struct{}{}
	})
	if err != nil {
		return nil, err
	}
	if err := p.to.Subscribe(ctx, p.topic); err != nil {
		p.to.Close()
		return nil, err
	}
	p.from, err = fleet.Dial(ctx, addr, fleet.Login{User: user, ClientID: "from-" + id}, func(fleet.Message) {})
	if err != nil {
		p.to.Close()
		return nil, err
	}
	return p, nil
}

func (p *pair) close() {
	p.from.Close()
	p.to.Close()
}

// carry sends messages and returns when all have arrived.
func (p *pair) carry(ctx context.Context, messages int, payload []byte) error {
	var group errgroup.Group
	group.Go(func() error {
		for range messages {
			select {
			case p.room <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := p.from.Publish(p.topic, payload); err != nil {
				return err
			}
		}
		return nil
	})
	group.Go(func() error {
		for n := range messages {
			select {
			case <-p.arrived:
			case <-p.to.Done():
				return errors.New("the subscriber's connection ended")
			case <-ctx.Done():
				return fmt.Errorf("%d of %d messages arrived: %w", n, messages, ctx.Err())
			}
		}
		return nil
	})
	return group.Wait()
}

// once carries one run's messages through a broker.
func once(ctx context.Context, b *broker, o options) (f figure, err error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	var pairs []*pair
	for i := range o.pairs {
		p, err := newPair(ctx, b.addr, i, o.window)
		if err != nil {
			return figure{}, err
		}
		defer p.close()
		pairs = append(pairs, p)
	}
	before, err := b.cpu()
	if err != nil {
		return figure{}, err
	}
	begin := time.Now()
	payload := make([]byte, o.bytes)
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range pairs {
		group.Go(func() error { return p.carry(ctx, o.messages/o.pairs, payload) })
	}
	if err := group.Wait(); err != nil {
		return figure{}, err
	}
	took := time.Since(begin)
	after, err := b.cpu()
	if err != nil {
		return figure{}, err
	}
	sent := o.messages / o.pairs * o.pairs
	return figure{rate: float64(sent) / took.Seconds(), cpu: (after - before) / time.Duration(sent)}, nil
}
