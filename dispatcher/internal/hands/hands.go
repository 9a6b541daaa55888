// Package hands does the work of many connections on few goroutines.
package hands

import (
	"sync"
	"time"
)

const (
	// most is how many messages are taken in at a time: as many as share one
	// commit. Whoever comes later waits, and so does its connection alone.
	most = 512
	// restAfter is how long a hand waits for work before it goes.
	restAfter = 10 * time.Second
)

// Hands take in what connections bring, one message each. Taking in goes deep, and a
// goroutine keeps the stack that it once needed: 64 KiB for each connection of
// thousands, if each did it itself. Make them with New; safe for concurrent use.
type Hands struct {
	idle chan work     // a hand that waits takes from it
	room chan struct{} // one for each hand
	quit chan struct{}
	once sync.Once
	all  sync.WaitGroup
}

// work is what one hand is to do; done gets what it panicked with, or nil.
type work struct {
	do   func()
	done chan any
}

// New returns nobody yet: they come with the work.
func New() *Hands {
	return &Hands{idle: make(chan work), room: make(chan struct{}, most), quit: make(chan struct{})}
}

// Lend has a hand do the work, and returns when it is done. A panic in it is the
// caller's. Once the hands have stopped, the caller does it itself.
func (h *Hands) Lend(do func()) {
	w := work{do: do, done: make(chan any, 1)}
	select {
	case <-h.quit:
		do()
		return
	default:
	}
	select {
	case h.idle <- w:
	default:
		select {
		case h.idle <- w:
		case h.room <- struct{}{}:
			h.all.Go(func() { h.serve(w) })
		case <-h.quit:
			do()
			return
		}
	}
	if cause := <-w.done; cause != nil {
		panic(cause)
	}
}

// serve does the work, and whatever comes soon after it.
func (h *Hands) serve(w work) {
	defer func() { <-h.room }()
	rest := time.NewTimer(restAfter)
	defer rest.Stop()
	for {
		w.run()
		rest.Reset(restAfter)
		select {
		case w = <-h.idle:
		case <-rest.C:
			return
		case <-h.quit:
			return
		}
	}
}

func (w work) run() {
	defer func() { w.done <- recover() }()
	w.do()
}

// Stop waits for what is being done. It may be called twice.
func (h *Hands) Stop() {
	h.once.Do(func() { close(h.quit) })
	h.all.Wait()
}
