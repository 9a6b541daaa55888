package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

// judged turns a snapshot's candidates into rows, closing it.
func (b *bundle) judged(snap *store.Snapshot) []store.OutcomeRow {
	b.t.Helper()
	var rows []store.OutcomeRow
	for c, err := range snap.Candidates() {
		if err != nil {
			b.t.Fatal(err)
		}
		row := store.OutcomeRow{StoreID: c.Place.StoreID, Outcome: task.OutcomeOffline, Reason: task.ReasonOfflineWholeWindow}
		switch {
		case c.Task.State.Status == task.Succeeded:
			row.Outcome, row.Reason = task.OutcomeSucceeded, task.ReasonNone
		case c.Task.State.Status == task.Failed && c.Task.State.Settled:
			row.Outcome, row.Reason = task.OutcomeFailed, task.ReasonExecutionError
		}
		row.Row = json.RawMessage(fmt.Sprintf(`{"storeId":%q,"x":1.0,"attempt":%d}`, row.StoreID, c.Task.State.Attempt))
		rows = append(rows, row)
	}
	if err := snap.Close(); err != nil {
		b.t.Fatal(err)
	}
	return rows
}

func (b *bundle) barrier(now time.Time) *store.Snapshot {
	b.t.Helper()
	snap, err := b.CloseBarrier(b.t.Context(), "R", now)
	if err != nil {
		b.t.Fatal(err)
	}
	return snap
}

func (b *bundle) snapshot() *store.Snapshot {
	b.t.Helper()
	snap, err := b.Snapshot(b.t.Context(), "R")
	if err != nil {
		b.t.Fatal(err)
	}
	return snap
}

func (b *bundle) revise(revision int, rows []store.OutcomeRow) {
	b.t.Helper()
	err := b.AddRevision(b.t.Context(), store.NewRevision{RunID: "R", Revision: revision, Why: "barrier", AsOf: at(time.Hour), Rows: rows}, at(time.Hour))
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) lateChanges() int {
	b.t.Helper()
	n, err := b.LateChanges(b.t.Context(), "R")
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

func (b *bundle) loaded(revision int) map[string]task.Outcome {
	b.t.Helper()
	rows := map[string]task.Outcome{}
	last := ""
	for row, err := range b.LoadRows(b.t.Context(), "R", revision) {
		if err != nil {
			b.t.Fatal(err)
		}
		if row.StoreID <= last {
			b.t.Errorf("%s after %s", row.StoreID, last)
		}
		last = row.StoreID
		rows[row.StoreID] = row.Outcome
	}
	return rows
}

func TestCandidatesTellEverything(t *testing.T) {
	t.Parallel()
	b := setup(t)
	places, tasks := targets(4)
	tasks = append(tasks, store.NewTask{TaskID: "S", StoreID: storeID(0)})
	if _, err := b.CreateRun(t.Context(), newRun("R"), places, tasks, store.Request{}, t0); err != nil {
		t.Fatal(err)
	}
	skew := int64(77)
	if _, err := b.SetPresence(t.Context(), store.Terminal{StoreID: storeID(1), TerminalID: "pos1", Online: true, SessionID: "A", Since: t0}, t0); err != nil {
		t.Fatal(err)
	}
	if err := b.SaveHello(t.Context(), store.Terminal{StoreID: storeID(1), TerminalID: "pos1", ClockSkewMs: &skew}, at(time.Second)); err != nil {
		t.Fatal(err)
	}
	b.grant(1, t0)
	b.settle(failure(1, 1, task.Fail), t0)
	b.grant(1, at(time.Minute))
	b.settle(failure(1, 2, task.Fail), at(time.Minute))
	b.grant(2, t0)
	b.settle(failure(2, 1, task.Fail), t0)
	b.grant(2, at(time.Minute))
	b.settle(leaseEnd(2, 2, task.GiveUp), at(time.Minute))
	snap := b.barrier(at(2 * time.Minute))
	var got []store.Candidate
	for c, err := range snap.Candidates() {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, c)
	}
	if err := snap.Close(); err != nil {
		t.Fatal(err)
	}
	if snap.Run.BarrierClosedAt != at(2*time.Minute) {
		t.Errorf("run %+v", snap.Run)
	}
	ids := ""
	for _, c := range got {
		ids += c.Place.StoreID + "/" + c.Task.TaskID + " "
	}
	if want := "000000/S 000000/T000000 000001/T000001 000002/T000002 000003/T000003 "; ids != want {
		t.Fatalf("order %s, want %s", ids, want)
	}
	if c := got[0]; c.Attempt != nil || c.Online || !c.LastSeen.IsZero() || c.SkewMs != nil || c.Place.Labels["city"] != "杭州" || c.SameCodes {
		t.Errorf("untouched: %+v", c)
	}
	if c := got[2]; c.Attempt == nil || c.Attempt.Attempt != 2 || !c.Online || c.LastSeen != at(time.Second) || c.SkewMs == nil || *c.SkewMs != 77 || !c.SameCodes {
		t.Errorf("failed twice alike: %+v", c)
	}
	if c := got[3]; c.SameCodes || c.Attempt.Failure.Code != protocol.CodeLeaseExpired || c.Online {
		t.Errorf("failed in two ways: %+v", c)
	}
	told := ""
	for _, c := range got {
		for _, try := range c.Tries {
			told += fmt.Sprintln(c.Place.StoreID, try.Attempt, try.TerminalID, try.GrantedAt.Sub(t0), try.EndedAt.Sub(t0), try.Answer, try.Code, try.Message, try.ExitCode != nil, try.SHA256 != "", try.Bytes > 0)
		}
	}
	if want := `000001 1 pos1 0s 0s failed EXECUTION exit 1 false true false
000001 2 pos1 1m0s 1m0s failed EXECUTION exit 1 false true false
000002 1 pos1 0s 0s failed EXECUTION exit 1 false true false
000002 2 pos1 1m0s 1m0s  LEASE_EXPIRED silent false false false
`; told != want {
		t.Errorf("the attempts are\n%s\nwant\n%s", told, want)
	}
}

