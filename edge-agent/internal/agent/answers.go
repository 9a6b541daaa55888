package agent

import (
	"errors"
	"time"

	"muster/edge-agent/internal/agent/ending"
	"muster/edge-agent/internal/journal"
	"muster/edge-agent/internal/outbox"
	"muster/internal/protocol"
)

// failed is the answer of an attempt that did not run. It names the offer that
// the attempt began to execute, else the one that is held.
func (a *Agent) failed(w *work, attempt int, failure protocol.Failure, now time.Time) outbox.Answer {
	answer := outbox.Answer{TaskID: w.id, Attempt: attempt, Frame: protocol.Result{
		TaskID: w.id, Attempt: attempt, Outcome: protocol.AnswerFailed,
		StartedAt: a.wall().UnixMilli(), FinishedAt: a.wall().UnixMilli()}}
	if e, _ := a.known(w.id); e.Attempt == attempt && e.OfferSHA256 != "" {
		answer.Frame.OfferSHA256 = e.OfferSHA256
	} else if w.offer != nil {
		answer.Frame.OfferSHA256 = w.hash
	}
	ending.Fail(&answer, failure)
	return answer
}

// keep puts the answer into the outbox, then into the journal, and has it sent.
// A disk that refuses does not hold the answer back: it is sent from memory,
// and a crash before the receipt will say "interrupted".
func (a *Agent) keep(w *work, answer outbox.Answer, now time.Time) {
	w.sendAt, w.slot, w.stale, w.volatile = now, false, false, &answer
	a.again(now)
	if err := a.store(w); err != nil {
		a.log.Error("answer is not on disk yet", "task_id", w.id, "attempt", answer.Attempt, "error", err)
	}
}

// answerStored answers a new grant with the successful result of an earlier
// attempt.
func (a *Agent) answerStored(w *work, now time.Time) {
	g := w.grant
	answer, err := a.read(w)
	if err != nil {
		a.log.Error("stored result cannot be read", "task_id", w.id, "error", err)
		if !errors.Is(err, outbox.ErrDamaged) {
			a.later(now.Add(lookAgain), now) // start comes back to it
			return
		}
		answer = a.failed(w, g.attempt, ending.Lost(), now)
	}
	w.grant = nil
	a.log.Info("grant answered with the stored result", "task_id", w.id, "attempt", g.attempt, "stored_attempt", answer.Attempt)
	answer.Attempt, answer.Frame.Attempt, answer.Frame.Executed = g.attempt, g.attempt, false
	a.keep(w, answer, now)
}

// sendAnswer sends the answer, or announces it when it is large and there is
// no slot. It is sent again until the receipt.
func (a *Agent) sendAnswer(w *work, now time.Time) {
	w.sendAt = now.Add(resendAfter())
	a.later(w.sendAt, now)
	if w.volatile != nil && a.disk.err == nil {
		_ = a.store(w) // refuses says why not
	}
	kept, ok := a.waiting(w)
	if !ok {
		w.sendAt = time.Time{}
		return
	}
	if kept.Bytes > protocol.InlineLimit && !w.slot {
		a.send(protocol.KindReady, protocol.Ready{Meta: a.cfg.Stamp.Meta(), TaskID: w.id,
			Attempt: kept.Attempt, Bytes: int64(kept.Bytes), SHA256: kept.SHA256})
		return
	}
	w.slot = false
	answer, err := a.read(w)
	if err != nil {
		a.log.Error("answer in the outbox cannot be read", "task_id", w.id, "error", err)
		if !errors.Is(err, outbox.ErrDamaged) {
			w.slot = true // for the next time
			return
		}
		a.keep(w, a.failed(w, kept.Attempt, ending.Lost(), now), now)
		return
	}
	a.send(protocol.KindResult, stamped(answer, a.cfg.Stamp.Meta()))
}

// waiting tells of the answer that waits for its receipt, in memory or on disk.
func (a *Agent) waiting(w *work) (outbox.Kept, bool) {
	if w.volatile != nil {
		return w.volatile.Kept(), true
	}
	return a.outbox.Get(w.id)
}

