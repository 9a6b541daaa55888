package app

const (
	MaxHands  = maxHands
	RestAfter = restAfter
)

// Hands takes in messages.
type Hands struct{ *hands }

// NewHands returns nobody yet.
func NewHands() Hands { return Hands{newHands()} }

// Lend has a hand do the work.
func (h Hands) Lend(do func()) { h.lend(do) }

// Stop waits for what is being done.
func (h Hands) Stop() { h.stop() }

// Count is how many there are.
func (h Hands) Count() int { return len(h.room) }
