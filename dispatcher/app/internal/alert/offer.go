package alert

import (
	"fmt"

	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
)

// alarmWrongOffer is the kind of the alarm that a terminal got other content under
// a task's name than headquarters offered.
const alarmWrongOffer = "wrong_offer"

// OffersBelied follows the store's change feed, and tells operators of attempts
// that ended over another offer; of each terminal one a minute.
func (a *Alerts) OffersBelied(changes []store.Change) {
	for _, c := range changes {
		if c.Kind != store.TaskMoved || c.Attempt == nil || c.Attempt.Failure == nil || c.Attempt.Failure.Code != protocol.CodeWrongOffer {
			continue
		}
		subject := c.Attempt.StoreID + "/" + c.Attempt.TerminalID
		left, due := a.belied.Due(subject, a.Now())
		if !due {
			continue
		}
		did := "it executed nothing of it"
		if c.Attempt.Executed {
			did = "it executed that, and its answer is kept for reading alone"
		}
		a.Raise(protocol.SeverityCritical, alarmWrongOffer, subject, fmt.Errorf(
			"task %s, attempt %d of run %s at store %s: the terminal holds other content under that task than headquarters offered; %s. "+
				"Somebody publishes in headquarters' place, or it was restored from a backup: see who may publish on %s at the broker (%d more alarms left out)",
			c.Attempt.TaskID, c.Attempt.Attempt, c.RunID, c.Attempt.StoreID, did, a.Sender.Topics().Offer(c.Attempt.StoreID, c.Attempt.TaskID), left))
	}
}
