package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"muster/internal/protocol"
	"muster/internal/task"
)

// duty is one task as a lasting terminal holds it. Times of what comes next are
// zero for "at once".
type duty struct {
	offer   *protocol.Offer // nil: withdrawn
	hash    string
	came    time.Time
	claimAt time.Time
	claimed bool

	running  int // the attempt that runs; 0: none
	stop     *time.Timer
	renewAt  time.Time
	answerOf string // hash of the offer that runs

	done   *protocol.Result // kept until its receipt
	sentAt time.Time        // first
	sendAt time.Time
	slot   bool // headquarters asked for it
	stale  bool // refused as stale: it may answer a later grant
}

func (d *duty) phase() string {
	switch {
	case d.running > 0:
		return "running"
	case d.done != nil:
		return "done"
	case d.claimed:
		return "claimed"
	}
	return "offered"
}

func (l *Lasting) duty(id string) *duty {
	d := l.tasks[id]
	if d == nil {
		d = &duty{}
		l.tasks[id] = d
	}
	return d
}

// idle forgets a task about which nothing is left to do.
func (l *Lasting) idle(id string, d *duty) {
	if d.offer == nil && d.running == 0 && d.done == nil {
		delete(l.tasks, id)
	}
}

func (l *Lasting) offered(id string, payload []byte, now time.Time) {
	if len(payload) == 0 {
		if d := l.tasks[id]; d != nil {
			d.offer = nil
			l.idle(id, d)
		}
		return
	}
	var offer protocol.Offer
	if protocol.Decode(payload, protocol.MaxPayloadBytes, &offer) != nil || offer.TaskID != id {
		return
	}
	d := l.duty(id)
	if d.offer != nil && offer.Attempt < d.offer.Attempt {
		return
	}
	if d.offer == nil || offer.Attempt > d.offer.Attempt || offer.NotBefore != d.offer.NotBefore {
		d.claimAt = time.Time{}
	}
	d.offer, d.hash, d.came = &offer, offer.Hash(), now
	l.claim(id, d, now)
}

// claim asks for a task when it is its time.
func (l *Lasting) claim(id string, d *duty, now time.Time) {
	if !l.synced || d.offer == nil || d.running > 0 || d.done != nil && !d.stale || now.Before(d.claimAt) {
		return
	}
	theirs := now.Add(l.ahead).UnixMilli()
	if d.offer.QueueDeadline > 0 && theirs > d.offer.QueueDeadline {
		d.offer = nil
		l.idle(id, d)
		return
	}
	if theirs < d.offer.NotBefore {
		return
	}
	claim := protocol.Claim{Meta: l.meta(), TaskID: id}
	if d.done != nil {
		claim.StoredAttempt = d.done.Attempt
	}
	d.claimed, d.claimAt = true, now.Add(againFrom+spread(againSpread))
	l.send(protocol.KindClaim, claim)
}

// look does what is due.
func (l *Lasting) look(now time.Time) {
	for id, d := range l.tasks {
		if d.running > 0 && !now.Before(d.renewAt) {
			d.renewAt = now.Add(renewEvery)
			l.send(protocol.KindProgress, protocol.Progress{Meta: l.meta(), TaskID: id, Attempt: d.running, Percent: 50})
		}
		if d.done != nil && !d.stale && !now.Before(d.sendAt) {
			l.answer(id, d, now)
		}
		l.claim(id, d, now)
	}
}

func (l *Lasting) ordered(o protocol.Order, now time.Time) {
	if o.Order == protocol.OrderSync {
		l.synchronise(o, now)
		return
	}
	if o.Order == protocol.OrderGrant {
		l.granted(o, now)
		return
	}
	d := l.tasks[o.TaskID]
	if o.Order == protocol.OrderCancel {
		l.cancelled(o, d, now)
		return
	}
	if d == nil {
		return
	}
	switch o.Order {
	case protocol.OrderDeny:
		l.denied(o, d, now)
	case protocol.OrderReceipt:
		l.receipted(o, d, now)
	case protocol.OrderSend:
		if d.done != nil && d.done.Attempt == o.Attempt {
			l.send(protocol.KindProgress, protocol.Progress{Meta: l.meta(), TaskID: o.TaskID, Attempt: o.Attempt, Percent: 100})
			d.slot = true
			l.answer(o.TaskID, d, now)
		}
	case protocol.OrderSync, protocol.OrderGrant, protocol.OrderCancel: // they are above
	}
}

func (l *Lasting) synchronise(o protocol.Order, now time.Time) {
	if o.HelloID == "" {
		l.sayHello(now)
		return
	}
	if o.HelloID != l.hello {
		return
	}
	l.synced = true
	l.ahead = time.UnixMilli(o.ServerTimeMs).Sub(now)
	listed := map[string]bool{}
	for _, t := range o.Open {
		listed[t.TaskID] = true
		if d := l.tasks[t.TaskID]; d != nil && t.Mine && t.Status == task.Running && t.Attempt > l.fences[t.TaskID] {
			d.claimAt = time.Time{} // the grant was lost on its way: a claim brings it again
		}
	}
	for id, d := range l.tasks {
		if !o.Partial && !listed[id] && !d.came.After(l.said) {
			d.offer = nil
			l.halt(d)
			if d.stale {
				d.done = nil
			}
			l.idle(id, d)
			continue
		}
		l.claim(id, d, now)
	}
	l.look(now)
}

