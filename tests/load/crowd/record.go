package crowd

import (
	"slices"
	"sync/atomic"
	"time"
)

// moments are when something happened, without a lock: what is beyond the room
// that was made is only counted.
type moments struct {
	n  *atomic.Int64
	at []int64 // Unix nanoseconds
}

func newMoments(room int) moments { return moments{new(atomic.Int64), make([]int64, room)} }

// add notes a moment and returns how many there are.
func (m moments) add(now time.Time) int64 {
	n := m.n.Add(1)
	if n <= int64(len(m.at)) {
		atomic.StoreInt64(&m.at[n-1], now.UnixNano())
	}
	return n
}

// since are the milliseconds that passed until each moment, in order.
func (m moments) since(begin time.Time) sorted {
	out := make(sorted, 0, len(m.at))
	for i := range min(m.n.Load(), int64(len(m.at))) {
		out = append(out, float64(atomic.LoadInt64(&m.at[i])-begin.UnixNano())/1e6)
	}
	slices.Sort(out)
	return out
}

type sorted []float64

// at is the value that a share of all does not exceed; 0 when there is none.
func (s sorted) at(share float64) float64 {
	if len(s) == 0 {
		return 0
	}
	return s[min(len(s)-1, int(share*float64(len(s))))]
}
