package agent

import (
	"time"

	"muster/edge-agent/internal/journal"
	"muster/edge-agent/internal/outbox"
	"muster/internal/protocol"
)

// work is one task as the loop sees it. What must survive a crash stands in
// the journal and the outbox.
type work struct {
	id      string
	offer   *protocol.Offer // nil: none is known now
	offerAt time.Time
	hash    string // of the offer

	claimedBy  string // the process before this one, when that had claimed
	lastClaim  time.Time
	claimUntil time.Time // an unanswered claim holds a place until then
	nextClaim  time.Time // not before
	refuseFrom time.Time // from when a task that cannot be done is refused

	grant *grant     // granted, and waiting for the offer or a free place
	run   *execution // running

	sendAt   time.Time      // when to send the answer in the outbox; zero: not now
	slot     bool           // headquarters gave a slot for a large result
	stale    bool           // the answer was refused as stale; kept for a new grant
	volatile *outbox.Answer // the answer while the disk refuses it
}

// grant is a granted attempt that is not yet started.
type grant struct {
	attempt int
	lease   time.Duration
	limit   time.Duration // of one execution; 0: as the offer says
	offer   string        // the Hash of the offer that may be run; "": any
	until   time.Time     // the lease ends; not started later
}

// fence is the highest attempt that was granted here, answered or cancelled.
func (a *Agent) fence(taskID string) int {
	e, _ := a.known(taskID)
	highest := e.Attempt
	if w := a.tasks[taskID]; w != nil {
		if kept, ok := a.waiting(w); ok {
			highest = max(highest, kept.Attempt)
		}
	}
	return highest
}

// entry is a line for the journal, of the attempt or of the higher one that was
// journalled before it: no line lowers the fence. It keeps which offer the attempt
// executed, and how far headquarters is proven.
func (a *Agent) entry(taskID string, phase journal.Phase, attempt int) journal.Entry {
	old, _ := a.known(taskID)
	attempt = max(attempt, old.Attempt)
	e := journal.Entry{TaskID: taskID, Phase: phase, Attempt: attempt, Seq: a.window.Highest()}
	if !a.proven.IsZero() {
		e.ProvenAt = a.proven.UnixMilli()
	}
	if phase == journal.PhaseClaimed {
		e.Instance = a.instance
	}
	if old.Attempt == attempt {
		e.OfferSHA256 = old.OfferSHA256
	}
	return e
}

// record journals a phase for good.
func (a *Agent) record(taskID string, phase journal.Phase, attempt int) error {
	return a.write(a.entry(taskID, phase, attempt), a.journal.Put)
}

// note journals a phase that may be lost.
func (a *Agent) note(taskID string, phase journal.Phase, attempt int) {
	_ = a.write(a.entry(taskID, phase, attempt), a.journal.Note) // refuses says why not
}
