package alert

import (
	"fmt"

	"muster/dispatcher/internal/alarm"
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
		did, didZh := "it executed nothing of it", "终端没有执行"
		if c.Attempt.Executed {
			did, didZh = "it executed that, and its answer is kept for reading alone", "终端已执行，其结果仅留存备查"
		}
		topic := a.Sender.Topics().Offer(c.Attempt.StoreID, c.Attempt.TaskID)
		a.Raise(protocol.SeverityCritical, alarmWrongOffer, subject, &alarm.Trouble{
			En: fmt.Sprintf("task %s, attempt %d of run %s at store %s: the terminal holds other content under that task than headquarters offered; %s. "+
				"Somebody publishes in headquarters' place, or it was restored from a backup: see who may publish on %s at the broker (%d more alarms left out)",
				c.Attempt.TaskID, c.Attempt.Attempt, c.RunID, c.Attempt.StoreID, did, topic, left),
			Zh: fmt.Sprintf("批次 %s，任务 %s，第 %d 次尝试，主题 %s；%s（另有 %d 条告警未发出）",
				c.RunID, c.Attempt.TaskID, c.Attempt.Attempt, topic, didZh, left)})
	}
}
