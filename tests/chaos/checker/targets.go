package checker

import (
	"slices"
	"strings"

	"muster/internal/protocol"
)

// targets: the list of a run's targets is whole from the start and never
// changes.
func targets(b *book) {
	for _, run := range b.Store.Runs {
		where := Finding{Run: run.RunID}
		stores := b.targets[run.RunID]
		if len(stores) != run.Targets {
			b.broken(where, "it has %d targets by its record and %d in the frozen list", run.Targets, len(stores))
		}
		tasked := map[string]bool{}
		for _, t := range b.ofRun[run.RunID] {
			tasked[t.StoreID] = true
			if !stores[t.StoreID] {
				b.broken(Finding{Task: t.TaskID}, "store %s is no target of its run", t.StoreID)
			}
		}
		for _, store := range sorted(stores) {
			if !tasked[store] {
				b.broken(where, "target %s has no task: all or none", store)
			}
		}
	}
	for _, r := range b.requests {
		run, known := b.runs[r.reply.RunID]
		if r.verb == protocol.VerbRun && r.reply.OK && known && r.reply.Stores != run.Targets {
			b.broken(Finding{Run: run.RunID, Line: r.answered.Source}, "the reply promised %d stores, the run has %d", r.reply.Stores, run.Targets)
		}
	}
	b.targetsEarlier()
}

func (b *book) targetsEarlier() {
	if b.Earlier == nil {
		return
	}
	old := map[string]map[string]bool{}
	for _, t := range b.Earlier.Targets {
		if old[t.RunID] == nil {
			old[t.RunID] = map[string]bool{}
		}
		old[t.RunID][t.StoreID] = true
	}
	for _, run := range sorted(old) {
		if was, is := sorted(old[run]), sorted(b.targets[run]); !slices.Equal(was, is) {
			b.broken(Finding{Run: run}, "its targets were %s and are now %s", strings.Join(was, " "), strings.Join(is, " "))
		}
	}
}
