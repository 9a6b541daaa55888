package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

// again makes a retry of a run at stores by number; its tasks are named for it.
func (b *bundle) again(id, parent string, stores ...int) error {
	b.t.Helper()
	run := newRun(id)
	run.ParentRun = parent
	var places []store.Place
	var tasks []store.NewTask
	for _, i := range stores {
		places = append(places, store.Place{StoreID: storeID(i), TimeZone: "Asia/Shanghai"})
		tasks = append(tasks, store.NewTask{TaskID: id + "-" + taskID(i), StoreID: storeID(i)})
	}
	_, err := b.CreateRun(b.t.Context(), run, places, tasks, store.Request{}, later)
	return err
}

// ends lets a task of a retry be executed.
func (b *bundle) ends(id string, i int, well bool) {
	b.t.Helper()
	name := id + "-" + taskID(i)
	g, err := b.Grant(b.t.Context(), store.Grant{TaskID: name, StoreID: storeID(i), TerminalID: "pos1", LeaseUntil: later.Add(time.Minute)}, later)
	if err != nil || g.Refusal != "" {
		b.t.Fatalf("%+v, %v", g, err)
	}
	a := failure(i, 1, task.GiveUp)
	if well {
		a = success(i, 1, `{}`)
	}
	a.Attempt.TaskID = name
	b.settle(a, later)
}

// reports adds the next revision of a run, with one outcome for the stores.
func (b *bundle) reports(id string, revision int, outcome task.Outcome, stores ...int) {
	b.t.Helper()
	if revision == 1 {
		snap, err := b.CloseBarrier(b.t.Context(), id, later)
		if err == nil {
			err = snap.Close()
		}
		if err != nil {
			b.t.Fatal(err)
		}
	}
	rev := store.NewRevision{RunID: id, Revision: revision, Why: string(protocol.WhyRetryResults), AsOf: later}
	for _, i := range stores {
		reason := task.ReasonNone
		if outcome != task.OutcomeSucceeded {
			reason = outcome.Reasons()[0]
		}
		rev.Rows = append(rev.Rows, store.OutcomeRow{StoreID: storeID(i), Outcome: outcome, Reason: reason, Row: json.RawMessage(`{}`)})
	}
	if err := b.AddRevision(b.t.Context(), rev, later); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) missing(runID string) string {
	b.t.Helper()
	list, err := b.ListMissing(b.t.Context(), runID)
	if err != nil {
		b.t.Fatal(err)
	}
	var ids []string
	for _, m := range list {
		ids = append(ids, strings.TrimLeft(m.StoreID, "0")+string(m.Outcome[:1]))
	}
	return strings.Join(ids, " ")
}

func (b *bundle) unmerged() string {
	b.t.Helper()
	runs, err := b.ListUnmerged(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	var ids []string
	for _, r := range runs {
		ids = append(ids, fmt.Sprintf("%s %d/%d", r.RunID, r.Merged, r.Revision))
	}
	return strings.Join(ids, ", ")
}

// TestAStoreIsAskedOnceByAllWhoRetry: retries of a run, and retries of these, are one
// family; none asks what another one asks.
func TestAStoreIsAskedOnceByAllWhoRetry(t *testing.T) {
	t.Parallel()
	b := setup(t)
	defer b.close()
	b.create(4)
	if got := b.missing("R"); got != "" {
		t.Errorf("before the barrier: %s", got)
	}
	b.reports("R", 1, task.OutcomeOffline, 0, 1, 2, 3)
	want := func(runID, stores string) {
		t.Helper()
		if got := b.missing(runID); got != stores {
			t.Errorf("run %s misses %q, want %q", runID, got, stores)
		}
	}
	want("R", "o 1o 2o 3o")
	if err := b.again("A", "R", 1, 2); err != nil {
		t.Fatal(err)
	}
	if k := b.stateOf(1); k.Status != task.Cancelled {
		t.Errorf("the parent's offer: %+v", k)
	}
	want("R", "o 3o")
	b.ends("A", 1, false)
	b.ends("A", 2, false)
	b.reports("A", 1, task.OutcomeFailed, 1, 2)
	want("A", "1f 2f")
	want("R", "o 1o 2o 3o")
	if err := b.again("AA", "A", 1); err != nil {
		t.Fatal(err)
	}
	want("A", "2f")
	want("R", "o 2o 3o") // its retry's retry asks it
	if err := b.again("B", "R", 1); !errors.Is(err, store.ErrNotMissing) {
		t.Errorf("asked by the retry of a retry: %v", err)
	}
	if err := b.again("B", "R", 2); err != nil {
		t.Fatal(err)
	}
	want("A", "") // the other retry of its parent asks it
	if err := b.again("AB", "A", 2); !errors.Is(err, store.ErrNotMissing) {
		t.Errorf("asked by a sister: %v", err)
	}
	b.ends("AA", 1, true)
	want("R", "o 3o") // on its way
	b.ends("B", 2, true)
	want("A", "2f") // B is nothing of A's
	want("R", "o 3o")
}

// TestTwoRetriesAtOnceAskAStoreOnce: many ask for the same at the same time.
func TestTwoRetriesAtOnceAskAStoreOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	defer b.close()
	b.create(2)
	b.reports("R", 1, task.OutcomeTimedOut, 0, 1)
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for n := range errs {
		wg.Go(func() { errs[n] = b.again(fmt.Sprintf("A%d", n), "R", 0, 1) })
	}
	wg.Wait()
	made := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return errors.Is(err, store.ErrNotMissing) })
	if len(made) != 1 || made[0] != nil {
		t.Errorf("made: %v, all: %v", made, errs)
	}
	if n := b.rowsOf("runs"); n != 2 {
		t.Errorf("%d runs", n)
	}
}

