package grant

import (
	"container/heap"
	"context"
	"errors"
	"sync"
	"time"

	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
)

// admission is one claim that has its slot and its token, on its way through
// the commit.
type admission struct {
	claim   *claim
	slot    *slot
	granted store.Granted
	err     error // errUncommitted until it is committed
}

var errUncommitted = errors.New("it was not tried")

// admitLoop admits whenever something changed, or the next token is due.
func (a *Admission) admitLoop(ctx context.Context) {
	due := time.NewTimer(0)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.admitWake:
		case <-due.C:
		}
		due.Stop()
		wait := a.cfg.Ward.Turn("admission", retryDelay, func() time.Duration { return a.admit(ctx) })
		if wait > 0 {
			due.Reset(wait)
		}
	}
}

// round is what is committed side by side.
type round struct {
	now     time.Time // headquarters'
	batch   []*admission
	waiting []*claim // to be noted
	commits sync.WaitGroup
}

func (r *round) empty() bool { return len(r.batch) == 0 && len(r.waiting) == 0 }

// admit grants all that can be granted now. It returns how long until a token
// comes that somebody waits for, 0 when nobody waits for one. The next round is
// under way before the last one is told, so that the disk never waits for it.
func (a *Admission) admit(ctx context.Context) time.Duration {
	last, next := &round{}, &round{}
	defer func() { a.end(ctx, last); a.end(ctx, next) }() // also should it panic: nothing keeps its slot for nothing
	for ctx.Err() == nil {
		for _, o := range a.takeOrders() {
			_ = a.alone("an order", o.TaskID, o.who, func() error { a.tell(ctx, o); return nil })
		}
		wait := a.begin(ctx, next)
		idle := last.empty() && next.empty()
		a.end(ctx, last)
		if idle {
			return wait
		}
		last, next = next, &round{}
	}
	return 0
}

// begin picks a round and lets it be committed.
func (a *Admission) begin(ctx context.Context, r *round) (wait time.Duration) {
	r.now = a.cfg.Now()
	wait = a.pick(r, time.Now())
	r.waiting = a.takeFresh(r.now, len(r.batch) < batchSize)
	sideBySide(&r.commits, r.batch, func(p *admission) {
		p.err = p.claim.alone(a, func() error { return a.commit(ctx, p, r.now) })
	})
	sideBySide(&r.commits, r.waiting, func(c *claim) {
		_ = c.alone(a, func() error { return a.note(ctx, c, r.now) })
	})
	return wait
}

// end tells what came of a round, in the order in which it was picked. Of one that has
// ended it tells nothing.
func (a *Admission) end(ctx context.Context, r *round) {
	r.commits.Wait()
	batch := r.batch
	r.batch = nil
	for _, p := range batch {
		_ = p.claim.alone(a, func() error { a.finish(ctx, p, r.now); return nil })
	}
}

func (c *claim) alone(a *Admission, do func() error) error {
	return a.alone("the claim", c.key.task, c.key.who, do)
}

func (a *Admission) commit(ctx context.Context, p *admission, now time.Time) (err error) {
	p.granted, err = a.cfg.Tasks.Grant(ctx, store.Grant{TaskID: p.claim.key.task,
		StoreID: p.claim.key.who.store, TerminalID: p.claim.key.who.id, Instance: p.slot.instance, LeaseUntil: now.Add(firstLease(p.claim.run)),
		Known: p.claim.known}, now)
	return err
}

// pick takes slots and tokens for the claims whose turn it is, the slot first:
// a token that finds no slot would be lost.
func (a *Admission) pick(r *round, now time.Time) (wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.full() {
		return 0 // the slot that comes back wakes the loop
	}
	heads, wait := a.heads(now)
	for len(heads) > 0 && len(r.batch) < batchSize && !a.full() {
		c := heads[0]
		if now.Sub(c.asked) > claimLife {
			a.queue.drop(c)
		} else {
			if due := a.tokens.Due(now, 1); due > 0 {
				return due
			}
			r.batch = append(r.batch, a.take(c, now))
		}
		next, _ := a.head(c.run, now) // what it waits for the next pass finds
		heads.replaceFirst(next)
	}
	return wait
}

func (a *Admission) full() bool { return len(a.slots.byTask) >= a.cfg.MaxRunning }

// heads returns whose turn it is in each run that may have one more, and how long
// until another run has its next token.
func (a *Admission) heads(now time.Time) (heads claimHeap, due time.Duration) {
	for _, line := range a.queue.lines {
		c, wait := a.head(line[0].run, now)
		due = sooner(due, wait)
		if c != nil {
			heads = append(heads, c)
		}
	}
	heap.Init(&heads)
	return heads, due
}

// head is whose turn it is in a run, nil when it may have no more; due is how long
// until it has a token, where that is what it lacks.
func (a *Admission) head(r *run, now time.Time) (c *claim, due time.Duration) {
	if r.Policy.MaxRunning > 0 && r.held >= r.Policy.MaxRunning || a.queue.waiting(r.RunID) == 0 {
		return nil, 0
	}
	if r.tokens != nil {
		if due = r.tokens.Due(now, 1); due > 0 {
			return nil, due
		}
	}
	return a.queue.first(r.RunID, a.isFree), 0
}

// isFree keeps a second claim for a task waiting until the fate of the first is
// known.
func (a *Admission) isFree(c *claim) bool { return a.slots.byTask[c.key.task] == nil }

