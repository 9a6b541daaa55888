package offer

import (
	"sync"

	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
)

// lane is the work of one share of the stores, done by one worker in order.
type lane struct {
	mu      sync.Mutex
	order   []string // task ids, the oldest first
	work    map[string]*work
	listing int                 // lists that are under way
	moved   map[string]struct{} // tasks that changed during the current list
	down    bool                // the last publish failed
	downC   chan struct{}       // closed while down
	wake    chan struct{}
}

// work is one topic to be brought up to date.
type work struct {
	store, task string
	settled     bool                // for good: withdraw without looking
	listed      *store.Task         // what the list saw; nil: look again
	made        *transport.Outbound // its offer, if it is made already
	holds       bool                // a place among the streamed
	wave        *wave               // that waits for it; nil: none
}

func newLane() *lane {
	return &lane{work: map[string]*work{}, moved: map[string]struct{}{}, downC: make(chan struct{}), wake: make(chan struct{}, 1)}
}

// mark says that a task changed: whatever a list saw of it is old.
func (l *lane) mark(storeID, taskID string, settled bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listing > 0 {
		l.moved[taskID] = struct{}{}
	}
	w := l.add(storeID, taskID)
	w.listed, w.made = nil, nil
	w.settled = w.settled || settled
}

// stream takes a task as a list saw it. It returns false when the task needs no
// place among the streamed: it waits already, or changed since the list began
// and is marked by that.
func (l *lane) stream(listed work) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.work[listed.task] != nil {
		return false
	}
	w := l.add(listed.store, listed.task)
	w.holds, w.wave = true, listed.wave
	if _, changed := l.moved[listed.task]; !changed {
		w.listed, w.made = listed.listed, listed.made
	}
	return true
}

func (l *lane) add(storeID, taskID string) *work {
	w := l.work[taskID]
	if w == nil {
		w = &work{store: storeID, task: taskID}
		l.work[taskID] = w
		l.order = append(l.order, taskID)
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
	return w
}

// take takes the oldest work out, or returns nil.
func (l *lane) take() *work {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.order) == 0 {
		return nil
	}
	w := l.work[l.order[0]]
	delete(l.work, l.order[0])
	l.order = l.order[1:]
	return w
}

func (l *lane) beginList() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listing++
}

// endList forgets what moved: what the list saw is now in the lane, where a
// mark finds it.
func (l *lane) endList() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listing--; l.listing == 0 {
		clear(l.moved)
	}
}

// setDown notes whether publishing works.
func (l *lane) setDown(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if down == l.down {
		return
	}
	l.down = down
	if down {
		close(l.downC)
	} else {
		l.downC = make(chan struct{})
	}
}

// failed returns a channel that is closed when publishing fails.
func (l *lane) failed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.downC
}
