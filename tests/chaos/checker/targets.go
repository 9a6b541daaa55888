package checker

import (
	"encoding/json"
	"slices"
	"strings"

	"muster/internal/protocol"
)

// targets: the list of a run's targets is whole from the start and never
// changes.
func targets(b *book) {
	for _, run := range b.Store.Runs {
		b.weigh("runs", 1)
		where := Finding{Run: run.RunID}
		stores := b.targets[run.RunID]
		if len(stores) != run.Targets {
			b.broken(where, "it has %d targets by its record and %d in the frozen list", run.Targets, len(stores))
		}
		tasked := map[string]bool{}
		for _, t := range b.ofRun[run.RunID] {
			if tasked[t.StoreID] {
				b.broken(Finding{Task: t.TaskID}, "target %s has another task of this run", t.StoreID)
			}
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
		b.targetsRetried(run)
	}
	for _, r := range b.requests {
		if run, known := b.runs[r.reply.RunID]; ordersRun(r.verb) && r.reply.OK && known {
			b.targetsAsked(r, run)
		}
	}
	b.targetsEarlier()
}

// targetsAsked: the run is for as many stores as the reply promised, and for those
// that the request named.
func (b *book) targetsAsked(r request, run Run) {
	where := Finding{Run: run.RunID, Line: r.answered.Source}
	b.weigh("replies", 1)
	if r.reply.Stores != run.Targets {
		b.broken(where, "the reply promised %d stores, the run has %d", r.reply.Stores, run.Targets)
	}
	var asked protocol.RunRequest
	if json.Unmarshal([]byte(r.asked.Payload), &asked) != nil || len(asked.Stores.Stores) == 0 {
		return // every store, or those with a label, or that are missing
	}
	b.weigh("lists", 1)
	named := slices.Compact(slices.Sorted(slices.Values(asked.Stores.Stores)))
	if have := sorted(b.targets[run.RunID]); !slices.Equal(named, have) {
		b.broken(where, "the stores %s were asked for, the run has %s", clip(strings.Join(named, " ")), clip(strings.Join(have, " ")))
	}
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
	b.weigh("earlier", len(old))
	for _, run := range sorted(old) {
		if was, is := sorted(old[run]), sorted(b.targets[run]); !slices.Equal(was, is) {
			b.broken(Finding{Run: run}, "its targets were %s and are now %s", strings.Join(was, " "), strings.Join(is, " "))
		}
	}
}
