package barrier_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

// The bubble's clock starts on 2000-01-01 at midnight UTC, 8 in Shanghai.
const (
	year = "2000"
	stem = year + "/01/20000101-0800_collect_log_R1_r"
)

// tenStores makes the roll-call of a real night: S0 to S5 well, S6 failed
// after its attempts, S7 silent, S8 offline, S9 cancelled.
func tenStores(d *desk) {
	d.create(10)
	for i := range 8 {
		d.online(i, true)
	}
	for i := range 6 {
		d.succeed(i)
	}
	d.answer(6, d.grant(6, true), protocol.CodeExecution)
	d.answer(6, d.grant(6, true), protocol.CodeExecution)
	d.grant(7, true)
	if _, _, err := d.store.Cancel(d.t.Context(), runID, []string{shop(9)}, task.ReasonByUser, "ada", time.Now()); err != nil {
		d.t.Fatal(err)
	}
}

func TestBarrierClosesOnTheDeadlineAndJudgesEveryStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.start()
		begun := time.Now()
		tenStores(d)
		d.pass(2*time.Minute - time.Millisecond)
		if n := len(d.revisions()); n != 0 {
			t.Fatalf("%d revisions before the deadline", n)
		}
		d.pass(time.Millisecond)
		revs := d.revisions()
		if len(revs) != 1 || revs[0].Why != "barrier" || !revs[0].AsOf.Equal(begun.Add(2*time.Minute)) {
			t.Fatalf("got revisions %+v; want one, as of the deadline", revs)
		}
		want := map[string][2]string{"S006": {"failed", "execution_error"}, "S007": {"timed_out", "started_then_silent"},
			"S008": {"offline", "offline_whole_window"}, "S009": {"cancelled", "by_user"}}
		rows := d.rows(1)
		for i := range 10 {
			row, w := rows[shop(i)], want[shop(i)]
			if i < 6 {
				w = [2]string{"succeeded", ""}
			}
			if string(row.Outcome) != w[0] || string(row.Reason) != w[1] || row.AtBarrier != row.Outcome || row.Late {
				t.Errorf("%s: got %s, %s (at the barrier %s, late %t); want %v", shop(i), row.Outcome, row.Reason, row.AtBarrier, row.Late, w)
			}
		}
		if got := string(rows["S000"].Columns[0]); got != "9007199254740993" {
			t.Errorf("a number lost digits: %s", got)
		}
		if e := rows["S006"].Evidence; e.Attempts != 2 || e.AttemptsOf != 2 || rows["S006"].Error.Code != protocol.CodeExecution {
			t.Errorf("S006 has evidence %+v, error %+v", e, rows["S006"].Error)
		}
		sums := d.summaries()
		counts := protocol.Counts{Succeeded: 6, Failed: 1, TimedOut: 1, Offline: 1, Cancelled: 1}
		if len(sums) != 1 || sums[0].Counts != counts || strings.Join(sums[0].Missing, " ") != "S006 S007 S008 S009" ||
			sums[0].Folder != "2000/01" || len(sums[0].Files) != 3 || sums[0].Text != "said" || sums[0].ID == "" {
			t.Errorf("got summaries %+v", sums)
		}
	})
}

func TestFilesAreWhatTheManifestSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.start()
		tenStores(d)
		d.pass(2 * time.Minute)
		files := d.files()
		var manifest protocol.Manifest
		if err := protocol.Decode([]byte(files[stem+"1_manifest.json"]), 1<<20, &manifest); err != nil {
			t.Fatal(err)
		}
		if len(files) != 3 || len(manifest.Files) != 2 || manifest.Schema != protocol.ManifestSchema || manifest.Supersedes != nil {
			t.Fatalf("got %d files, manifest %+v", len(files), manifest)
		}
		for _, f := range manifest.Files {
			data := files["2000/01/"+f.Name]
			sum := sha256.Sum256([]byte(data))
			if hex.EncodeToString(sum[:]) != f.SHA256 || int64(len(data)) != f.Bytes {
				t.Errorf("%s: the manifest says %d bytes of %s", f.Name, f.Bytes, f.SHA256)
			}
		}
		marked := d.revisions()[0]
		if marked.PublishedAt.IsZero() || len(marked.Files) != 3 || marked.Files[2].Name != filepath.Base(stem+"1_manifest.json") {
			t.Errorf("the store has %+v", marked)
		}
	})
}

