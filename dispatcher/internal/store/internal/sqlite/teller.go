package sqlite

import "sync"

// teller calls what was queued, in order, from one goroutine of its own. The
// writer never waits for it: whoever is told may hold a lock that another of
// its goroutines keeps while it waits for a write.
type teller struct {
	mu    sync.Mutex
	queue []func()
	wake  chan struct{} // holds a token while the queue may not be empty
	ended chan struct{}
}

func startTeller() *teller {
	t := &teller{wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go t.loop()
	return t
}

// tell queues what is to be called. It must not be called after stop.
func (t *teller) tell(f ...func()) {
	if len(f) == 0 {
		return
	}
	t.mu.Lock()
	t.queue = append(t.queue, f...)
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default: // a token lies there already
	}
}

// stop returns once everything queued was called.
func (t *teller) stop() {
	close(t.wake)
	<-t.ended
}

func (t *teller) loop() {
	defer close(t.ended)
	for range t.wake {
		t.mu.Lock()
		queue := t.queue
		t.queue = nil
		t.mu.Unlock()
		for _, f := range queue {
			f()
		}
	}
}
