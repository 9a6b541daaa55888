package checker_test

import (
	"slices"

	"muster/internal/protocol"
	"muster/internal/task"
	"muster/tests/chaos/history"
)

// topics is who watches the retained topics of runs.
var topics = history.Participant{Who: "topics", Role: history.RoleCollector}

// lookAt is when somebody subscribes to what stands retained at the end.
const lookAt = 190_000

// tell shows the states and summaries of all runs as headquarters publishes them,
// and in the end what stands retained.
func (w *world) tell() {
	w.say(-500, topics, history.Line{Act: history.ActSubscribed, Topic: "muster/v1/runs/#"})
	for _, run := range w.e.Store.Runs {
		w.state(run.CreatedAt-t0+20, run.RunID, false)
		if run.EndedAt != 0 {
			w.state(run.EndedAt-t0+900, run.RunID, false)
		}
	}
	newest := map[string]int{}
	for _, rev := range w.e.Store.Revisions {
		w.summary(rev.PublishedAt-t0+5, rev.RunID, rev.Revision, false)
		newest[rev.RunID] = rev.Revision
	}
	for _, run := range w.e.Store.Runs {
		w.subscribe(lookAt, run.RunID, protocol.RunState)
		w.subscribe(lookAt, run.RunID, protocol.RunSummary)
		if run.RunID == "R2" {
			continue // the broker forgot
		}
		w.state(lookAt+5, run.RunID, true)
		if newest[run.RunID] > 0 {
			w.summary(lookAt+5, run.RunID, newest[run.RunID], true)
		}
	}
}

func (w *world) subscribe(at int64, run string, kind protocol.RunKind) {
	w.say(at, topics, history.Line{Act: history.ActSubscribed, Topic: "muster/v1/runs/" + run + "/" + string(kind)})
}

// summary tells of a revision, in what the database says.
func (w *world) summary(at int64, run string, revision int, retained bool) {
	r := w.runOf(run)
	rows := map[string]task.Outcome{}
	for _, o := range w.e.Store.Outcomes {
		if o.RunID == run && o.Revision <= revision {
			rows[o.StoreID] = o.Outcome
		}
	}
	s := protocol.Summary{Meta: w.meta(at), RunID: run, Revision: revision, Targets: r.Targets}
	for _, rev := range w.e.Store.Revisions {
		if rev.RunID == run && rev.Revision == revision {
			s.Files = rev.Files
		}
	}
	for id, outcome := range rows {
		if s.Counts.Add(outcome); outcome != task.OutcomeSucceeded {
			s.Missing = append(s.Missing, id)
		}
	}
	slices.Sort(s.Missing)
	s.Verdict = verdictOf(s.Counts, s.Targets)
	w.say(at, topics, history.Line{Act: history.ActGot, Topic: "muster/v1/runs/" + run + "/summary", Retained: retained, Payload: w.text(s)})
}

// state tells how a run stands at a moment, by the database.
func (w *world) state(at int64, run string, retained bool) {
	r := w.runOf(run)
	was := func(moment int64) bool { return moment != 0 && moment <= t0+at }
	s := protocol.RunStateReport{Meta: w.meta(at), RunID: run, Phase: protocol.PhaseCollecting, Targets: r.Targets, Tasks: map[task.Status]int{}}
	if was(r.ClosedAt) {
		s.Phase = protocol.PhaseMakeup
	}
	if was(r.EndedAt) {
		s.Phase = protocol.PhaseClosed
	}
	for _, rev := range w.e.Store.Revisions {
		if rev.RunID == run && was(rev.AsOf) {
			s.Revision = max(s.Revision, rev.Revision)
		}
	}
	for _, t := range w.e.Store.Tasks {
		if t.RunID == run {
			status := task.Pending
			if was(t.SettledAt) {
				status = t.Status
			}
			s.Tasks[status]++
		}
	}
	w.say(at, topics, history.Line{Act: history.ActGot, Topic: "muster/v1/runs/" + run + "/state", Retained: retained, Payload: w.text(s)})
}
