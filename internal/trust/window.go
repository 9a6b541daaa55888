package trust

import (
	"fmt"
	"sync"
)

// Window refuses the numbers of one sender that were seen before. It keeps a
// bit for each of the newest numbers; what lies below them counts as seen
// (RFC 4303, section 3.4.3). No clock takes part. Safe for concurrent use; call
// NewWindow.
type Window struct {
	mu      sync.Mutex
	highest int64
	bits    []uint64 // bit n%len of number n, for highest-len < n <= highest
}

// NewWindow returns a window over the newest size numbers, at least 64, rounded
// up to a multiple of it. Numbers up to floor count as seen.
func NewWindow(size int, floor int64) *Window {
	words := max(1, (size+63)/64)
	w := &Window{highest: floor, bits: make([]uint64, words)}
	for i := range w.bits {
		w.bits[i] = ^uint64(0)
	}
	return w
}

// MaxNumber is the highest number that a sender may reach: the last up to which
// every JSON reader counts exactly. At one a microsecond it comes in the year
// 2255.
const MaxNumber = 1 << 53

// Take marks a number as seen. It fails with ErrReplayed when it was already,
// or is none of 1 to MaxNumber.
func (w *Window) Take(number int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	size := int64(len(w.bits)) * 64
	if number <= 0 || number > MaxNumber || number <= w.highest-size {
		return fmt.Errorf("number %d, newest %d: %w", number, w.highest, ErrReplayed)
	}
	if number > w.highest {
		if number-w.highest >= size {
			clear(w.bits)
		} else {
			for n := w.highest + 1; n <= number; n++ {
				w.clear(n)
			}
		}
		w.highest = number
	}
	word, bit := w.place(number)
	if w.bits[word]&bit != 0 {
		return fmt.Errorf("number %d, newest %d: %w", number, w.highest, ErrReplayed)
	}
	w.bits[word] |= bit
	return nil
}

// GiveBack marks a number as not seen: what it numbered was not taken in and
// will come again.
func (w *Window) GiveBack(number int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if number > w.highest-int64(len(w.bits))*64 && number <= w.highest {
		w.clear(number)
	}
}

// Highest is the newest number taken, or the floor.
func (w *Window) Highest() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.highest
}

func (w *Window) clear(number int64) {
	word, bit := w.place(number)
	w.bits[word] &^= bit
}

func (w *Window) place(number int64) (word int64, bit uint64) {
	at := number % (int64(len(w.bits)) * 64)
	return at / 64, 1 << (at % 64)
}