// read returns the whole answer that waits.
func (a *Agent) read(w *work) (outbox.Answer, error) {
	if w.volatile != nil {
		return *w.volatile, nil
	}
	if err := a.home(); err != nil { // or it looks as if the answer were lost
		a.refuses(err, time.Now())
		return outbox.Answer{}, err
	}
	return a.outbox.Read(w.id)
}

// discard deletes an answer from the outbox, not from another one in its place.
func (a *Agent) discard(kept outbox.Kept) error {
	if err := a.home(); err != nil {
		return err
	}
	return a.outbox.Delete(kept.TaskID, kept.Attempt, kept.SHA256)
}

// succeeded reports whether a success waits, which answers any grant.
func (a *Agent) succeeded(w *work) bool {
	kept, ok := a.waiting(w)
	return ok && kept.Outcome == protocol.AnswerSucceeded
}

func stamped(answer outbox.Answer, meta protocol.Meta) protocol.Result {
	answer.Frame.Meta = meta
	return answer.Frame
}

// slotGiven sends a large result, now that headquarters has room for it, and
// first of all says so: a terminal that is not heard soon loses its turn, and the
// result itself may take a minute over a slow link.
func (a *Agent) slotGiven(o protocol.Order, now time.Time) {
	w := a.tasks[o.TaskID]
	if w == nil {
		return
	}
	if kept, ok := a.waiting(w); ok && kept.Attempt == o.Attempt {
		w.slot, w.sendAt = true, now
		a.send(protocol.KindProgress, protocol.Progress{Meta: a.cfg.Stamp.Meta(), TaskID: w.id, Attempt: o.Attempt, Percent: 100})
	}
}

// receipted takes headquarters' word that the answer is stored (I1): the copy
// goes when the receipt names its very bytes. A good result that came too late
// for its attempt stays, to answer the next grant.
func (a *Agent) receipted(o protocol.Order) {
	w := a.tasks[o.TaskID]
	if w == nil || o.Accepted == nil {
		return
	}
	kept, ok := a.waiting(w)
	if !ok || kept.Attempt != o.Attempt || kept.SHA256 != o.SHA256 {
		return
	}
	good := kept.Outcome == protocol.AnswerSucceeded
	if !*o.Accepted {
		a.log.Warn("answer refused by headquarters", "task_id", w.id, "attempt", o.Attempt,
			"code", string(o.Code), "path", o.Path, "message", o.Message)
		if good && o.Code == protocol.CodeStale {
			w.stale, w.sendAt, w.slot = true, time.Time{}, false
			return
		}
	}
	if w.volatile != nil {
		w.volatile = nil
		kept, ok = a.outbox.Get(w.id) // of an earlier attempt: nobody asks for it any more
	}
	if ok {
		if err := a.discard(kept); err != nil {
			a.log.Error("receipted answer cannot be deleted", "task_id", w.id, "error", err)
			a.refuses(err, time.Now())
			return
		}
	}
	a.settle(w, o.Attempt, good && *o.Accepted)
}

// settle closes an attempt whose answer headquarters holds. An offer made
// before that answer is void; a later one asks for the next attempt.
func (a *Agent) settle(w *work, attempt int, over bool) {
	w.sendAt, w.slot, w.stale = time.Time{}, false, false
	if w.offer != nil && (over || w.offer.Attempt < attempt) {
		w.offer = nil
	}
	if attempt >= a.fence(w.id) { // else a newer attempt has its own phase
		a.note(w.id, journal.PhaseReceipted, attempt)
	}
	a.log.Info("answer receipted", "task_id", w.id, "attempt", attempt)
	a.dropIdle(w)
}

// dropStale deletes a stored result that headquarters received, refused as
// stale, and can no longer ask for.
func (a *Agent) dropStale(w *work) {
	if w.stale && w.volatile != nil {
		w.volatile, w.stale = nil, false
		return
	}
	kept, ok := a.outbox.Get(w.id)
	if !ok || !w.stale {
		return
	}
	if err := a.discard(kept); err != nil {
		a.log.Error("stale answer cannot be deleted", "task_id", w.id, "error", err)
		return
	}
	w.stale = false
}
