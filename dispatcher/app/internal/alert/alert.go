// Package alert tells operators what needs them, and when it is over: on the topics of
// alarms, in the log, and to whoever asks how headquarters is.
package alert

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"muster/dispatcher/app/internal/measure"
	"muster/dispatcher/internal/alarm"
	"muster/dispatcher/internal/intake"
	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/transport"
	"muster/internal/logs"
	"muster/internal/protocol"
)

// Alerts raises alarms. Safe for concurrent use once its fields are set.
type Alerts struct {
	Sender   *transport.Sender // never blocks
	Book     *alarm.Book       // of alarms that are not over, across a restart
	Troubles alarm.Troubles    // for who asks
	Meter    *measure.Meter
	Now      func() time.Time
	Zone     *time.Location // in which people read times
	Logger   *slog.Logger

	belied logs.Sparing // an offer that another one replaced
	bans   bans
}

// Raise tells operators of a trouble with something, and with a nil error that it is
// over. kind is one of package alarm's.
func (a *Alerts) Raise(severity protocol.Severity, kind, subject string, trouble error) {
	said := protocol.Alarm{Meta: a.Sender.Meta(), Kind: kind, Recovered: trouble == nil}
	said.Message, said.MessageZh = alarm.Says(kind, subject, trouble)
	if err := a.Book.Note(alarm.Alarm{Severity: severity, Kind: kind, Subject: subject}, trouble == nil); err != nil {
		a.Logger.Warn("a restart will not know of an alarm", "kind", kind, "subject", subject, "error", err)
	}
	if trouble == nil {
		a.Logger.Info("the trouble is over", "kind", kind, "subject", subject)
	} else {
		a.Logger.Error("trouble needs a person", "kind", kind, "subject", subject, "error", trouble)
		said.Hint, said.HintZh = alarm.Hint(kind)
		a.Meter.Alarm(severity, kind)
	}
	topic := a.Sender.Topics().Alarm(severity, kind)
	if err := a.Sender.JSON(context.Background(), topic, said, transport.Options{}); err != nil {
		a.Logger.Error("cannot publish an alarm", "kind", kind, "error", err)
	}
}

// OfRun tells operators of a trouble with a run that needs a person, and with a
// nil error that it is over.
func (a *Alerts) OfRun(kind, runID string, trouble error) {
	a.Troubles.Note(kind, "run "+runID, trouble)
	a.Raise(protocol.SeverityCritical, kind, "run "+runID, trouble)
}

// OfAnswer tells operators of an answer that is not as it should be:
// critical where headquarters, not its sender, is at fault.
func (a *Alerts) OfAnswer(kind, subject string, trouble error) {
	severity := protocol.SeverityWarning
	if kind == quarantine.AlarmPanicked || kind == intake.AlarmQuarantined {
		severity = protocol.SeverityCritical
	}
	a.Raise(severity, kind, subject, trouble)
}

// About tells operators of a trouble with something that is no run.
func (a *Alerts) About(kind, subject string, trouble error) {
	a.Raise(protocol.SeverityWarning, kind, subject, trouble)
}

// alarmReload is the kind of the alarm that what should be taken in without a
// restart is wrong, and that the old stays in force.
const alarmReload = "reload_refused"

// ReloadRefused tells operators why a reload took nothing in, and with nil, if they
// were told before, that it is over.
func (a *Alerts) ReloadRefused(trouble error) {
	if trouble == nil && !a.Troubles.Open(alarmReload, "configuration") {
		return
	}
	a.Troubles.Note(alarmReload, "configuration", trouble)
	a.Raise(protocol.SeverityWarning, alarmReload, "configuration", trouble)
}

// oldEnd is how long after a start the alarms of the life before end that are not
// raised again: what still fails has failed twice by then, and whoever watches has
// connected again.
const oldEnd = 15 * time.Second

// EndOld tells of what the life before raised, and this one does not, that it is over.
// It begins when welcome returns, and returns what ends the wait.
func (a *Alerts) EndOld(ctx context.Context, welcome func(context.Context) error) func() error {
	if len(a.Book.Before()) == 0 {
		return func() error { return nil }
	}
	waiting, stop := context.WithCancel(ctx)
	var waited sync.WaitGroup
	waited.Go(func() {
		if welcome(waiting) != nil {
			return
		}
		select {
		case <-waiting.Done():
			return
		case <-time.After(oldEnd):
		}
		for _, one := range a.Book.Before() {
			a.Raise(one.Severity, one.Kind, one.Subject, nil)
		}
	})
	return func() error { stop(); waited.Wait(); return nil }
}
