package barrier

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

// target is one store of a run with all its tasks there.
type target []store.Candidate

// targets gathers what belongs to one store: candidates come by store id.
func targets(snap Snapshot) iter.Seq2[target, error] {
	return func(yield func(target, error) bool) {
		var t target
		for c, err := range snap.Candidates() {
			if err != nil {
				yield(nil, err)
				return
			}
			if len(t) > 0 && t[0].Place.StoreID != c.Place.StoreID {
				if !yield(t, nil) {
					return
				}
				t = nil
			}
			t = append(t, c)
		}
		if len(t) > 0 {
			yield(t, nil)
		}
	}
}

// settled reports whether nothing of the target is open.
func (t target) settled() bool {
	for i := range t {
		if !t[i].Task.State.Settled {
			return false
		}
	}
	return true
}

// late reports whether an answer that came after the barrier settled one of
// the target's tasks. Headquarters' own word, such as a lease that ended, is
// never late.
func (t target) late() bool {
	for i := range t {
		a, status := t[i].Attempt, t[i].Task.State.Status
		if a != nil && a.Late && t[i].Task.State.Settled && (status == task.Succeeded || status == task.Failed) {
			return true
		}
	}
	return false
}

// severity orders outcomes, worst first: the worst task decides for its store.
// Failed comes first because somebody must act; then what may still come; a
// store succeeded only if all its tasks did.
func severity(o task.Outcome) int {
	switch o {
	case task.OutcomeFailed:
		return 4
	case task.OutcomeTimedOut:
		return 3
	case task.OutcomeOffline:
		return 2
	case task.OutcomeCancelled:
		return 1
	case task.OutcomeSucceeded:
		return 0
	}
	return 5 // unknown: shown, so that the sum rule stops the report
}

// row is the target's line in a revision. atBarrier is empty in revision 1,
// where the outcome itself is the one at the barrier.
func (t target) row(run *store.Run, now time.Time, zone *time.Location, atBarrier task.Outcome) (store.OutcomeRow, error) {
	worst := &t[0]
	outcome, reason, evidence := Judge(t[0], now)
	for i := range t[1:] {
		c := &t[i+1]
		if o, r, e := Judge(*c, now); severity(o) > severity(outcome) {
			worst, outcome, reason, evidence = c, o, r, e
		}
	}
	row := rowOf(worst, len(run.Columns))
	row.Outcome, row.Reason, row.AtBarrier = outcome, reason, atBarrier
	if atBarrier == "" {
		row.AtBarrier = outcome
	}
	row.Late = t.settled() && t.late()
	row.Evidence = evidence
	for _, at := range []*protocol.Time{&row.FinishedAt, &row.Evidence.LastSeenAt, &row.Evidence.ClaimedAt, &row.Evidence.GrantedAt,
		&row.Evidence.StartedAt, &row.Evidence.LastSignAt, &row.Evidence.ReadyAt} {
		*at = in(*at, zone)
	}
	row.Tries = tries(worst.Tries, zone)
	raw, err := encodeRow(&row)
	if err != nil {
		return store.OutcomeRow{}, fmt.Errorf("cannot write the row of store %s: %w", row.StoreID, err)
	}
	return store.OutcomeRow{StoreID: row.StoreID, Outcome: outcome, Reason: reason, Row: raw}, nil
}

// tries are a task's attempts, with times in zone.
func tries(all []store.Try, zone *time.Location) []protocol.Try {
	list := slices.Clone(all)
	for i := range list {
		t := &list[i]
		t.GrantedAt, t.StartedAt, t.EndedAt = in(t.GrantedAt, zone), in(t.StartedAt, zone), in(t.EndedAt, zone)
		if !isDigest(t.SHA256) {
			t.SHA256 = ""
		}
	}
	return list
}

