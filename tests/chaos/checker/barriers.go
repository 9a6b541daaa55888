package checker

// barriers: a run's barrier closes at its deadline, or earlier when nothing is
// open.
func barriers(b *book) {
	b.barriersTold()
	for _, run := range b.Store.Runs {
		where := Finding{Run: run.RunID}
		due := b.due(run.BarrierAt)
		slack := ms(b.limits.Barrier)
		if run.ClosedAt != 0 || b.Store.TakenAt > due+slack {
			b.weigh("barriers", 1)
		}
		switch {
		case run.ClosedAt == 0 && b.Store.TakenAt > due+slack:
			b.broken(where, "its barrier was due at %s and is not closed at %s", moment(due), moment(b.Store.TakenAt))
		case run.ClosedAt > due+slack:
			b.broken(where, "its barrier was due at %s and closed at %s", moment(due), moment(run.ClosedAt))
		case run.ClosedAt != 0 && run.ClosedAt < run.BarrierAt-slack:
			for _, t := range b.ofRun[run.RunID] {
				if t.SettledAt == 0 || t.SettledAt > run.ClosedAt+ms(b.limits.Slack) {
					b.broken(where, "its barrier was due at %s and closed at %s, with task %s open", moment(run.BarrierAt), moment(run.ClosedAt), t.TaskID)
					break
				}
			}
		}
	}
}

// barriersTold: a deadline that somebody was told stays.
func (b *book) barriersTold() {
	for _, r := range b.requests {
		run, known := b.runs[r.reply.RunID]
		if !ordersRun(r.verb) || !r.reply.OK || !known || r.reply.BarrierAt.IsZero() {
			continue
		}
		b.weigh("told", 1)
		if told := r.reply.BarrierAt.UnixMilli(); told != run.BarrierAt {
			b.broken(Finding{Run: run.RunID, Line: r.answered.Source}, "the reply promised its barrier at %s, the store has it at %s", moment(told), moment(run.BarrierAt))
		}
	}
}

// due is when a deadline can be kept: at it, or when headquarters is back, for
// long enough to close a barrier.
func (b *book) due(at int64) int64 {
	for again := true; again; {
		again = false
		for _, f := range b.away {
			if f.begin <= at+ms(b.limits.Barrier) && at < f.end {
				at, again = f.end, true
			}
		}
	}
	return at
}
