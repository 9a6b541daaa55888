package agent

import (
	"time"

	"muster/edge-agent/internal/journal"
)

const (
	// lookAgain is how often a disk that took no writes is tried.
	lookAgain = 5 * time.Second
	// diskPatience bounds how long a granted attempt waits for a disk that takes
	// no writes, half of its lease at most; then it is refused aloud.
	diskPatience = 30 * time.Second
	// lookHome is how often it is looked after the work folder while nothing is written:
	// who moved it away is to read so in the log while they are at it.
	lookHome = 15 * time.Second
)

// medium is what the work folder's disk refuses. While it does, no work is
// started: what cannot be written down must not be begun (I3).
type medium struct {
	err    error     // the first refusal; nil: it takes writes
	lookAt time.Time // when it is tried again
	homeAt time.Time // when it is looked whether the folder is there
	// owed are entries of attempts that ended meanwhile. They count as if they
	// were in the journal.
	owed map[string]journal.Entry
}

// refuses notes that the disk did not take something.
func (a *Agent) refuses(err error, now time.Time) {
	if a.disk.err == nil {
		a.log.Error("the work folder takes no writes: no work is started until it does, answers are kept in memory", "error", err)
		a.disk.err, a.disk.lookAt = err, now.Add(lookAgain)
	}
}

// home fails while the work folder is not at its place.
func (a *Agent) home() error {
	if a.cfg.Home == nil {
		return nil
	}
	return a.cfg.Home()
}

// look notes when the work folder is taken away.
func (a *Agent) look(now time.Time) {
	if a.cfg.Home == nil || a.disk.err != nil || a.later(a.disk.homeAt, now) {
		return
	}
	a.disk.homeAt = now.Add(lookHome)
	a.later(a.disk.homeAt, now)
	if err := a.home(); err != nil {
		a.refuses(err, now)
	}
}

// tryDisk asks a disk that took no writes whether it takes them again, and then
// writes down what it is owed.
func (a *Agent) tryDisk(now time.Time) {
	if a.disk.err == nil || a.later(a.disk.lookAt, now) {
		return
	}
	a.disk.lookAt = now.Add(lookAgain)
	a.later(a.disk.lookAt, now)
	if err := a.home(); err != nil {
		if err.Error() != a.disk.err.Error() { // such as another folder in its place
			a.log.Error("the work folder takes no writes yet", "error", err)
			a.disk.err = err
		}
		return
	}
	if a.outbox.Check() != nil {
		return
	}
	for id, e := range a.disk.owed {
		if err := a.journal.Put(e); err != nil {
			return
		}
		delete(a.disk.owed, id)
	}
	if a.journal.Mend() != nil {
		return
	}
	a.disk.err = nil
	a.log.Info("the work folder takes writes again")
	for _, w := range a.tasks {
		w.refuseFrom = time.Time{} // of the disk; another reason waits anew
		if w.volatile != nil {
			_ = a.store(w) // refuses says why not
		}
	}
}

// volatile counts the answers that are in memory alone.
func (a *Agent) volatile() int {
	n := 0
	for _, w := range a.tasks {
		if w.volatile != nil {
			n++
		}
	}
	return n
}

// write hands an entry to the journal by its Put or Note. What it does not take
// of an attempt that is over is owed.
func (a *Agent) write(e journal.Entry, put func(journal.Entry) error) error {
	err := a.home()
	if err == nil {
		err = put(e)
	}
	if err == nil {
		delete(a.disk.owed, e.TaskID)
		return nil
	}
	over := e.Phase == journal.PhaseFinished || e.Phase == journal.PhaseReceipted || e.Phase == journal.PhaseDropped
	if over && e.Attempt > 0 {
		a.disk.owed[e.TaskID] = e
	}
	a.refuses(err, time.Now())
	return err
}

// store puts an answer that is in memory into the outbox, then into the journal.
func (a *Agent) store(w *work) error {
	answer := w.volatile
	err := a.home()
	if err == nil {
		err = a.outbox.Put(*answer)
	}
	if err != nil {
		a.refuses(err, time.Now())
		return err
	}
	w.volatile = nil
	if err := a.record(w.id, journal.PhaseFinished, answer.Attempt); err != nil {
		a.log.Error("end of an attempt cannot be journalled", "task_id", w.id, "attempt", answer.Attempt, "error", err)
	}
	return nil
}

// patience is until when a granted attempt waits for a disk that takes no writes.
// One that was claimed to be refused waits no more.
func (a *Agent) patience(w *work, now time.Time) time.Time {
	if w.refuseFrom.IsZero() {
		w.refuseFrom = now.Add(min(w.grant.lease/2, diskPatience))
	}
	return w.refuseFrom
}

// known is what was journalled of a task last, or would have been.
func (a *Agent) known(taskID string) (journal.Entry, bool) {
	if e, owed := a.disk.owed[taskID]; owed {
		return e, true
	}
	return a.journal.Get(taskID)
}
