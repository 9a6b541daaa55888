package app

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"muster/dispatcher/internal/alarm"
	"muster/dispatcher/internal/clock"
	"muster/internal/protocol"
)

// alarmClock is the kind of the alarm that this machine's clock was set while
// something hung on headquarters' time.
const alarmClock = "clock_stepped"

// watchClock has headquarters' time follow the wall, and tells operators when it
// cannot yet.
func (hq *headquarters) watchClock(ctx context.Context) {
	hq.clock.Start(ctx, clock.Watch{Hanging: hq.hanging, Told: hq.clockSaid(), Stepped: hq.stepped, Logger: hq.log, Ward: hq.ward})
}

// hanging says what hangs on headquarters' time and is not due by the given moment,
// "" when nothing does. A grant that is on its way is not in the store yet.
func (hq *headquarters) hanging(ctx context.Context, by time.Time) (string, error) {
	if now := hq.grant.Stats(); now.Waiting+now.Running > 0 {
		return fmt.Sprintf("%d claims wait, %d attempts run", now.Waiting, now.Running), nil
	}
	return hq.store.Hanging(ctx, by)
}

// stepped writes down that times before and after do not follow each other.
func (hq *headquarters) stepped(by time.Duration) {
	hq.log.Warn("headquarters' time stepped with the clock of this machine", "by", by.String())
	if err := hq.store.Audit(context.Background(), "headquarters", alarmClock, "headquarters' time", "by "+by.String(), hq.now()); err != nil {
		hq.log.Error("a step of the clock cannot be audited", "error", err)
	}
}

// clockSaid returns what raises the alarm. A step is a warning, since nothing is
// wrong but times that are shown; one that stays is critical. Each that was raised
// is taken back.
func (hq *headquarters) clockSaid() func(step *clock.Step) {
	var critical atomic.Bool
	return func(step *clock.Step) {
		switch {
		case step == nil:
			hq.alerts.Raise(protocol.SeverityWarning, alarmClock, "headquarters' time", nil)
			if critical.Swap(false) {
				hq.alerts.Raise(protocol.SeverityCritical, alarmClock, "headquarters' time", nil)
			}
		case step.Long:
			critical.Store(true)
			hq.alerts.Raise(protocol.SeverityCritical, alarmClock, "headquarters' time", stood(step))
		default:
			hq.alerts.Raise(protocol.SeverityWarning, alarmClock, "headquarters' time", stood(step))
		}
	}
}

// stood is a step in both languages.
func stood(step *clock.Step) error {
	side, then := "快", "不再有事项依赖总部时间时改用本机时钟"
	if step.By < 0 {
		side = "慢"
	}
	if step.Stays {
		then = "两天以上的偏差不会自动采用：请校准本机时钟；若它是对的，请重启总部"
	}
	return &alarm.Trouble{En: step.Error(), Zh: fmt.Sprintf("本机时钟比总部时间%s %s；%s", side, step.By.Abs().Round(time.Millisecond), then)}
}

// clockStands says how the clock of this machine stands beside headquarters'
// time, "" when they agree.
func (hq *headquarters) clockStands() string {
	if step := hq.clock.Step(); step != nil {
		return step.Error()
	}
	return ""
}