func TestSnapshotStandsStillWhileWritesGoOn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(100)
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range 100 {
		b.grant(i, t0)
		wg.Go(func() {
			<-begin
			if _, err := b.Settle(t.Context(), success(i, 1, `{}`), at(time.Second)); err != nil {
				t.Error(err)
			}
		})
	}
	close(begin)
	snap := b.barrier(at(2 * time.Minute))
	count := func() (n int) {
		for c, err := range snap.Candidates() {
			if err != nil {
				t.Error(err)
			}
			if c.Task.State.Settled {
				n++
			}
		}
		return n
	}
	first := count()
	wg.Wait()
	if again := count(); again != first {
		t.Errorf("the snapshot moved from %d to %d settled", first, again)
	}
	// Who is not in the snapshot came after the mark, and who came after the
	// mark is not in the snapshot.
	if late := b.lateChanges(); first+late != 100 {
		t.Errorf("%d in the snapshot and %d late of 100", first, late)
	}
	rows := b.judged(snap)
	b.revise(1, rows)
	if late := b.lateChanges(); first+late != 100 {
		t.Errorf("after revision 1: %d in the snapshot and %d late of 100", first, late)
	}
}

func TestCandidatesStream(t *testing.T) {
	t.Parallel()
	b := setup(t)
	plan, err := b.CandidatesPlan(t.Context())
	if err != nil || !strings.HasPrefix(plan, "SEARCH") || !strings.HasSuffix(plan, "TEMP B-TREE FOR ORDER BY") {
		t.Fatalf("%s, %v", plan, err)
	}
	// One sort is of a store's terminals; a second would gather the whole run
	// in memory before the first row.
	if n := strings.Count(plan, "FOR ORDER BY"); n != 1 {
		t.Errorf("%d sorts:\n%s", n, plan)
	}
}

func TestClosingTheBarrierAgainKeepsTheFirstMark(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(2)
	b.closeBarrier(at(time.Minute))
	b.grant(0, at(time.Minute))
	b.settle(success(0, 1, `{}`), at(time.Minute))
	rows := b.judged(b.barrier(at(time.Hour)))
	if rows[0].Outcome != task.OutcomeSucceeded {
		t.Errorf("the second snapshot is not fresh: %+v", rows[0])
	}
	run, err := b.GetRun(t.Context(), "R")
	if err != nil || run.BarrierClosedAt != at(time.Minute) || run.Phase() != protocol.PhaseMakeup {
		t.Errorf("%+v, %v", run, err)
	}
}