func TestLateAnswerMakesRevisionTwoAndLeavesOneAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.start()
		tenStores(d)
		d.pass(2 * time.Minute)
		before := d.files()
		d.pass(time.Minute)
		d.online(8, true)
		d.succeed(8)
		d.pass(2*time.Second - time.Millisecond)
		if n := len(d.revisions()); n != 1 {
			t.Fatalf("%d revisions before it was quiet for 2 s", n)
		}
		d.pass(time.Millisecond)
		revs := d.revisions()
		if len(revs) != 2 || revs[1].Why != "late_results" {
			t.Fatalf("got revisions %+v", revs)
		}
		row := d.rows(2)["S008"]
		if row.Outcome != task.OutcomeSucceeded || row.AtBarrier != task.OutcomeOffline || !row.Late || row.Status != task.Succeeded {
			t.Errorf("got %+v", row)
		}
		if first := d.rows(1)["S008"]; first.Outcome != task.OutcomeOffline {
			t.Errorf("revision 1 changed to %s", first.Outcome)
		}
		after := d.files()
		for name, data := range before {
			if after[name] != data {
				t.Errorf("%s changed", name)
			}
		}
		var manifest protocol.Manifest
		if err := json.Unmarshal([]byte(after[stem+"2_manifest.json"]), &manifest); err != nil || manifest.Reason != protocol.WhyLateResults {
			t.Errorf("got manifest %+v, %v", manifest, err)
		}
		if sums := d.summaries(); len(sums) != 2 || sums[1].Revision != 2 || sums[1].Counts.Succeeded != 7 {
			t.Errorf("got summaries %+v", sums)
		}
	})
}

func TestLateAnswersShareARevisionForFifteenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.start()
		d.create(20)
		d.pass(2 * time.Minute)
		barrierAt := time.Now()
		for i := range 13 { // one each 1.5 s: it is never quiet
			d.online(i, true)
			d.succeed(i)
			d.pass(1500 * time.Millisecond)
		}
		d.pass(2 * time.Second)
		revs := d.revisions()
		if len(revs) != 3 {
			t.Fatalf("got %d revisions; want 3", len(revs))
		}
		if got := revs[1].AsOf.Sub(barrierAt); got != 15*time.Second {
			t.Errorf("revision 2 came %s after the first late answer; want 15s", got)
		}
		second, third := 0, 0
		for i := range 20 {
			if d.rows(2)[shop(i)].Late {
				second++
			}
			if d.rows(3)[shop(i)].Late {
				third++
			}
		}
		if second < 10 || third != 13 {
			t.Errorf("revision 2 has %d late answers, revision 3 %d", second, third)
		}
	})
}

func TestBarrierClosesEarlyWhenNothingIsOpen(t *testing.T) {
	for name, c := range map[string]struct {
		finish func(*desk)
		why    string
	}{
		"all answered": {func(d *desk) { d.succeed(2) }, "all_settled"},
		"the rest was withdrawn": {func(d *desk) {
			if _, _, err := d.store.Cancel(d.t.Context(), runID, nil, task.ReasonByUser, "ada", time.Now()); err != nil {
				d.t.Fatal(err)
			}
		}, "cancelled"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := setup(t)
				d.start()
				d.create(3)
				d.pass(10 * time.Second)
				d.succeed(0)
				d.succeed(1)
				d.pass(10 * time.Second)
				if n := len(d.revisions()); n != 0 {
					t.Fatal("closed while one was open")
				}
				c.finish(d)
				d.pass(time.Second)
				revs := d.revisions()
				if len(revs) != 1 || revs[0].Why != c.why {
					t.Fatalf("got revisions %+v; want one because %s", revs, c.why)
				}
				if run := d.run(); run.Phase() != protocol.PhaseClosed {
					t.Errorf("the run is %s; want closed: nothing can come any more", run.Phase())
				}
				if sums := d.summaries(); len(sums) != 1 {
					t.Errorf("got %d summaries", len(sums))
				}
			})
		})
	}
}

