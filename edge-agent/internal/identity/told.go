package identity

import (
	"time"

	"muster/internal/protocol"
	"muster/internal/trust"
)

// told is headquarters' time as it told it to this process. The zero value is
// "not yet".
type told struct {
	at    time.Time
	since time.Time // monotonic
}

func (t told) now() time.Time { return t.at.Add(time.Since(t.since)) }

// Hear takes in when headquarters said something, once it is proven that it did. A
// message that is old proves nothing new. Others are left to whoever acts on them.
func (i *Identity) Hear(topic string, payload []byte, s trust.Signature) {
	key, err := i.Document().Verify(topic, payload, s)
	if err != nil {
		return
	}
	var said protocol.Meta
	if err := protocol.Decode(payload, protocol.MaxPayloadBytes, &said); err != nil || !key.Covers(said.At.Time) {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.told.at.IsZero() || said.At.After(i.told.now()) {
		i.told = told{at: said.At.Time, since: time.Now()}
	}
}

// Now is the time by which the age of the certificate is counted: headquarters',
// as far as this process was told of it, else what the terminal's own clock shows.
// Nobody is believed by it: who holds messages back could make it too early.
func (i *Identity) Now(wall time.Time) time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.told.at.IsZero() {
		return wall
	}
	return i.told.now()
}