func TestRevisionsFollowLateAnswers(t *testing.T) { // I5
	t.Parallel()
	b := setup(t)
	b.create(4)
	for i := range 4 {
		b.grant(i, t0)
	}
	b.settle(success(0, 1, `{}`), t0)
	b.revise(1, b.judged(b.barrier(at(2*time.Minute))))
	if n := b.lateChanges(); n != 0 {
		t.Errorf("%d late changes after revision 1", n)
	}
	b.settle(success(1, 1, `{}`), at(3*time.Minute))
	b.settle(success(1, 1, `{}`), at(3*time.Minute))
	b.settle(failure(2, 1, task.Fail), at(3*time.Minute)) // a retry is to follow
	if n := b.lateChanges(); n != 1 {
		t.Errorf("%d late changes, want 1", n)
	}
	rows := b.judged(b.snapshot())
	b.settle(success(3, 1, `{}`), at(4*time.Minute)) // after the snapshot
	b.revise(2, rows[1:2])
	if n := b.lateChanges(); n != 1 {
		t.Errorf("%d late changes, want the one that revision 2 did not see", n)
	}
	b.grant(2, at(5*time.Minute))
	b.settle(failure(2, 2, task.Fail), at(5*time.Minute))
	b.reopen() // the count does not live in memory
	if n := b.lateChanges(); n != 2 {
		t.Errorf("%d late changes, want 2", n)
	}
	b.revise(3, b.judged(b.snapshot())[2:])
	if n := b.lateChanges(); n != 0 {
		t.Errorf("%d late changes after revision 3", n)
	}
	want := map[int]string{1: "succeeded offline offline offline", 2: "succeeded succeeded offline offline", 3: "succeeded succeeded failed succeeded"}
	for revision, outcomes := range want {
		got := b.loaded(revision)
		text := fmt.Sprintf("%s %s %s %s", got[storeID(0)], got[storeID(1)], got[storeID(2)], got[storeID(3)])
		if text != outcomes {
			t.Errorf("revision %d is %s, want %s", revision, text, outcomes)
		}
	}
	for row, err := range b.LoadRows(t.Context(), "R", 1) {
		if err != nil || string(row.Row) != `{"storeId":"000000","x":1.0,"attempt":1}` {
			t.Errorf("row %s, %v", row.Row, err)
		}
		break
	}
}

func TestRevisionWithoutSnapshotClaimsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(1)
	b.grant(0, t0)
	rows := b.judged(b.barrier(at(2 * time.Minute)))
	b.revise(1, rows)
	b.settle(success(0, 1, `{}`), at(3*time.Minute))
	b.revise(2, rows)
	if n := b.lateChanges(); n != 1 {
		t.Errorf("%d late changes: an answer that no snapshot saw is lost", n)
	}
}

func TestRevisionClaimsNoMoreThanTheOldestSnapshotSaw(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(1)
	b.grant(0, t0)
	rows := b.judged(b.barrier(at(2 * time.Minute)))
	b.settle(success(0, 1, `{}`), at(3*time.Minute))
	b.judged(b.snapshot()) // somebody looks, and sees it
	b.revise(1, rows)
	if n := b.lateChanges(); n != 1 {
		t.Errorf("%d late changes: revision 1 claims what its snapshot did not see", n)
	}
	b.revise(2, b.judged(b.snapshot()))
	if n := b.lateChanges(); n != 0 {
		t.Errorf("%d late changes after revision 2", n)
	}
}

