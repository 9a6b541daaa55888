package agent

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"muster/edge-agent/internal/agent/ending"
	"muster/edge-agent/internal/journal"
	"muster/internal/protocol"
	"muster/internal/task"
)

// protocolVersion is the version of the messages that this agent speaks.
const protocolVersion = 1

const (
	// helloAgain is how soon a hello without an answer is followed by the next
	// one, twice as long each time, up to resendFrom: on an external broker
	// headquarters may not have subscribed yet, and the first is lost.
	helloAgain = time.Second
	// nudged bounds the wait before the answer to a headquarters that asks for a
	// hello, spread because it asks a thousand terminals at once.
	nudged = 2 * time.Second
	// maxHellos bounds the hellos that a sync may still answer. Headquarters may
	// be away for weeks while the broker lives.
	maxHellos = 16
)

// sayHello asks headquarters for a sync and says what is held here. The number of
// a hello without an answer may be one that another machine with this identity
// used, so the next one goes on from the clock.
func (a *Agent) sayHello(now time.Time) {
	if a.unanswered > 0 {
		a.cfg.Stamp.Advance()
	}
	meta := a.cfg.Stamp.Meta()
	hello := protocol.Hello{Meta: meta, AgentVersion: a.cfg.Version, Protocols: []int{protocolVersion},
		Jobs: []protocol.JobVersion{}, Labels: a.cfg.Labels, Open: []protocol.OpenTask{}, ClockMs: a.wall().UnixMilli(), Instance: a.instance}
	if a.cfg.Identity != nil {
		hello.OrderSeq = a.window.Highest()
	}
	for job := range a.cfg.Jobs {
		hello.Jobs = append(hello.Jobs, job)
	}
	slices.SortFunc(hello.Jobs, func(x, y protocol.JobVersion) int {
		if x.Type != y.Type {
			return strings.Compare(x.Type, y.Type)
		}
		return x.Version - y.Version
	})
	for _, w := range a.tasks {
		hello.Open = append(hello.Open, a.openTask(w))
	}
	slices.SortFunc(hello.Open, func(x, y protocol.OpenTask) int {
		return cmp.Or(cmp.Compare(y.Attempt, x.Attempt), strings.Compare(x.TaskID, y.TaskID))
	})
	if len(hello.Open) > maxHello {
		hello.Open, hello.Partial = hello.Open[:maxHello], true
	}
	if a.send(protocol.KindHello, hello) {
		a.noteHello(meta.ID, now)
		a.log.Debug("hello is said", "open", len(hello.Open), "unanswered", a.unanswered)
	}
	a.helloAt = now.Add(helloAfter(a.unanswered))
	a.later(a.helloAt, now)
}

// noteHello remembers a hello until its sync comes, the newest ones alone.
func (a *Agent) noteHello(id string, now time.Time) {
	a.unanswered++
	a.hellos[id] = now
	for len(a.hellos) > maxHellos {
		oldest := id
		for other, sent := range a.hellos {
			if sent.Before(a.hellos[oldest]) {
				oldest = other
			}
		}
		delete(a.hellos, oldest)
	}
}

// helloAfter is how long to wait for a sync after so many hellos without one: 1,
// 2, 4, 8 s and, as for everything else, 15 to 30 s from then on; each half as
// long again at most, so that terminals do not speak in step.
func helloAfter(unanswered int) time.Duration {
	wait := helloAgain << max(0, min(unanswered-1, 10))
	if wait >= resendFrom {
		return resendAfter()
	}
	return wait + rand.N(wait/2)
}

// helloSoon brings the next hello forward, unless it is due earlier anyway.
func (a *Agent) helloSoon(now time.Time) {
	at := now.Add(rand.N(nudged))
	if a.helloAt.IsZero() || at.Before(a.helloAt) {
		a.helloAt = at
	}
	a.later(a.helloAt, now)
}

func (a *Agent) openTask(w *work) protocol.OpenTask {
	open := protocol.OpenTask{TaskID: w.id, Attempt: a.fence(w.id), Phase: "offered"}
	_, kept := a.waiting(w)
	switch {
	case w.run != nil:
		open.Phase = "running"
	case kept:
		open.Phase = "done"
	case !w.lastClaim.IsZero():
		open.Phase = "claimed"
	}
	return open
}

// synchronise takes headquarters' list of what is open. It is authoritative
// for everything that was here when the hello was sent; what came after the
// hello may be newer than the list. A partial list says nothing of what it leaves
// out: a claim for a task that is over is denied.
func (a *Agent) synchronise(o protocol.Order, now time.Time) {
	sent, mine := a.hellos[o.HelloID]
	if !mine {
		if o.HelloID == "" && a.up {
			// Headquarters began anew, or reached the broker again: ask for a list
			// that is surely current.
			a.helloSoon(now)
		}
		return
	}
	a.clock = hqClock{serverMs: o.ServerTimeMs + now.Sub(sent).Milliseconds()/2, at: now}
	a.synced = true
	a.helloAt = now.Add(resync/2 + rand.N(resync))
	clear(a.hellos)
	a.unanswered = 0
	listed := make(map[string]bool, len(o.Open))
	for _, t := range o.Open {
		listed[t.TaskID] = true
		if t.Mine && t.Status == task.Running {
			a.reconcile(t, now)
		}
	}
	if o.Partial {
		return
	}
	for _, w := range a.tasks {
		if !listed[w.id] && !w.offerAt.After(sent) {
			a.leave(w)
		}
	}
}

// reconcile looks at an attempt that headquarters believes to run here. One that
// another process holds is not this one's to speak of: a second machine may bear
// the same identity. If that is gone, the lease ends. Unknown
// here, and never claimed, means that the journal was lost: what it did nobody
// knows, so it is answered as interrupted and not done again (I3).
func (a *Agent) reconcile(t protocol.SyncTask, now time.Time) {
	e, _ := a.known(t.TaskID)
	if !protocol.ValidID(t.TaskID) || t.Attempt <= a.fence(t.TaskID) {
		return
	}
	w := a.get(t.TaskID)
	switch {
	case w.run != nil, w.grant != nil:
	case a.succeeded(w):
		w.grant = &grant{attempt: t.Attempt}
		a.answerStored(w, now)
	case e.Phase == journal.PhaseClaimed:
		// The grant was lost on its way: a claim brings it again.
		w.nextClaim, w.claimUntil = time.Time{}, time.Time{}
	case t.Instance != "" && t.Instance != a.instance:
		a.log.Warn("an attempt is of another process with this terminal's identity", "task_id", t.TaskID, "attempt", t.Attempt, "instance", t.Instance)
		a.dropIdle(w)
	default:
		a.log.Warn("attempt is unknown here, answered as interrupted", "task_id", t.TaskID, "attempt", t.Attempt)
		a.keep(w, a.failed(w, t.Attempt, protocol.Failure{Code: protocol.CodeInterrupted,
			Message: "the terminal lost its memory of this attempt; whether it ran is unknown"}, now), now)
	}
}

// leave gives up a task that headquarters no longer has open. An answer that
// has no receipt yet is still sent.
func (a *Agent) leave(w *work) {
	w.offer, w.grant = nil, nil
	if w.run != nil {
		w.run.cancel(ending.ErrDropped)
	}
	a.dropStale(w)
	a.dropIdle(w)
}
