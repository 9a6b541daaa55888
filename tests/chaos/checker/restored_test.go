package checker_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
)

// above lets the second attempt of R1-B have the number that it has after a
// restore.
func above(w *world) {
	const skipped = 7_674_592
	number := fmt.Sprintf(`"attempt":%d`, 2+skipped)
	for i, l := range w.e.History {
		if strings.Contains(l.Payload, "R1-B") {
			w.e.History[i].Payload = strings.ReplaceAll(l.Payload, `"attempt":2`, number)
		}
		if l.Act == history.ActExecuted && l.Task == "R1-B" && l.Attempt == 2 {
			w.e.History[i].Attempt += skipped
		}
	}
	for i, o := range w.e.Store.Outcomes {
		if o.RunID == "R1" && o.StoreID == "B" {
			w.e.Store.Outcomes[i].Row = strings.ReplaceAll(o.Row, `"attempt":2`, number)
		}
	}
	w.attempt("R1-B", 2).Attempt += skipped
	b := w.task("R1-B")
	b.Attempt, b.Attempts, b.Skipped = b.Attempt+skipped, b.Attempts+skipped, skipped
}

func TestAttemptsAboveARestoreAreJudgedLikeOthers(t *testing.T) {
	t.Parallel()
	with := func(change func(*world)) func(*world) {
		return func(w *world) { above(w); change(w) }
	}
	first := func(a checker.Attempt) bool { return a.TaskID == "R1-B" && a.Attempt == 1 }
	for _, p := range []plant{
		{name: "as it should be", before: above},
		{name: "no record of the first", want: `the store is at attempt 7674594 of it, skipped 7674592, and has 1 records`,
			before: with(func(w *world) { w.e.Store.Attempts = slices.DeleteFunc(w.e.Store.Attempts, first) })},
		{name: "a success before it", want: `it succeeded, and attempt 7674594 was granted all the same`,
			before: with(func(w *world) { a := w.attempt("R1-B", 1); a.Answer, a.Code = "succeeded", "" })},
		{name: "a success without an answer", want: `the task is SUCCEEDED and its attempt ended as "failed" with code ""`,
			before: with(func(w *world) { w.attempt("R1-B", 7_674_594).Answer = "failed" })},
	} {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			var said []string
			for _, f := range p.found(t) {
				said = append(said, f.String())
			}
			if p.want == "" && len(said) > 0 || !strings.Contains(strings.Join(said, "\n"), p.want) {
				t.Errorf("found %q, want %q", said, p.want)
			}
		})
	}
}
