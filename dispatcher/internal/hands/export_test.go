package hands

const (
	Most      = most
	RestAfter = restAfter
)

// Count is how many there are.
func (h *Hands) Count() int { return len(h.room) }
