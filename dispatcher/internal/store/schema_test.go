package store_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"

	"muster/internal/protocol"
	"muster/internal/task"
)

// states is every combination of the parts of a state, valid or not.
func states() []task.State {
	var all []task.State
	for _, status := range append(task.Statuses(), "LOST", "pending", "") {
		for attempt := -1; attempt <= 3; attempt++ {
			for _, settled := range []bool{false, true} {
				all = append(all, task.State{Status: status, Attempt: attempt, Settled: settled})
			}
		}
	}
	return all
}

func settledAt(s task.State) int64 {
	if s.Settled {
		return 1
	}
	return 0
}

// tried runs the statements in a transaction that is always undone, and
// returns how the last one ended.
func tried(t *testing.T, db *sql.DB, statements ...string) error {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
	}()
	for i, statement := range statements {
		if _, err := tx.ExecContext(context.WithoutCancel(t.Context()), statement); err != nil {
			if i < len(statements)-1 {
				t.Fatalf("%s: %v", statement, err)
			}
			return err
		}
	}
	return nil
}

func insertIn(s task.State) string {
	return fmt.Sprintf(`INSERT INTO tasks (task_id, run_id, store_id, terminal_id, attempts, created_at, status, attempt, settled_at)
		VALUES ('X', 'R', '000000', '', 9, 1, '%s', %d, %d)`, s.Status, s.Attempt, settledAt(s))
}

func TestSQLTakesExactlyTheValidStates(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(1)
	db := b.raw()
	valid := 0
	for _, s := range states() {
		err := tried(t, db, insertIn(s))
		if (err == nil) != s.Valid() {
			t.Errorf("%+v: valid is %t, SQL says %v", s, s.Valid(), err)
		}
		if s.Valid() {
			valid++
		}
	}
	if valid == 0 {
		t.Error("no state is valid")
	}
}

func TestSQLMakesExactlyTheMovesOfTheTable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(1)
	db := b.raw()
	legal := 0
	for _, from := range states() {
		if !from.Valid() {
			continue
		}
		for _, to := range states() {
			want := slices.ContainsFunc(task.Events(), func(e task.Event) bool {
				next, err := from.Next(e)
				return err == nil && next == to
			})
			err := tried(t, db, insertIn(from), fmt.Sprintf(`UPDATE tasks SET status = '%s', attempt = %d, settled_at = %d WHERE task_id = 'X'`,
				to.Status, to.Attempt, settledAt(to)))
			if (err == nil) != want {
				t.Errorf("%+v to %+v: the table says %t, SQL says %v", from, to, want, err)
			}
			if want {
				legal++
			}
		}
	}
	if legal < len(task.Moves()) {
		t.Errorf("only %d legal moves were tried", legal)
	}
}

func TestSQLKnowsTheSameWords(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(1)
	db := b.raw()
	revision := `INSERT INTO revisions (run_id, revision, why, as_of, seen) VALUES ('R', 1, 'x', 1, 0)`
	for _, outcome := range append(task.Outcomes(), "lost", "") {
		for _, reason := range append(outcome.Reasons(), "") {
			err := tried(t, db, revision, fmt.Sprintf(`INSERT INTO outcomes (run_id, revision, store_id, outcome, reason, row)
				VALUES ('R', 1, '000000', '%s', '%s', '{}')`, outcome, reason))
			want := slices.Contains(outcome.Reasons(), reason)
			if (err == nil) != want {
				t.Errorf("outcome %q, reason %q: known is %t, SQL says %v", outcome, reason, want, err)
			}
		}
	}
	for answer, want := range map[protocol.Answer]bool{
		protocol.AnswerSucceeded: true, protocol.AnswerFailed: true, protocol.AnswerCancelled: true, "lost": false,
	} {
		err := tried(t, db, fmt.Sprintf(`INSERT INTO attempts (task_id, attempt, store_id, terminal_id, granted_at, lease_until, answer, received_at)
			VALUES ('T000000', 1, '000000', 'pos1', 1, 1, '%s', 1)`, answer))
		if (err == nil) != want {
			t.Errorf("answer %q: %v", answer, err)
		}
	}
}

func TestRecordsAreNotRewritten(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(1)
	b.grant(0, t0)
	b.settle(success(0, 1, `{"a":1}`), t0)
	db := b.raw()
	for _, statement := range []string{
		`UPDATE audit SET actor = 'x'`, `DELETE FROM audit`,
		`UPDATE tasks SET store_id = '000000'`, `UPDATE tasks SET run_id = 'R'`, `UPDATE tasks SET input = '{}'`,
		`UPDATE tasks SET attempts = 9`, `UPDATE tasks SET skipped = 1`, `UPDATE tasks SET attempts = 9, skipped = 1`, `UPDATE tasks SET floor = -1`,
		`UPDATE run_targets SET labels = '{}'`,
		`DELETE FROM attempts`, `UPDATE attempts SET result = '{}'`, `UPDATE attempts SET sha256 = 'x'`,
		`INSERT INTO audit (at, actor, action, subject, detail) VALUES ('now', 'x', 'x', 'x', 'x')`,
	} {
		if err := tried(t, db, statement); err == nil {
			t.Errorf("%s was taken", statement)
		}
	}
}

func TestEveryTableIsStrictAndSettledTasksLeaveTheirIndex(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(1)
	rows, err := b.raw().QueryContext(t.Context(), `SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	indexes := 0
	for rows.Next() {
		var kind, name, text string
		if err := rows.Scan(&kind, &name, &text); err != nil {
			t.Fatal(err)
		}
		if kind == "table" && !strings.Contains(text[strings.LastIndex(text, ")"):], "STRICT") {
			t.Errorf("table %s is not strict", name)
		}
		if kind == "index" && strings.Contains(text, "ON tasks") {
			indexes++
			for _, moving := range []string{"status", "attempt", "holder_id", "next_attempt_at", "claimed_at"} {
				if strings.Contains(text, moving) {
					t.Errorf("index %s moves with %s", name, moving)
				}
			}
		}
	}
	if err := rows.Err(); err != nil || indexes != 2 {
		t.Errorf("%d indexes on tasks, %v", indexes, err)
	}
}
