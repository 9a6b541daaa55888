package crowd

import (
	"time"

	"muster/internal/trust"
)

// AppendPublish is a PUBLISH as the crowd writes it.
func AppendPublish(topic string, payload []byte, id uint16, s trust.Signature) []byte {
	return appendPublish(nil, topic, payload, id, s)
}

// ReadPublish takes a PUBLISH without its fixed header apart.
func ReadPublish(first byte, body []byte) (topic string, payload []byte, id uint16, s trust.Signature, err error) {
	m, err := parsePublish(packet{first, body})
	if err != nil {
		return "", nil, 0, s, err
	}
	s, err = m.signature()
	return string(m.topic), m.payload, m.id, s, err
}

// Say is a claim, a start and a result of the first terminal.
func (c *Crowd) Say(taskID, offer string, attempt int, now time.Time) (claim, start, result []byte) {
	t, d := c.all[0], &duty{id: taskID, offer: offer, attempt: attempt}
	return t.claimOf(nil, d, now), t.startOf(nil, d, now), t.resultOf(nil, d, now)
}

// Member is the value of a member of a payload.
func Member(payload []byte, name string) string { return string(member(payload, name)) }