func TestMakeupEndClosesTheRunAndKeepsEveryOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.start()
		tenStores(d)
		d.pass(time.Hour - time.Second)
		if run := d.run(); run.Phase() != protocol.PhaseMakeup {
			t.Fatalf("the run is %s before the end of the make-up window", run.Phase())
		}
		d.online(8, true)
		d.succeed(8) // its quiet time would end after the window
		d.pass(time.Second)
		if run := d.run(); run.Phase() != protocol.PhaseClosed {
			t.Fatalf("the run is %s after the make-up window", run.Phase())
		}
		revs := d.revisions()
		if len(revs) != 2 || revs[1].PublishedAt.IsZero() {
			t.Fatalf("got revisions %+v; want the last answer in revision 2", revs)
		}
		rows := d.rows(2)
		if rows["S008"].Outcome != task.OutcomeSucceeded || rows["S007"].Outcome != task.OutcomeTimedOut {
			t.Errorf("S008 is %s, S007 is %s", rows["S008"].Outcome, rows["S007"].Outcome)
		}
		if silent, err := d.store.GetTask(t.Context(), taskOf(7)); err != nil || silent.State.Status != task.Cancelled || silent.Reason != task.ReasonExpired {
			t.Errorf("the open task is %+v, %v", silent, err)
		}
		d.pass(time.Hour)
		if n := len(d.revisions()); n != 2 {
			t.Errorf("%d revisions after the close", n)
		}
	})
}

func TestAnswersThatThePolicyOnlyRecordsChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.start()
		d.create(2, func(r *store.Run) { r.Policy.Late = job.RecordOnly })
		d.online(0, true)
		attempt := d.grant(0, true)
		d.pass(3 * time.Minute)
		d.answer(0, attempt, "")
		d.pass(2 * time.Hour)
		if n := len(d.revisions()); n != 1 {
			t.Errorf("got %d revisions; want 1", n)
		}
		if run := d.run(); run.Phase() != protocol.PhaseClosed {
			t.Errorf("the run is %s", run.Phase())
		}
	})
}

func TestRestartClosesAtOnceWhatIsOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.start()
		d.create(2)
		d.succeed(0)
		d.close()
		time.Sleep(5 * time.Minute)
		d.open()
		d.start()
		d.settle()
		revs := d.revisions()
		if len(revs) != 1 || revs[0].Why != "barrier" || !revs[0].AsOf.Equal(time.Now()) {
			t.Fatalf("got revisions %+v; want one now", revs)
		}
		if err := os.RemoveAll(filepath.Join(d.dir, "reports", year)); err != nil { // somebody tidied up
			t.Fatal(err)
		}
		d.restart() // a broker that lost everything hears the summary again
		d.settle()
		if files := d.files(); len(files) != 0 {
			t.Errorf("published files came back: %v", files)
		}
		sums := d.summaries()
		if len(sums) != 2 || sums[1].Counts != sums[0].Counts || len(sums[1].Files) != 3 {
			t.Errorf("got summaries %+v", sums)
		}
		d.online(1, true)
		d.succeed(1)
		d.close() // before it was quiet for long enough
		d.open()
		d.start()
		d.pass(0)
		if revs := d.revisions(); len(revs) != 2 || d.run().Phase() != protocol.PhaseClosed {
			t.Errorf("got %d revisions, run %s; want the late answer published and the run closed", len(revs), d.run().Phase())
		}
	})
}

func TestACrashAnywhereLeadsToTheSameBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.start()
		d.stuck.fail(errors.New("power is gone"))
		tenStores(d)
		d.pass(2 * time.Minute)
		want := d.files()
		if len(want) != 3 || len(d.summaries()) != 0 {
			t.Fatalf("got %d files, %d summaries", len(want), len(d.summaries()))
		}
		folder := filepath.Join(d.dir, "reports")
		for _, crash := range []func() error{
			func() error { return os.Remove(filepath.Join(folder, stem+"1_manifest.json")) },
			func() error {
				return errors.Join(os.Remove(filepath.Join(folder, stem+"1_manifest.json")), os.Remove(filepath.Join(folder, stem+"1.csv")),
					os.WriteFile(filepath.Join(folder, "2000/01/."+filepath.Base(stem)+"1.csv.tmp"), []byte("half"), 0o600))
			},
			func() error { return os.RemoveAll(filepath.Join(folder, year)) },
			func() error { return nil },
		} {
			d.close()
			if err := crash(); err != nil {
				t.Fatal(err)
			}
			d.open()
			d.start()
			d.settle()
			got := d.files()
			if len(got) != len(want) {
				t.Errorf("got %d files; want %d", len(got), len(want))
			}
			for name, data := range want {
				if got[name] != data {
					t.Errorf("%s has other bytes after a restart", name)
				}
			}
		}
		if raised := d.raised(); len(raised) != 0 {
			t.Errorf("one failure after a start alarms a person: %q", raised)
		}
		d.pass(5 * time.Second)
		if raised := d.raised(); len(raised) != 1 || !strings.Contains(raised[0], "power is gone") {
			t.Errorf("got alarms %q; want one", raised)
		}
		d.stuck.fail(nil)
		d.pass(10 * time.Second) // it is tried again by itself
		if revs := d.revisions(); revs[0].PublishedAt.IsZero() || len(d.summaries()) != 1 {
			t.Errorf("not published after the trouble ended: %+v", revs)
		}
		if raised := d.raised(); raised[len(raised)-1] != "report_not_published R1: <nil>" {
			t.Errorf("the end of the trouble is not said: %q", raised)
		}
	})
}

func TestADifferentFileIsNeverOverwritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.start()
		name := filepath.Join(d.dir, "reports", stem+"1.csv")
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte("somebody's"), 0o600)); err != nil {
			t.Fatal(err)
		}
		d.create(1)
		d.pass(10 * time.Minute)
		if data, err := os.ReadFile(name); err != nil || string(data) != "somebody's" {
			t.Errorf("got %q, %v", data, err)
		}
		if revs := d.revisions(); !revs[0].PublishedAt.IsZero() || len(d.summaries()) != 0 {
			t.Error("published over a taken name")
		}
		raised := d.raised()
		if len(raised) != 1 || !strings.HasPrefix(raised[0], "report_not_published R1: ") || !strings.Contains(raised[0], "a different file has this name") {
			t.Errorf("got alarms %q; want one", raised)
		}
	})
}

func TestARefusedReportIsNotPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.report.refuse = errors.New("the buckets hold 9 of 10 targets")
		d.start()
		d.create(1)
		d.pass(3 * time.Minute)
		if files, sums := d.files(), d.summaries(); len(files) != 0 || len(sums) != 0 {
			t.Errorf("got files %v, summaries %v", files, sums)
		}
		if raised := d.raised(); len(raised) != 1 || !strings.Contains(raised[0], "9 of 10") {
			t.Errorf("got alarms %q; want one", raised)
		}
		if d.run().BarrierClosedAt.IsZero() {
			t.Error("the barrier did not close")
		}
	})
}

func TestTwoRunsKeepTheirOwnDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.start()
		d.create(2)
		d.create(2, func(r *store.Run) { r.RunID, r.BarrierAt = "R2", r.BarrierAt.Add(-time.Minute) })
		d.pass(time.Minute)
		if sums := d.summaries(); len(sums) != 1 || sums[0].RunID != "R2" {
			t.Fatalf("got summaries %+v; want R2's", sums)
		}
		d.pass(time.Minute)
		if sums := d.summaries(); len(sums) != 2 || sums[1].RunID != "R1" {
			t.Errorf("got summaries %+v", sums)
		}
	})
}

func TestABarrierThatWasNotStartedStops(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.barrier.Stop()
}
