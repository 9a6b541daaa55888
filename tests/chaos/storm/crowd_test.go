package storm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/internal/protocol"
	"muster/tests/chaos/history"
	"muster/tests/chaos/site"
	"muster/tests/fleet"
)

// crowd is a site whose terminals are simulated.
type crowd struct {
	*site.Site
	t         *testing.T
	file      *history.Shared
	terminals []*fleet.Lasting
	up        atomic.Int32 // connections now
	joined    atomic.Int32 // connections so far
	answered  atomic.Int32 // accepted answers
	stop      func()
}

func newCrowd(t *testing.T, cfg site.Config, terminals int) *crowd {
	t.Helper()
	stores := make([]string, terminals)
	for i := range stores {
		stores[i] = fmt.Sprintf("S%04d", i)
	}
	c := &crowd{Site: site.New(t, bin, cfg, stores...), t: t}
	var err error
	if c.file, err = history.CreateShared(c.History(), "crowd"); err != nil {
		t.Fatal(err)
	}
	topics, err := protocol.NewTopics(protocol.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	for _, store := range stores {
		c.terminals = append(c.terminals, c.terminal(topics, store))
	}
	return c
}

func (c *crowd) terminal(topics protocol.Topics, store string) *fleet.Lasting {
	record := &pen{crowd: c, who: history.Participant{Who: store + "/pos1", Role: history.RoleAgent, Store: store, Terminal: "pos1"}}
	return fleet.NewLasting(fleet.LastingOptions{
		Addr: c.Addr, Topics: topics, Store: store, Terminal: "pos1", Record: record,
		Execute: func(offer protocol.Offer, attempt int) (fleet.Reply, time.Duration) {
			c.failed(record.write(history.Line{Act: history.ActExecuted, Task: offer.TaskID, Attempt: attempt, PID: os.Getpid()}))
			return fleet.Reply{Result: json.RawMessage(fmt.Sprintf(`{"marker":"%s did it"}`, store))}, time.Second + rand.N(2*time.Second)
		},
		Receipted: func(_ time.Duration, accepted bool) {
			if accepted {
				c.answered.Add(1)
			}
		},
		Failed: c.failed,
	})
}

func (c *crowd) failed(err error) {
	if err != nil {
		c.t.Error(err)
	}
}

// run starts all terminals at once.
func (c *crowd) run() {
	ctx, cancel := context.WithCancel(c.t.Context())
	var all sync.WaitGroup
	for i, terminal := range c.terminals {
		terminal.Away(i < absent, false)
		all.Go(func() { terminal.Run(ctx) })
	}
	c.stop = sync.OnceFunc(func() {
		cancel()
		all.Wait()
		c.failed(c.file.Close())
	})
	c.t.Cleanup(c.stop)
}

// pen writes what one terminal sends and gets, and counts it among those that
// are there.
type pen struct {
	crowd *crowd
	who   history.Participant
	there bool // one connection at a time: no lock
}

func (p *pen) write(l history.Line) error {
	_, err := p.crowd.file.Write(p.who, l)
	return err
}

// Sent notes a message before it leaves.
func (p *pen) Sent(topic string, payload []byte, retained bool) error {
	return p.write(history.Line{Act: history.ActSent, Topic: topic, Payload: string(payload), Retained: retained})
}

// Got notes a message before anything follows from it.
func (p *pen) Got(topic string, payload []byte, retained bool) error {
	return p.write(history.Line{Act: history.ActGot, Topic: topic, Payload: string(payload), Retained: retained})
}

// Subscribed notes a subscription before it leaves.
func (p *pen) Subscribed(filter string) error {
	return p.write(history.Line{Act: history.ActSubscribed, Topic: filter})
}

// Connected notes that the way to the broker is there, or is gone.
func (p *pen) Connected(on bool) error {
	switch {
	case on && !p.there:
		p.crowd.up.Add(1)
		p.crowd.joined.Add(1)
	case !on && p.there:
		p.crowd.up.Add(-1)
	}
	p.there = on
	if on {
		return p.write(history.Line{Act: history.ActConnected})
	}
	return p.write(history.Line{Act: history.ActDisconnected})
}
