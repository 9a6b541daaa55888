package checker

import (
	"cmp"
	"slices"
)

// budgets: RUNNING stays under its cap, grants under burst + rate·t.
func budgets(b *book) {
	if b.limits.MaxRunning > 0 {
		b.capStored(b.Store.Attempts, b.limits.MaxRunning, "")
		b.capSeen()
	}
	if b.limits.GrantsPerSecond > 0 {
		b.rateStored(b.Store.Attempts, b.limits.GrantsPerSecond, b.limits.GrantBurst, "")
		b.grantsSeen()
	}
	b.ownBudgets()
	b.collection()
}

// ownBudgets are those that a job's policy gives each of its runs.
func (b *book) ownBudgets() {
	of := map[string][]Attempt{}
	for _, a := range b.Store.Attempts {
		run := b.tasks[a.TaskID].RunID
		of[run] = append(of[run], a)
	}
	for _, run := range b.Store.Runs {
		if run.Policy.MaxRunning > 0 {
			b.capStored(of[run.RunID], run.Policy.MaxRunning, " of its run")
		}
		if run.Policy.GrantRate > 0 {
			b.rateStored(of[run.RunID], run.Policy.GrantRate, run.Policy.GrantBurst, " for its run")
		}
	}
}

// step is a change of how many attempts run, at at in milliseconds.
type step struct {
	at int64
	by int
	execution
	line string
}

// over returns the first step that goes beyond the cap, and how many ran then.
// Of the steps of one moment those that end come first.
func over(steps []step, limit int) (step, int) {
	slices.SortStableFunc(steps, func(a, c step) int { return cmp.Or(cmp.Compare(a.at, c.at), cmp.Compare(a.by, c.by)) })
	running := 0
	for _, s := range steps {
		if running += s.by; running > limit {
			return s, running
		}
	}
	return step{}, 0
}

// capStored goes by what headquarters noted. A slot is free once its attempt's
// end is committed, and both moments are read before their commits: each end is
// taken to be Slack earlier.
func (b *book) capStored(attempts []Attempt, limit int, whose string) {
	var steps []step
	for _, a := range attempts {
		key := execution{a.TaskID, a.Attempt}
		end := a.EndedAt - ms(b.limits.Slack)
		if a.EndedAt != 0 && end <= a.GrantedAt {
			continue // shorter than can be seen; one that ends before its grant is I2's
		}
		steps = append(steps, step{at: a.GrantedAt, by: 1, execution: key})
		if a.EndedAt != 0 {
			steps = append(steps, step{at: end, by: -1, execution: key})
		}
	}
	b.weigh("running"+whose, len(steps))
	if s, running := over(steps, limit); running > 0 {
		b.broken(Finding{Task: s.task, Attempt: s.attempt}, "with its grant at %s the store had %d RUNNING%s, the cap is %d", moment(s.at), running, whose, limit)
	}
}

// capSeen goes by what terminals saw: an attempt ran at least from the grant
// that was got to the answer that was sent, or to its end by headquarters' word
// if that was earlier. It needs no slack, since both lie inside.
func (b *book) capSeen() {
	var steps []step
	for _, o := range b.grants {
		end, answered := int64(0), len(b.results[o.execution()]) > 0
		if answered {
			end = b.results[o.execution()][0].AtMs
		}
		if ended := b.attempts[o.execution()].EndedAt; ended != 0 && (!answered || ended < end) {
			end, answered = ended, true
		}
		if !answered || end <= o.AtMs {
			continue // how long it ran is not known
		}
		steps = append(steps, step{at: o.AtMs, by: 1, execution: o.execution(), line: o.Source},
			step{at: end, by: -1, execution: o.execution()})
	}
	b.weigh("seen to run", len(steps))
	if s, running := over(steps, b.limits.MaxRunning); running > 0 {
		b.broken(Finding{Task: s.task, Attempt: s.attempt, Line: s.line}, "with its grant %d attempts were seen to run, the cap is %d", running, b.limits.MaxRunning)
	}
}

// rateStored goes by headquarters' own moments, over its restarts too. Moments
// are whole milliseconds: one token of slack.
func (b *book) rateStored(attempts []Attempt, rate float64, burst int, whose string) {
	granted := slices.Clone(attempts)
	slices.SortStableFunc(granted, func(a, c Attempt) int { return cmp.Compare(a.GrantedAt, c.GrantedAt) })
	b.weigh("grants"+whose, len(granted))
	bucket := newBucket(rate, float64(burst)+1) // the token of slack
	for _, a := range granted {
		if !bucket.take(a.GrantedAt, 1) {
			b.broken(Finding{Task: a.TaskID, Attempt: a.Attempt}, "its grant at %s is more than a burst of %d and %g a second allow%s",
				moment(a.GrantedAt), burst, rate, whose)
			return
		}
	}
}

// grantsSeen holds the moments on which rateStored relies against what terminals
// saw: a grant lies between the first claim for its task and its arrival.
func (b *book) grantsSeen() {
	for _, o := range b.grants {
		a, known := b.attempts[o.execution()]
		where := Finding{Task: o.Order.TaskID, Attempt: o.Order.Attempt, Line: o.Source}
		switch claim, claimed := b.claims[o.Order.TaskID]; {
		case !known: // it is I2's
		case a.GrantedAt > o.AtMs+ms(b.limits.Slack):
			b.broken(where, "its grant was got at %s, the store has it as of %s", moment(o.AtMs), moment(a.GrantedAt))
		case claimed && a.GrantedAt < claim.AtMs-ms(b.limits.Slack):
			b.broken(where, "the store has its grant as of %s, the first claim was sent at %s (%s)", moment(a.GrantedAt), moment(claim.AtMs), claim.Source)
		}
	}
}

// bucket says whether tokens suffice if nobody ever waited for one in vain; it
// refuses exactly when some window has more than burst + rate·t and the slack.
type bucket struct {
	rate, burst, level float64
	last               int64
}

func newBucket(rate, burst float64) bucket { return bucket{rate: rate, burst: burst, level: burst} }

func (t *bucket) take(at int64, tokens float64) bool {
	t.fill(at)
	t.level -= tokens
	return t.level >= 0
}

// hold: at that moment it holds no more than so many.
func (t *bucket) hold(at int64, most float64) {
	t.fill(at)
	t.level = min(t.level, most)
}

func (t *bucket) fill(at int64) {
	t.level = min(t.burst, t.level+t.rate*float64(max(at-t.last, 0))/1000)
	t.last = max(t.last, at)
}
