package measure

import "muster/dispatcher/internal/metrics"

// Raised are the samples of the alarms.
func (m *Meter) Raised() []metrics.Sample {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.raised()
}