func (a *Admission) take(c *claim, now time.Time) *admission {
	a.queue.drop(c)
	sl := &slot{task: c.key.task, run: c.run, holder: c.key.who, instance: c.by, until: now.Add(firstLease(c.run))}
	a.slots.take(sl)
	a.tokens.Take(now, 1)
	if c.run.tokens != nil {
		c.run.tokens.Take(now, 1)
	}
	return &admission{claim: c, slot: sl, err: errUncommitted}
}

// firstLease is how long a granted attempt may take to show the first sign of
// life.
func firstLease(r *run) time.Duration { return min(r.Policy.Lease, StartTimeout) }

// finish publishes a committed grant, and gives the slot of any other back. One that
// is committed and cannot be published keeps its slot until its first lease ends.
func (a *Admission) finish(ctx context.Context, p *admission, now time.Time) {
	t, who := p.granted.Task, p.claim.key.who
	if p.err != nil || p.granted.Refusal != "" {
		a.giveBack(p.slot)
	}
	switch {
	case quarantine.Broke(p.err): // the ward has told of it; the terminal will claim again
	case p.err != nil && ctx.Err() != nil: // headquarters stops; if it is committed, the next start finds it
	case p.err != nil:
		if left, due := a.due(who, "uncommitted"); due {
			a.log.Error("a grant could not be committed; the terminal will claim again",
				"task_id", p.claim.key.task, "store_id", who.store, "terminal_id", who.id, "error", p.err, "left_out", left)
		}
	case p.granted.Refusal != "":
		t.TaskID = p.claim.key.task
		a.deny(ctx, a.refuse(t, p.granted.Refusal, asker{who: who, instance: p.slot.instance}, now))
	case a.confirm(p.slot, t):
		a.stats.granted.Add(1)
		a.tell(ctx, grantOrder(p.claim.run, t, who))
	}
}

// giveBack frees a slot unless its grant is committed after all.
func (a *Admission) giveBack(sl *slot) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if sl.attempt == 0 {
		a.slots.giveBack(sl)
	}
}

// confirm says that a slot's grant is committed. It returns false when the
// attempt ended since: then nothing may be told to run.
func (a *Admission) confirm(sl *slot, t store.Task) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.slots.byTask[sl.task] != sl {
		return false
	}
	if sl.attempt == 0 {
		a.slots.confirm(sl, t)
	}
	return true
}

// grantOrder names the offer by its id and, since a broker can put another one
// in its place, by the hash of what headquarters asked for.
func grantOrder(r *run, t store.Task, who terminal) order {
	return order{who: who, Order: protocol.Order{
		Order:        protocol.OrderGrant,
		Instance:     t.Instance,
		TaskID:       t.TaskID,
		Attempt:      t.State.Attempt,
		LeaseMs:      r.Policy.Lease.Milliseconds(),
		RunTimeoutMs: r.Policy.RunTimeout.Milliseconds(),
		OfferID:      transport.OfferID(t.TaskID, t.Used()-1, t.CreatedAt),
		OfferSHA256:  r.offers.Of(t).Hash(),
	}}
}

// takeOrders takes what waits to be told.
func (a *Admission) takeOrders() []order {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := a.orders
	a.orders = nil
	return out
}

// takeFresh takes claims that are to be noted as waiting. Where a pass ended for want
// of a slot or a token, these are all that came since the last one. Where it ended
// because the round was full, the next ones are likely to grant them, which notes
// them too: then only those are taken whose barrier may come before.
func (a *Admission) takeFresh(now time.Time, wanting bool) (waiting []*claim) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for r, claims := range a.fresh {
		if !wanting && r.BarrierAt.Sub(now) > noteAhead {
			continue
		}
		taken, left := a.toNote(claims, batchSize-len(waiting))
		waiting = append(waiting, taken...)
		if a.fresh[r] = left; len(left) == 0 {
			delete(a.fresh, r)
		}
	}
	return waiting
}

// toNote takes up to most claims that wait and are not noted, and tells what is left
// to look at.
func (a *Admission) toNote(claims []*claim, most int) (taken, left []*claim) {
	for i, c := range claims {
		switch {
		case len(taken) == most:
			return taken, append(left, claims[i:]...)
		case c.noted || !a.queue.waits(c): // it was granted, or is gone
		case !a.isFree(c): // its task is being granted to another
			left = append(left, c)
		default:
			taken = append(taken, c)
		}
	}
	return taken, left
}

// note records that a claim waits. It is evidence for the report, so a failure
// is no reason to stop.
func (a *Admission) note(ctx context.Context, c *claim, now time.Time) error {
	err := a.cfg.Tasks.NoteClaim(ctx, c.key.task, now)
	if err != nil && ctx.Err() == nil && !quarantine.Broke(err) {
		if left, due := a.due(c.key.who, "unnoted"); due {
			a.log.Warn("a waiting claim could not be noted", "task_id", c.key.task,
				"store_id", c.key.who.store, "terminal_id", c.key.who.id, "error", err, "left_out", left)
		}
	}
	return err
}

// sooner is the shorter of two waits, where 0 is none.
func sooner(due, wait time.Duration) time.Duration {
	if due == 0 || wait == 0 {
		return max(due, wait)
	}
	return min(due, wait)
}

// sideBySide does all items at once, so that their commits share one fsync; wait for
// all. It is called with at most batchSize items.
func sideBySide[T any](all *sync.WaitGroup, items []T, do func(T)) {
	for _, item := range items {
		all.Go(func() { do(item) })
	}
}
