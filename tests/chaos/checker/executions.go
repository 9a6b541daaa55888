package checker

import "muster/tests/chaos/history"

// executions: an attempt has its effect once at most, and after its grant.
func executions(b *book) {
	recorded := map[string]bool{} // stores whose agents wrote a history
	for _, l := range b.History {
		if l.Role == history.RoleAgent {
			recorded[l.Store] = true
		}
	}
	granted := map[execution]history.Line{}
	for _, o := range b.grants {
		granted[o.execution()] = o.Line
	}
	first := map[execution]history.Line{}
	b.weigh("marks", len(b.marks))
	for _, m := range b.marks {
		key := execution{m.Task, m.Attempt}
		where := Finding{Task: m.Task, Attempt: m.Attempt, Line: m.Source}
		if before, again := first[key]; again {
			b.broken(where, "it was executed twice, first by process %d (%s), now by process %d", before.PID, before.Source, m.PID)
			continue
		}
		first[key] = m
		t, known := b.tasks[m.Task]
		g, got := granted[key]
		switch {
		case !known:
			b.broken(where, "it was executed and the store has no such task")
		case !got && recorded[t.StoreID]:
			b.broken(where, "it was executed and no terminal of store %s got a grant for it", t.StoreID)
		case got && g.Store != t.StoreID:
			b.broken(where, "it was executed on a grant of store %s (%s), the task is store %s's", g.Store, g.Source, t.StoreID)
		case got && b.before(m, g):
			b.broken(where, "it was executed at %s, before the grant at %s (%s)", moment(m.AtMs), moment(g.AtMs), g.Source)
		}
	}
}

// before: a happened before c. By the monotonic clock, or else by the wall clock
// less the slack.
func (b *book) before(a, c history.Line) bool {
	if a.MonoUs > 0 && c.MonoUs > 0 {
		return a.MonoUs < c.MonoUs
	}
	return a.AtMs < c.AtMs-ms(b.limits.Slack)
}