// TestWhatIsNotMergedIsKnownAfterACrash, and is over when it was merged, whichever
// came last.
func TestWhatIsNotMergedIsKnownAfterACrash(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(2)
	b.reports("R", 1, task.OutcomeOffline, 0, 1)
	if err := b.again("A", "R", 0, 1); err != nil {
		t.Fatal(err)
	}
	b.reports("A", 1, task.OutcomeFailed, 0, 1)
	b.reopen()
	defer b.close()
	if got := b.unmerged(); got != "A 0/1" {
		t.Errorf("got %s", got)
	}
	b.reports("A", 2, task.OutcomeSucceeded, 1)
	mark := func(revision int) {
		t.Helper()
		if err := b.MarkMerged(t.Context(), "A", revision); err != nil {
			t.Fatal(err)
		}
	}
	mark(1)
	if got := b.unmerged(); got != "A 1/2" {
		t.Errorf("got %s", got)
	}
	mark(2)
	mark(1) // overtaken
	if got := b.unmerged(); got != "" {
		t.Errorf("got %s", got)
	}
}

// TestAReportIsUnfinishedAsLongAsAnAnswerMayCome: its own, or one that a retry, or the
// retry of a retry, hands up; and until its files stand.
func TestAReportIsUnfinishedAsLongAsAnAnswerMayCome(t *testing.T) {
	t.Parallel()
	b := setup(t)
	defer b.close()
	want := func(what, runs string) {
		t.Helper()
		unfinished, err := b.ListUnfinished(t.Context())
		if got := strings.Join(slices.Sorted(maps.Keys(unfinished)), " "); err != nil || got != runs {
			t.Errorf("%s: %q, want %q, %v", what, got, runs, err)
		}
	}
	ends := func(id string, revisions int) {
		t.Helper()
		for n := range revisions {
			if err := b.MarkPublished(t.Context(), id, n+1, nil, later); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := b.CloseRun(t.Context(), id, task.ReasonExpired, later); err != nil {
			t.Fatal(err)
		}
	}
	b.create(2)
	b.reports("R", 1, task.OutcomeOffline, 0, 1)
	want("in its make-up", "R")
	if err := b.again("A", "R", 0, 1); err != nil {
		t.Fatal(err)
	}
	ends("R", 1)
	want("closed, its retry open", "A R")
	b.ends("A", 0, false)
	b.reports("A", 1, task.OutcomeFailed, 0, 1)
	if err := b.again("AA", "A", 0); err != nil {
		t.Fatal(err)
	}
	ends("A", 1)
	if err := b.MarkMerged(t.Context(), "A", 1); err != nil {
		t.Fatal(err)
	}
	want("the retry of its retry open", "A AA R")
	b.ends("AA", 0, true)
	b.reports("AA", 1, task.OutcomeSucceeded, 0)
	ends("AA", 1)
	want("that one not merged", "A AA R")
	b.reports("A", 2, task.OutcomeSucceeded, 0)
	if err := b.MarkMerged(t.Context(), "AA", 1); err != nil {
		t.Fatal(err)
	}
	want("merged into the retry alone", "A R")
	if err := b.MarkMerged(t.Context(), "A", 2); err != nil {
		t.Fatal(err)
	}
	want("its files to be published", "A R")
	if err := b.MarkPublished(t.Context(), "A", 2, nil, later); err != nil {
		t.Fatal(err)
	}
	want("all over", "")
}

// TestARestoreForgetsTheMergeAndItIsDoneAgain: the backup was made between a retry's
// report and its merge; the parent's lost revision is made again.
func TestARestoreForgetsTheMergeAndItIsDoneAgain(t *testing.T) {
	t.Parallel()
	b, file := backedUp(t, func(b *bundle) {
		b.create(1)
		b.reports("R", 1, task.OutcomeOffline, 0)
		if err := b.again("A", "R", 0); err != nil {
			b.t.Fatal(err)
		}
		b.ends("A", 0, true)
		b.reports("A", 1, task.OutcomeSucceeded, 0)
	})
	b.reports("R", 2, task.OutcomeSucceeded, 0)
	if err := b.MarkMerged(t.Context(), "A", 1); err != nil {
		t.Fatal(err)
	}
	b.restore(file, later.Add(time.Hour))
	defer b.close()
	if got := b.unmerged(); got != "A 0/1" {
		t.Errorf("got %s", got)
	}
	if got := b.missing("R"); got != "" {
		t.Errorf("asked again while its answer is on its way: %s", got)
	}
	b.reports("R", 2, task.OutcomeSucceeded, 0)
}

// TestWhatIsMissingIsFoundByIndexes however many runs and tasks there are.
func TestWhatIsMissingIsFoundByIndexes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	defer b.close()
	for name, plan := range map[string]func(context.Context) (string, error){"missing": b.MissingPlan, "unmerged": b.UnmergedPlan} {
		got, err := plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(got) {
			if scans := strings.HasPrefix(line, "SCAN runs") || strings.HasPrefix(line, "SCAN c") || strings.HasPrefix(line, "SCAN k") || strings.HasPrefix(line, "SCAN o") || strings.HasPrefix(line, "SCAN t") || strings.HasPrefix(line, "SCAN n"); scans && !strings.Contains(line, "USING INDEX runs_retrying") {
				t.Errorf("%s: %sin\n%s", name, line, got)
			}
		}
		if !strings.Contains(got, "runs_retrying") {
			t.Errorf("%s does not use the index of retries:\n%s", name, got)
		}
	}
}
