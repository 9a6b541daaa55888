package transport

import "time"

// ReconnectDelay is the pause before an attempt to connect, counted from 0.
func (m *MQTT) ReconnectDelay(attempt int) time.Duration { return m.reconnectDelay(attempt) }

// TakenOver tells whether the session was ever taken over.
func (m *MQTT) TakenOver() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.taken.IsZero()
}