// rowOf copies what the candidate knows, without a judgement.
func rowOf(c *store.Candidate, columns int) protocol.StoreRow {
	row := protocol.StoreRow{
		StoreID: c.Place.StoreID, Name: c.Place.Name, Labels: c.Place.Labels,
		TaskID: c.Task.TaskID, Status: c.Task.State.Status, Attempt: c.Task.State.Attempt,
		TerminalID: c.Task.HolderID, FinishedAt: protocol.At(c.Task.SettledAt),
		Columns: make([]json.RawMessage, columns),
	}
	if row.Labels == nil {
		row.Labels = map[string]string{}
	}
	a := c.Attempt
	succeeded := c.Task.State.Status == task.Succeeded
	for i := range row.Columns {
		row.Columns[i] = json.RawMessage("null")
		if succeeded && a != nil && i < len(a.Columns) && len(a.Columns[i]) > 0 {
			row.Columns[i] = a.Columns[i]
		}
	}
	switch {
	case succeeded && a != nil:
		row.Bytes = a.Bytes
		if isDigest(a.SHA256) {
			row.SHA256 = a.SHA256
		}
	case a != nil && a.Failure != nil:
		row.Error = a.Failure
	case c.Task.State.Status == task.Failed && c.Task.LastCode != "":
		row.Error = &protocol.Failure{Code: c.Task.LastCode}
	}
	if row.FinishedAt.IsZero() && a != nil {
		row.FinishedAt = protocol.At(a.ReceivedAt)
	}
	return row
}

func isDigest(s string) bool {
	const hexDigits = "0123456789abcdef"
	return len(s) == 2*sha256.Size && strings.Trim(s, hexDigits) == ""
}

func in(t protocol.Time, zone *time.Location) protocol.Time {
	if t.IsZero() {
		return protocol.Time{}
	}
	return protocol.Time{Time: t.In(zone)}
}

// firstRows judges every target of a snapshot. withdrawn is true when the last
// thing that happened to the run is that somebody withdrew what was left.
func firstRows(snap Snapshot, run *store.Run, now time.Time, zone *time.Location) (rows []store.OutcomeRow, withdrawn bool, err error) {
	rows = make([]store.OutcomeRow, 0, run.Targets)
	var last time.Time
	for t, err := range targets(snap) {
		if err != nil {
			return nil, false, err
		}
		row, err := t.row(run, now, zone, "")
		if err != nil {
			return nil, false, err
		}
		rows = append(rows, row)
		for i := range t {
			at, byHand := t[i].Task.SettledAt, cancelledByHand(t[i].Task)
			if at.After(last) {
				last, withdrawn = at, byHand
			} else if at.Equal(last) && byHand {
				withdrawn = true
			}
		}
	}
	return rows, withdrawn, nil
}

func cancelledByHand(t store.Task) bool {
	if t.State.Status != task.Cancelled {
		return false
	}
	reason := cancelReason(t)
	return reason == task.ReasonByUser || reason == task.ReasonRunAborted
}

// lateTargets are the targets that late answers settled.
func lateTargets(snap Snapshot) ([]target, error) {
	var list []target
	for t, err := range targets(snap) {
		if err != nil {
			return nil, err
		}
		if t.settled() && t.late() {
			list = append(list, t)
		}
	}
	return list, nil
}

// changedRows are the new rows of those late targets that the newest revision
// does not yet show as late: a final outcome moves once.
func changedRows(late []target, newest iter.Seq2[store.OutcomeRow, error], run *store.Run, now time.Time, zone *time.Location) ([]store.OutcomeRow, error) {
	var rows []store.OutcomeRow
	if len(late) == 0 {
		return nil, nil
	}
	for old, err := range newest {
		if err != nil {
			return nil, err
		}
		for len(late) > 0 && late[0][0].Place.StoreID < old.StoreID {
			return nil, fmt.Errorf("store %s has an answer and no row", late[0][0].Place.StoreID)
		}
		if len(late) == 0 || late[0][0].Place.StoreID != old.StoreID {
			continue
		}
		t := late[0]
		late = late[1:]
		var was protocol.StoreRow
		if err := json.Unmarshal(old.Row, &was); err != nil {
			return nil, fmt.Errorf("cannot read the row of store %s: %w", old.StoreID, err)
		}
		if was.Late {
			continue
		}
		row, err := t.row(run, now, zone, was.AtBarrier)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}
