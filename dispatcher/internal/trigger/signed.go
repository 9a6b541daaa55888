package trigger

import (
	"time"

	"muster/dispatcher/internal/trigger/refuse"
)

// maxAhead is how far ahead the deadline of a signed request may lie: so long may
// a broker that is not believed hold it back, or send it again. It leaves a
// technician's clock ten minutes beside the five that dispatcher gives itself.
const maxAhead = 15 * time.Minute

// wantID refuses a request without an id where requests are signed.
func (t *Trigger) wantID(requestID string) error {
	if t.People.Signed() && requestID == "" {
		return refuse.IDWanted()
	}
	return nil
}

// wantDeadline refuses a request that could be used for long where requests are
// signed.
func (t *Trigger) wantDeadline(deadline int64) error {
	switch now := t.Now(); {
	case !t.People.Signed():
		return nil
	case deadline == 0:
		return refuse.DeadlineWanted(maxAhead)
	case deadline > now.Add(maxAhead).UnixMilli():
		return refuse.DeadlineFar(now, time.UnixMilli(deadline), maxAhead, t.Zone)
	}
	return nil
}

// inTime refuses what wantDeadline does, and what comes too late.
func (t *Trigger) inTime(deadline int64) error {
	if err := t.wantDeadline(deadline); err != nil {
		return err
	}
	return t.wishes.InTime(deadline)
}
