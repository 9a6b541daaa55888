package app

import (
	"context"
	"fmt"
	"sync"
	"time"

	"muster/broker/server"
	"muster/dispatcher/config"
	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
)

// alarmReload is the kind of the alarm that what should be taken in without a
// restart is wrong, and that the old stays in force.
const alarmReload = "reload_refused"

// reloadRefused tells operators why a reload took nothing in, and with nil, if they
// were told before, that it is over.
func (hq *headquarters) reloadRefused(trouble error) {
	if trouble == nil && !hq.troubles.Open(alarmReload, "configuration") {
		return
	}
	hq.troubles.Note(alarmReload, "configuration", trouble)
	hq.raise(protocol.SeverityWarning, alarmReload, "configuration", trouble)
}

// oldEnd is how long after a start the alarms of the life before end that are not
// raised again: what still fails has failed twice by then, and whoever watches has
// connected again.
const oldEnd = 15 * time.Second

// endOld tells of what the life before raised, and this one does not, that it is over.
// It returns what ends the wait.
func (hq *headquarters) endOld(ctx context.Context) func() error {
	if len(hq.raised.Before()) == 0 {
		return func() error { return nil }
	}
	waiting, stop := context.WithCancel(ctx)
	var waited sync.WaitGroup
	waited.Go(func() {
		if hq.awaitWelcome(waiting) != nil {
			return
		}
		select {
		case <-waiting.Done():
			return
		case <-time.After(oldEnd):
		}
		for _, a := range hq.raised.Before() {
			hq.raise(a.Severity, a.Kind, a.Subject, nil)
		}
	})
	return func() error { stop(); waited.Wait(); return nil }
}

// newWard is where steps do what may be headquarters' own fault.
func (hq *headquarters) newWard() *quarantine.Ward {
	return &quarantine.Ward{Logger: hq.log, Now: hq.now, Alarm: func(kind, subject string, trouble error) {
		hq.raise(protocol.SeverityCritical, kind, subject, trouble)
	}}
}

// alarmSetAside is the kind of the alarm that headquarters ended over one message
// again and again, and looks into it no more.
const alarmSetAside = "message_quarantined"

// begin is called before a message is looked into, and done after it, with what
// came of it. A nil done says that it must not be: headquarters ended over it
// quarantine.MaxDeaths times, and its bytes would end it again with every start.
// Answers are left to intake, which knows them by what they say.
func (hq *headquarters) begin(ctx context.Context, addr protocol.Address, in transport.Inbound) (done func(error), err error) {
	if !hq.comesAgain(addr) {
		return func(error) {}, nil
	}
	message := quarantine.Message(in.Topic, in.Payload)
	if tries := hq.aside.Tries(message); tries >= quarantine.MaxDeaths {
		return nil, hq.setAside(ctx, addr, in, message, tries)
	}
	end := hq.aside.Judging(message)
	return func(err error) {
		end()
		if err == nil {
			hq.aside.Forgive(message)
		}
	}, nil
}

// comesAgain says whether the very bytes of a message come again after a crash:
// an external broker keeps what was not acknowledged, and so do the clients of
// technicians. A terminal says everything but its answer anew.
func (hq *headquarters) comesAgain(addr protocol.Address) bool {
	return addr.Area == protocol.AreaRequest || hq.cfg.Transport == config.TransportMQTT && addr.Kind != protocol.KindResult
}

// setAside keeps a message for reading, and acknowledges it. Sent once more, it
// is tried anew, unless the broker retains it.
func (hq *headquarters) setAside(ctx context.Context, addr protocol.Address, in transport.Inbound, message quarantine.Answer, tries int) error {
	place := "it was kept before"
	if tries == quarantine.MaxDeaths {
		hq.aside.Broke(message) // a retained one is kept once
		name, err := hq.aside.Keep(quarantine.Answer{TaskID: string(addr.Verb) + string(addr.Kind)}, in.Payload, hq.now())
		place = "it is kept in " + name
		if err != nil {
			place = err.Error()
		}
	}
	if !in.Retained {
		hq.aside.Forgive(message)
	}
	hq.raise(protocol.SeverityCritical, alarmSetAside, in.Topic, fmt.Errorf(
		"headquarters ended %d times while it worked on this message, and does not take it in; %s", tries, place))
	if addr.Area != protocol.AreaRequest {
		return nil
	}
	return hq.trigger.Decline(ctx, addr, in)
}

// alarmWrongOffer is the kind of the alarm that a terminal got other content under
// a task's name than headquarters offered.
const alarmWrongOffer = "wrong_offer"

// offersBelied follows the store's change feed, and tells operators of attempts
// that ended over another offer; of each terminal one a minute.
func (hq *headquarters) offersBelied(changes []store.Change) {
	for _, c := range changes {
		if c.Kind != store.TaskMoved || c.Attempt == nil || c.Attempt.Failure == nil || c.Attempt.Failure.Code != protocol.CodeWrongOffer {
			continue
		}
		subject := c.Attempt.StoreID + "/" + c.Attempt.TerminalID
		left, due := hq.belied.Due(subject, hq.now())
		if !due {
			continue
		}
		did := "it executed nothing of it"
		if c.Attempt.Executed {
			did = "it executed that, and its answer is kept for reading alone"
		}
		hq.raise(protocol.SeverityCritical, alarmWrongOffer, subject, fmt.Errorf(
			"task %s, attempt %d of run %s at store %s: the terminal holds other content under that task than headquarters offered; %s. "+
				"Somebody publishes in headquarters' place, or it was restored from a backup: see who may publish on %s at the broker (%d more alarms left out)",
			c.Attempt.TaskID, c.Attempt.Attempt, c.RunID, c.Attempt.StoreID, did, hq.topics.Offer(c.Attempt.StoreID, c.Attempt.TaskID), left))
	}
}

// alarmBanned is the kind of the alarm that the broker keeps somebody out.
const alarmBanned = "client_banned"

// banned tells operators whom the broker keeps out, and when that is over.
func (hq *headquarters) banned(b server.Ban) {
	subject := b.User
	if b.ClientID != b.User {
		subject += " as client " + b.ClientID
	}
	until := hq.now().Add(b.For).UTC().Format(time.RFC3339)
	tell := func(trouble error) {
		hq.troubles.Note(alarmBanned, subject, trouble)
		hq.raise(protocol.SeverityWarning, alarmBanned, subject, trouble)
	}
	tell(fmt.Errorf("it connected again and again, so the broker keeps it out until %s: two machines have its identity, or its "+
		"program starts over and over; stop the one that does not belong there", until))
	hq.bans.end(b.For, func() { tell(nil) })
}

// bans calls the ends of bans until it is stopped. The zero value is ready; safe
// for concurrent use.
type bans struct {
	mu      sync.Mutex
	pending map[*time.Timer]struct{}
	stopped bool
}

// end calls tell after a time.
func (b *bans) end(after time.Duration, tell func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return
	}
	if b.pending == nil {
		b.pending = map[*time.Timer]struct{}{}
	}
	var timer *time.Timer
	timer = time.AfterFunc(after, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if _, waits := b.pending[timer]; waits {
			delete(b.pending, timer)
			tell()
		}
	})
	b.pending[timer] = struct{}{}
}

// stop returns when nothing more is called.
func (b *bans) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = true
	for timer := range b.pending {
		timer.Stop()
	}
	clear(b.pending)
}
