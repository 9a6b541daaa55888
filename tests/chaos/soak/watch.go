package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
	"muster/tests/fleet"
)

const (
	sampleEvery = 2 * time.Second
	agentEvery  = 10 * time.Second
	lookEvery   = 5 * time.Second
)

// watchRuns writes down the events of all runs, over any number of connections,
// until ctx ends.
func (s *soak) watchRuns(ctx context.Context) {
	for ctx.Err() == nil {
		dialing, cancel := context.WithTimeout(ctx, answerPatience)
		conn, err := fleet.Dial(dialing, s.addr, fleet.Login{User: "watch"}, func(m fleet.Message) {
			s.failed(s.eye.Got(m.Topic, m.Payload, m.Retained))
		})
		if err == nil {
			_ = conn.Subscribe(dialing, s.topics.Root()+"/runs/+/stores/+", s.topics.Root()+"/runs/+/summary") // without it the connection has ended
			select {
			case <-conn.Done():
			case <-ctx.Done():
			}
			conn.Close()
		}
		cancel()
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// sample writes down what headquarters and the agents use, until ctx ends.
func (s *soak) sample(ctx context.Context) {
	agents := time.Now()
	var low trough
	every(ctx, sampleEvery, func() {
		if pid := s.hqPID.get(); pid > 0 {
			if sample, ok := history.Measure(pid); ok {
				raise(&s.tally.peakRSS, sample.RSSBytes)
				raise(&s.tally.peakDescriptors, int64(sample.Descriptors))
				s.failed(s.eye.sampled("headquarters", pid, sample))
				if least, ok := low.add(pid, sample, time.Now()); ok {
					s.failed(s.eye.sampled(overLives, 1, least))
				}
			}
		}
		if time.Since(agents) < agentEvery {
			return
		}
		agents = time.Now()
		for _, a := range s.agents {
			if pid := a.pid.get(); pid > 0 {
				if sample, ok := history.Measure(pid); ok {
					s.failed(s.eye.sampled("agent "+a.store, pid, sample))
				}
			}
		}
	})
}

// every does something again and again until ctx ends, for the first time after a
// while.
func every(ctx context.Context, while time.Duration, do func()) {
	tick := time.NewTicker(while)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}

// trough is the least that headquarters had in a while, from some time after its
// start: what is not given back shows there, and what a report takes does not.
type trough struct {
	pid         int
	born, begun time.Time
	least       history.Sample
}

const (
	grownUp    = 20 * time.Second
	troughLong = 15 * time.Second
)

func (t *trough) add(pid int, s history.Sample, now time.Time) (least history.Sample, whole bool) {
	if pid != t.pid {
		*t = trough{pid: pid, born: now}
	}
	if now.Sub(t.born) < grownUp {
		return least, false
	}
	if t.begun.IsZero() {
		t.begun, t.least = now, s
	}
	t.least.RSSBytes, t.least.Descriptors = min(t.least.RSSBytes, s.RSSBytes), min(t.least.Descriptors, s.Descriptors)
	t.least.Threads = min(t.least.Threads, s.Threads)
	if now.Sub(t.begun) < troughLong {
		return least, false
	}
	t.begun = time.Time{}
	return t.least, true
}

// looks are the report files that were seen in this epoch.
type looks struct {
	mu   sync.Mutex
	seen map[string]bool
}

// look writes down each report file that is new, or all that were seen before
// too.
func (s *soak) look(again bool) {
	s.looks.mu.Lock()
	defer s.looks.mu.Unlock()
	if s.looks.seen == nil || again {
		s.looks.seen = map[string]bool{}
	}
	root := os.DirFS(s.path("reports"))
	gone := func(err error) error { // a file that is still being made
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	s.failed(fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasPrefix(entry.Name(), ".") || checker.Changing(name) || s.looks.seen[name] {
			return gone(err)
		}
		content, err := fs.ReadFile(root, name)
		if err != nil {
			return gone(err)
		}
		s.looks.seen[name] = true
		return s.eye.looked(name, content)
	}))
}

func (s *soak) lookOn(ctx context.Context) {
	every(ctx, lookEvery, func() { s.look(false) })
}
