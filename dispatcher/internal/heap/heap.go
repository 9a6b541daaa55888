// Package heap lets the garbage of a small headquarters wait.
//
// The collector runs when the heap has doubled, and reads the stack of every
// connection each time. With little alive that is every few hundred tasks. Here it
// waits for a size that any machine has, or until the heap has tripled; a heap of which
// half of that size is alive is collected as it always was. The package knows nothing of
// what is in the heap.
package heap

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

const (
	// Size is what a heap may grow to before it is collected, in bytes: what
	// headquarters of a few thousand terminals needs anyway.
	Size = 128 << 20
	// usual is the collector's own setting, in percent of what is alive.
	usual = 100
	// most bounds the setting: what was set for a small heap is in force for a moment
	// after it has become a large one, as it does when many log in by password at once.
	most = 200
)

// what is asked of the runtime.
const (
	liveHeap = iota
	stacks
	globals
)

// holder sets the collector anew after each collection.
type holder struct {
	size uint64

	mu       sync.Mutex
	asked    []metrics.Sample
	percent  int
	released bool
}

// Hold has the heap grow to size bytes before it is collected, until the returned
// function is called. It changes nothing where GOGC or GOMEMLIMIT is set. The setting
// is the process's, so there should be one holder.
func Hold(size uint64) (release func()) {
	for _, own := range []string{"GOGC", "GOMEMLIMIT"} {
		if os.Getenv(own) != "" {
			return func() {}
		}
	}
	h := &holder{size: size, percent: usual, asked: []metrics.Sample{
		liveHeap: {Name: "/gc/heap/live:bytes"}, stacks: {Name: "/gc/scan/stack:bytes"}, globals: {Name: "/gc/scan/globals:bytes"}}}
	h.adjust()
	return h.release
}

// adjust sets how far the heap may grow now, and comes back after the next
// collection: that finds the mark that nobody holds.
func (h *holder) adjust() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.released {
		return
	}
	metrics.Read(h.asked)
	live := h.asked[liveHeap].Value.Uint64()
	h.set(percentFor(h.size, live, live+h.asked[stacks].Value.Uint64()+h.asked[globals].Value.Uint64()))
	runtime.AddCleanup(&mark{h}, (*holder).adjust, h)
}

// mark is an object of its own: without a pointer it would share one.
type mark struct{ _ *holder }

// percentFor is the setting with which a heap of which so much is alive grows to size:
// the collector adds that part of all that it has to read.
func percentFor(size, live, read uint64) int {
	if live >= size || read == 0 {
		return usual
	}
	return int(min(max((size-live)*100/read, usual), most))
}

func (h *holder) set(percent int) {
	if percent != h.percent {
		h.percent = percent
		debug.SetGCPercent(percent)
	}
}

func (h *holder) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.released = true
	h.set(usual)
}