func (l *Lasting) granted(o protocol.Order, now time.Time) {
	d := l.tasks[o.TaskID]
	if o.Attempt <= l.fences[o.TaskID] {
		if d != nil && d.done != nil && d.done.Attempt == o.Attempt && !d.stale {
			l.answer(o.TaskID, d, now)
		}
		return
	}
	switch {
	case d == nil || d.running > 0:
	case d.done != nil && d.done.Outcome == protocol.AnswerSucceeded:
		l.fences[o.TaskID] = o.Attempt
		again := *d.done
		again.Attempt, again.Executed = o.Attempt, false
		l.keep(o.TaskID, d, &again, now)
	case d.offer != nil && (o.OfferSHA256 == "" || o.OfferSHA256 == d.hash):
		l.fences[o.TaskID] = o.Attempt
		l.execute(o.TaskID, d, o.Attempt, now)
	}
}

func (l *Lasting) execute(id string, d *duty, attempt int, now time.Time) {
	d.running, d.done, d.answerOf, d.renewAt = attempt, nil, d.hash, now.Add(renewEvery)
	reply, after := l.opts.Execute(*d.offer, attempt)
	l.send(protocol.KindProgress, protocol.Progress{Meta: l.meta(), TaskID: id, Attempt: attempt})
	if reply.Result == nil && reply.Failure == nil {
		d.running, d.claimAt = 0, now.Add(againFrom) // it died, and leaves nothing
		return
	}
	d.stop = time.AfterFunc(after, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if d.running == attempt && l.tasks[id] == d {
			l.finish(id, d, reply, after)
		}
	})
}

func (l *Lasting) finish(id string, d *duty, reply Reply, took time.Duration) {
	now := time.Now()
	out := &protocol.Result{TaskID: id, Attempt: d.running, Outcome: protocol.AnswerSucceeded, Result: reply.Result,
		StartedAt: now.Add(-took).UnixMilli(), FinishedAt: now.UnixMilli(), DurationMs: took.Milliseconds(), Executed: true, OfferSHA256: d.answerOf}
	body := []byte(reply.Result)
	if reply.Failure != nil {
		encoded, err := protocol.Encode(reply.Failure)
		l.note(err)
		body = encoded
		out.Outcome, out.Result, out.Error = protocol.AnswerFailed, nil, body
		if reply.Failure.Code == protocol.CodeCancelled {
			out.Outcome = protocol.AnswerCancelled
		}
	}
	sum := sha256.Sum256(body)
	out.SHA256 = hex.EncodeToString(sum[:])
	d.running = 0
	l.keep(id, d, out, now)
}

// keep holds an answer until its receipt, and sends it.
func (l *Lasting) keep(id string, d *duty, r *protocol.Result, now time.Time) {
	d.done, d.stale, d.slot, d.sentAt = r, false, false, time.Time{}
	l.answer(id, d, now)
}

func (l *Lasting) answer(id string, d *duty, now time.Time) {
	if l.conn == nil {
		d.sendAt = time.Time{}
		return
	}
	d.sendAt = now.Add(againFrom + spread(againSpread))
	if d.sentAt.IsZero() {
		d.sentAt = now
	}
	if size := len(d.done.Result); size > protocol.InlineLimit && !d.slot {
		l.send(protocol.KindReady, protocol.Ready{Meta: l.meta(), TaskID: id, Attempt: d.done.Attempt, Bytes: int64(size), SHA256: d.done.SHA256})
		return
	}
	d.slot = false
	d.done.Meta = l.meta()
	l.send(protocol.KindResult, d.done)
}

func (l *Lasting) denied(o protocol.Order, d *duty, now time.Time) {
	if d.running > 0 {
		return
	}
	if o.Code == protocol.CodeSettled || o.Code == protocol.CodeNotFound {
		d.offer = nil
		if d.stale {
			d.done = nil
		}
		l.idle(o.TaskID, d)
		return
	}
	d.claimAt = now.Add(againFrom)
	if wait := time.Duration(o.RetryAfterMs) * time.Millisecond; wait > 0 {
		d.claimAt = now.Add(wait + spread(wait/4+time.Millisecond))
	}
}

func (l *Lasting) receipted(o protocol.Order, d *duty, now time.Time) {
	if o.Accepted == nil || d.done == nil || d.done.Attempt != o.Attempt || d.done.SHA256 != o.SHA256 {
		return
	}
	if l.opts.Receipted != nil && !d.stale {
		l.opts.Receipted(now.Sub(d.sentAt), *o.Accepted)
	}
	if !*o.Accepted && o.Code == protocol.CodeStale && d.done.Outcome == protocol.AnswerSucceeded {
		d.stale = true
		return
	}
	d.done, d.stale = nil, false
	if d.offer != nil && (*o.Accepted || d.offer.Attempt < o.Attempt) {
		d.offer = nil
	}
	l.idle(o.TaskID, d)
}

func (l *Lasting) cancelled(o protocol.Order, d *duty, now time.Time) {
	l.fences[o.TaskID] = max(l.fences[o.TaskID], o.Attempt)
	if d == nil {
		return
	}
	if o.Attempt == 0 || d.offer != nil && d.offer.Attempt < o.Attempt {
		d.offer = nil
	}
	if d.running > 0 && (o.Attempt == 0 || d.running <= o.Attempt) {
		d.stop.Stop()
		l.finish(o.TaskID, d, Reply{Failure: &protocol.Failure{Code: protocol.CodeCancelled, Message: "stopped by order"}}, now.Sub(now))
	}
	l.idle(o.TaskID, d)
}

// halt stops what headquarters no longer knows; nobody wants its answer.
func (l *Lasting) halt(d *duty) {
	if d.running > 0 {
		d.stop.Stop()
		d.running = 0
	}
}