func TestRefusedRevisions(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(3)
	add := func(revision int, rows []store.OutcomeRow) error {
		return b.AddRevision(t.Context(), store.NewRevision{RunID: "R", Revision: revision, Why: "x", Rows: rows}, at(time.Hour))
	}
	rows := []store.OutcomeRow{}
	for i := range 3 {
		rows = append(rows, store.OutcomeRow{StoreID: storeID(i), Outcome: task.OutcomeSucceeded, Row: json.RawMessage(`{}`)})
	}
	if err := add(1, rows); err == nil {
		t.Error("a revision before the barrier was taken")
	}
	b.closeBarrier(at(time.Minute))
	stranger := append([]store.OutcomeRow{{StoreID: "x", Outcome: task.OutcomeSucceeded, Row: json.RawMessage(`{}`)}}, rows[1:]...)
	twice := append([]store.OutcomeRow{rows[0]}, rows[:2]...)
	for name, bad := range map[string][]store.OutcomeRow{"a target missing": rows[:2], "a stranger": stranger, "a target twice": twice} {
		if err := add(1, bad); err == nil {
			t.Errorf("revision 1 with %s was taken", name)
		}
	}
	if revisions, err := b.ListRevisions(t.Context(), "R"); err != nil || len(revisions) != 0 {
		t.Errorf("%+v, %v", revisions, err)
	}
	if n := len(b.loaded(1)); n != 0 {
		t.Errorf("%d rows of unfinished revisions are shown", n)
	}
	if err := add(2, rows); err == nil {
		t.Error("revision 2 before 1 was taken")
	}
	b.heard()
	if err := add(1, rows); err != nil {
		t.Fatal(err)
	}
	if changes := b.heard(); len(changes) != 1 || changes[0].Kind != store.RevisionReady || changes[0].Revision != 1 || changes[0].RunID != "R" {
		t.Errorf("heard %+v", changes)
	}
	if err := add(1, rows); !errors.Is(err, store.ErrExists) {
		t.Errorf("revision 1 again: %v", err)
	}
	for _, statement := range []string{"UPDATE outcomes SET row = '{}'", "DELETE FROM outcomes", "UPDATE run_targets SET name = ''"} {
		if _, err := b.raw().ExecContext(t.Context(), statement); err == nil {
			t.Errorf("%s was taken", statement)
		}
	}
}

func TestUnfinishedRevisionIsDroppedAtOpen(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(2)
	b.closeBarrier(at(time.Minute))
	for _, statement := range []string{
		"INSERT INTO revisions (run_id, revision, why, as_of, seen) VALUES ('R', 1, 'barrier', 1, 0)",
		"INSERT INTO outcomes (run_id, revision, store_id, outcome, reason, row) VALUES ('R', 1, '000000', 'succeeded', '', '{}')",
	} {
		if _, err := b.raw().ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	b.reopen()
	if b.rowsOf("revisions") != 0 || b.rowsOf("outcomes") != 0 {
		t.Error("what a killed process left is still there")
	}
	run, err := b.GetRun(t.Context(), "R")
	if err != nil || run.Revision != 0 || run.BarrierClosedAt.IsZero() {
		t.Errorf("%+v, %v", run, err)
	}
	b.revise(1, b.judged(b.barrier(at(time.Hour))))
}

func TestAnswersComeInWhileARevisionIsWritten(t *testing.T) {
	t.Parallel()
	const stores = 9000
	b := setup(t)
	b.create(stores)
	b.grant(0, t0)
	rows := b.judged(b.barrier(at(2 * time.Minute)))
	seen := make(chan int, 1)
	begun := make(chan struct{})
	var once sync.Once
	go func() { // answers between the chunks
		n := 0
		defer func() { seen <- n }()
		for {
			run, err := b.GetRun(t.Context(), "R")
			if err != nil || run.Revision == 1 {
				return
			}
			if err := b.Beat(t.Context(), t0); err != nil {
				return
			}
			n++
			once.Do(func() { close(begun) })
		}
	}()
	<-begun
	b.revise(1, rows)
	if n := <-seen; n < 2 {
		t.Errorf("only %d other writes were committed meanwhile", n)
	}
	if n := len(b.loaded(1)); n != stores {
		t.Errorf("%d rows", n)
	}
}

func TestPublishedFilesAreKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(1)
	rows := b.judged(b.barrier(at(2 * time.Minute)))
	if err := b.MarkPublished(t.Context(), "R", 1, nil, t0); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a revision that is not there: %v", err)
	}
	b.revise(1, rows)
	due, err := b.UnpublishedRevisions(t.Context())
	if err != nil || len(due) != 1 || due[0].Why != "barrier" || due[0].AsOf != at(time.Hour) || len(due[0].Files) != 0 {
		t.Fatalf("%+v, %v", due, err)
	}
	for _, name := range []string{"first.json", "second.json"} {
		if err := b.MarkPublished(t.Context(), "R", 1, []protocol.ManifestFile{{Name: name, Bytes: 3, SHA256: "x"}}, at(2*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	revisions, err := b.ListRevisions(t.Context(), "R")
	if err != nil || len(revisions) != 1 || revisions[0].Files[0].Name != "first.json" || revisions[0].PublishedAt != at(2*time.Hour) {
		t.Errorf("%+v, %v", revisions, err)
	}
	if due, err := b.UnpublishedRevisions(t.Context()); err != nil || len(due) != 0 {
		t.Errorf("%+v, %v", due, err)
	}
}
