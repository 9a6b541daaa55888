package alert

import (
	"fmt"
	"sync"
	"time"

	"muster/broker/server"
	"muster/dispatcher/internal/alarm"
	"muster/internal/protocol"
)

// alarmBanned is the kind of the alarm that the broker keeps somebody out.
const alarmBanned = "client_banned"

// Banned tells operators whom the broker keeps out, and when that is over.
func (a *Alerts) Banned(b server.Ban) {
	subject := b.User
	if b.ClientID != b.User {
		subject += " as client " + b.ClientID
	}
	until := a.Now().Add(b.For).In(a.Zone).Format(protocol.Clock)
	tell := func(trouble error) {
		a.Troubles.Note(alarmBanned, subject, trouble)
		a.Raise(protocol.SeverityWarning, alarmBanned, subject, trouble)
	}
	tell(&alarm.Trouble{
		En: fmt.Sprintf("it connected again and again, so the broker keeps it out until %s: two machines have its identity, or its "+
			"program starts over and over; stop the one that does not belong there", until),
		Zh: fmt.Sprintf("到 %s 为止", until)})
	a.bans.end(subject, b.For, func() { tell(nil) })
}

// Stop ends the wait for the ends of bans.
func (a *Alerts) Stop() { a.bans.stop() }

// bans calls the ends of bans until it is stopped. The zero value is ready; safe
// for concurrent use.
type bans struct {
	mu      sync.Mutex
	pending map[string]*time.Timer // by subject
	stopped bool
}

// end calls tell after a time, in place of what was to be told of the subject before:
// one that is banned again is kept out until the newest ban ends.
func (b *bans) end(subject string, after time.Duration, tell func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return
	}
	if b.pending == nil {
		b.pending = map[string]*time.Timer{}
	}
	if older := b.pending[subject]; older != nil {
		older.Stop()
	}
	var timer *time.Timer
	timer = time.AfterFunc(after, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.pending[subject] == timer {
			delete(b.pending, subject)
			tell()
		}
	})
	b.pending[subject] = timer
}

// stop returns when nothing more is called.
func (b *bans) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
	for _, timer := range b.pending {
		timer.Stop()
	}
	clear(b.pending)
}
