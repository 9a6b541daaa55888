package grant

import "time"

// Limit changes the cap on what runs and the budget of grants, which Config gave.
// What runs goes on, also above a lower cap.
func (a *Admission) Limit(maxRunning int, perSecond float64, burst int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cfg.MaxRunning, a.cfg.PerSecond, a.cfg.Burst = maxRunning, perSecond, burst
	a.tokens.Set(perSecond, burst, time.Now())
	signal(a.admitWake)
}
