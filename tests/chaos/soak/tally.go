package main

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// syncInt is a number that goroutines share; 0 means none.
type syncInt struct{ n atomic.Int64 }

func (i *syncInt) set(n int) { i.n.Store(int64(n)) }
func (i *syncInt) get() int  { return int(i.n.Load()) }

// tally is what the report counts. Safe for concurrent use.
type tally struct {
	starts, noRoom, requests, unanswered, refused atomic.Int64
	accepted, rejected                            atomic.Int64 // receipts of simulated terminals
	peakRSS, peakDescriptors                      atomic.Int64

	mu     sync.Mutex
	waited []int32 // milliseconds from the first sending of an answer to its receipt
	done   map[fault]int
	busy   time.Duration // of headquarters' processes that have ended
}

func (t *tally) receipted(waited time.Duration, accepted bool) {
	if !accepted {
		t.rejected.Add(1)
		return
	}
	t.accepted.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waited = append(t.waited, int32(min(waited.Milliseconds(), 1<<30)))
}

func (t *tally) count(what fault) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done == nil {
		t.done = map[fault]int{}
	}
	t.done[what]++
}

func (t *tally) counted(what fault) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.done[what]
}

// used adds what an ending process has used of the processors.
func (t *tally) used(pid int) {
	took := processorTime(pid)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy += took
}

// usedSoFar is that of all headquarters' processes, the running one included.
func (t *tally) usedSoFar(pid int) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.busy + processorTime(pid)
}

// percentile of the waits for receipts, in percent.
func (t *tally) percentile(p float64) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waited) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(t.waited))
	return time.Duration(sorted[min(len(sorted)-1, int(p/100*float64(len(sorted))))]) * time.Millisecond
}

func raise(peak *atomic.Int64, to int64) {
	for {
		was := peak.Load()
		if to <= was || peak.CompareAndSwap(was, to) {
			return
		}
	}
}
