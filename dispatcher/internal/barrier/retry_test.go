package barrier_test

import (
	"encoding/json"
	"iter"
	"slices"
	"testing"

	"muster/dispatcher/internal/barrier"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

// rowsOf is a revision with one row an outcome, of the stores a, b, c and so on.
func rowsOf(t *testing.T, outcomes ...task.Outcome) iter.Seq2[store.OutcomeRow, error] {
	t.Helper()
	var rows []store.OutcomeRow
	for i, o := range outcomes {
		id := string(rune('a' + i))
		raw, err := json.Marshal(protocol.StoreRow{StoreID: id, Name: string(o), Outcome: o, AtBarrier: o, TaskID: "T-" + id})
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, store.OutcomeRow{StoreID: id, Outcome: o, Row: raw})
	}
	return func(yield func(store.OutcomeRow, error) bool) {
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}
}

// TestARetryMovesAnOutcomeForwardAndNeverBack tries each outcome of a parent with each
// of a retry (I5, and "the final outcome may change once, forward").
func TestARetryMovesAnOutcomeForwardAndNeverBack(t *testing.T) {
	t.Parallel()
	forward := map[task.Outcome][]task.Outcome{
		task.OutcomeOffline:  {task.OutcomeFailed, task.OutcomeSucceeded},
		task.OutcomeTimedOut: {task.OutcomeFailed, task.OutcomeSucceeded},
		task.OutcomeFailed:   {task.OutcomeSucceeded},
	}
	for _, was := range task.Outcomes() {
		for _, now := range task.Outcomes() {
			rows, err := barrier.ForwardRows(rowsOf(t, was, was), rowsOf(t, now))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(forward[was], now) {
				if len(rows) != 0 {
					t.Errorf("%s became %s", was, now)
				}
				continue
			}
			var row protocol.StoreRow
			if len(rows) != 1 || json.Unmarshal(rows[0].Row, &row) != nil {
				t.Errorf("%s to %s: %d rows", was, now, len(rows))
				continue
			}
			if rows[0].StoreID != "a" || rows[0].Outcome != now || row.Outcome != now || row.AtBarrier != was || !row.Late || row.Name != string(was) || row.TaskID != "T-a" {
				t.Errorf("%s to %s: %+v", was, now, row)
			}
		}
	}
}
