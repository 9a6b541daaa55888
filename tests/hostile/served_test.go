package hostile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"muster/internal/protocol"
	"muster/tests/fleet"
)

// customer is a well-behaved client: it asks, waits for the answer, and notes
// how long that took.
type customer struct {
	user   string
	ask    string // topic it publishes to
	answer string // topic it listens to
	every  time.Duration

	mu    sync.Mutex
	took  []time.Duration
	fault error
}

func terminal(store, name string, every time.Duration) *customer {
	return &customer{user: store + "/" + name, every: every,
		ask:    topics().Terminal(store, name, protocol.KindClaim),
		answer: topics().Terminal(store, name, protocol.KindOrders)}
}

func technician(name string, every time.Duration) *customer {
	return &customer{user: name, every: every,
		ask: topics().Request(name, protocol.VerbStatus), answer: topics().Replies(name) + "#"}
}

// work asks until ctx ends. With reconnect it comes over a new connection every
// time, so that it also proves that newcomers are let in.
func (c *customer) work(ctx context.Context, addr string, reconnect bool) {
	for n := 0; ctx.Err() == nil && c.fault == nil; { // only this goroutine sets fault
		c.session(ctx, addr, &n, reconnect)
	}
}

func (c *customer) session(ctx context.Context, addr string, n *int, once bool) {
	begin := time.Now()
	answers := make(chan string, 16)
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait)
	defer cancel()
	who := fleet.Login{User: c.user}
	if once {
		who.ClientID = fmt.Sprintf("%s-%d", c.user, *n) // an id that comes too often is banned
	}
	conn, err := fleet.Dial(limited, addr, who, func(m fleet.Message) { answers <- string(m.Payload) })
	if err != nil {
		c.fail(fmt.Errorf("cannot connect: %w", err))
		return
	}
	defer conn.Close()
	if err := conn.Subscribe(limited, c.answer); err != nil {
		c.fail(fmt.Errorf("cannot subscribe: %w", err))
		return
	}
	for ctx.Err() == nil {
		*n++
		if err := c.once(conn, answers, strconv.Itoa(*n)); err != nil {
			c.fail(err)
			return
		}
		c.note(time.Since(begin))
		select {
		case <-ctx.Done():
		case <-time.After(c.every): // a customer's pace, nothing is waited for
		}
		if once {
			return
		}
		begin = time.Now()
	}
}

func (c *customer) once(conn *fleet.Conn, answers <-chan string, word string) error {
	if err := conn.Publish(c.ask, []byte(word)); err != nil {
		return fmt.Errorf("cannot ask %s: %w", word, err)
	}
	late := time.NewTimer(wait)
	defer late.Stop()
	for {
		select {
		case got := <-answers:
			if got == word {
				return nil
			}
		case <-conn.Done():
			return errors.New("the broker cut the connection")
		case <-late.C:
			return fmt.Errorf("no answer to %s within %v", word, wait)
		}
	}
}

func (c *customer) note(took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took = append(c.took, took)
}

// forget starts the notes anew.
func (c *customer) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took = nil
}

func (c *customer) answered() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.took)
}

func (c *customer) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = fmt.Errorf("%s: %w", c.user, err)
}

// service is how customers were served.
type service struct {
	answers       int
	p50, p99, max time.Duration
}

func (s service) String() string {
	return fmt.Sprintf("%d answers, p50 %v, p99 %v, max %v", s.answers, s.p50.Round(10*time.Microsecond), s.p99.Round(10*time.Microsecond), s.max.Round(10*time.Microsecond))
}

// sum adds customers up and returns the first fault.
func sum(customers ...*customer) (service, error) {
	var all []time.Duration
	var faults []error
	for _, c := range customers {
		c.mu.Lock()
		all = append(all, c.took...)
		faults = append(faults, c.fault)
		c.mu.Unlock()
	}
	if len(all) == 0 {
		return service{}, errors.Join(append(faults, errors.New("nobody was served"))...)
	}
	slices.Sort(all)
	return service{answers: len(all), p50: all[len(all)/2], p99: all[len(all)*99/100], max: all[len(all)-1]}, errors.Join(faults...)
}
