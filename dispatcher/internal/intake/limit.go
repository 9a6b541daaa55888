package intake

import "time"

// Limit changes how many uploads are called for at once and the budget of their
// bytes, which Config gave. Those that were called for go on.
func (i *Intake) Limit(inFlight int, bytesPerSecond float64, burstBytes int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.cfg.InFlight, i.cfg.BytesPerSecond, i.cfg.BurstBytes = inFlight, bytesPerSecond, burstBytes
	i.tokens.Set(bytesPerSecond, burstBytes, time.Now())
	i.signal()
}
