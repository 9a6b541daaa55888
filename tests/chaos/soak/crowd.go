package main

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"muster/internal/protocol"
	"muster/tests/chaos/history"
	"muster/tests/fleet"
)

// awayShare is how many of all terminals are kept away at any time, and awayFor
// how long each.
const (
	awayShare = 10 // one of ten
	awayFor   = 30 * time.Second
	awayEvery = 3 * time.Second
)

// crowd are the simulated terminals, and the ring in which they and the real
// agents are kept away in turn.
type crowd struct {
	soak  *soak
	all   []*fleet.Lasting
	ring  []func(away bool)
	end   context.CancelFunc
	ended sync.WaitGroup
}

func (s *soak) newCrowd(ctx context.Context) *crowd {
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	c := &crowd{soak: s, end: end}
	for i := range s.opts.terminals {
		store := fmt.Sprintf("S%05d", i)
		out := scribe{s.ledger, history.Participant{Who: store + "/pos1", Role: history.RoleAgent, Store: store, Terminal: "pos1"}}
		t := fleet.NewLasting(fleet.LastingOptions{Addr: s.addr, Topics: s.topics, Store: store, Terminal: "pos1", Record: out,
			Failed: s.failed, Receipted: s.tally.receipted,
			Execute: func(offer protocol.Offer, attempt int) (fleet.Reply, time.Duration) {
				s.failed(out.executed(offer.TaskID, attempt))
				return s.work(store, offer.TaskID, attempt)
			}})
		c.all = append(c.all, t)
		silently := i%8 == 0 // as behind a link that swallows everything
		c.ring = append(c.ring, func(away bool) { t.Away(away, silently) })
	}
	for _, a := range s.agents {
		c.ring = append(c.ring, a.door.set)
	}
	rng := rand.New(rand.NewPCG(s.opts.seed, 2))
	rng.Shuffle(len(c.ring), func(i, j int) { c.ring[i], c.ring[j] = c.ring[j], c.ring[i] })
	for i, t := range c.all {
		c.ended.Go(func() {
			select {
			case <-running.Done():
			case <-time.After(time.Duration(i) * 2 * time.Millisecond): // they do not come all at once the first time
				t.Run(running)
			}
		})
	}
	return c
}

// roll keeps one of ten away until ctx ends; then all may come.
func (c *crowd) roll(ctx context.Context) {
	held := len(c.ring) / awayShare
	from, to := 0, 0 // of the ring, from is the first that is away
	turn := max(1, int(int64(held)*int64(awayEvery)/int64(awayFor)))
	tick := time.NewTicker(awayEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		for to-from < held {
			c.ring[to%len(c.ring)](true)
			to++
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
		for range turn {
			c.ring[from%len(c.ring)](false)
			from++
		}
	}
	for ; from < to; from++ {
		c.ring[from%len(c.ring)](false)
	}
}

// cut ends every connection at the same moment.
func (c *crowd) cut() {
	for _, t := range c.all {
		t.Cut()
	}
	for _, a := range c.soak.agents {
		a.tap.Cut()
	}
}

func (c *crowd) stop() {
	c.end()
	c.ended.Wait()
}

// work decides how an attempt ends, by the task and nothing else.
func (s *soak) work(store, task string, attempt int) (fleet.Reply, time.Duration) {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s %d", s.opts.seed, task, attempt)
	n := h.Sum64()
	after := 100*time.Millisecond + time.Duration(n>>32%1500)*time.Millisecond
	text, more := store+" did it", ""
	switch n % 100 {
	case 0, 1:
		return fleet.Reply{}, 0 // it dies, and its lease ends
	case 2, 3, 4:
		return fleet.Reply{Failure: &protocol.Failure{Code: protocol.CodeExecution, Message: "the till is locked"}}, after
	case 5:
		return fleet.Reply{Result: json.RawMessage(`{"mark":"another field"}`)}, after // refused by the job's schema
	case 6:
		more = strings.Repeat("again ", 3000) // announced, and sent when it is asked for
	case 7:
		after = 8 * time.Second
	}
	return fleet.Reply{Result: json.RawMessage(fmt.Sprintf(`{"marker":%q,"more":%q}`, text, more))}, after
}
