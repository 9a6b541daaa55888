package quarantine

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
)

// MaxDeaths is how often headquarters may end while it works on one message.
const MaxDeaths = 3

// Message names a message that is no answer by its topic and bytes: that is what
// a broker, or a client that resends, brings again.
func Message(topic string, payload []byte) Answer {
	h := sha256.New()
	_, _ = h.Write(append([]byte(topic), 0)) // a hash takes everything
	_, _ = h.Write(payload)
	return Answer{SHA256: hex.EncodeToString(h.Sum(nil))}
}

// Forgive forgets how often headquarters broke on the answer. It costs nothing
// when it never did.
func (q *Quarantine) Forgive(a Answer) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := q.find(a); i >= 0 {
		q.counts = slices.Delete(q.counts, i, i+1)
		q.writeCounts()
	}
}
