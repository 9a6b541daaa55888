package barrier_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
)

func (d *desk) backup() (file string) {
	d.t.Helper()
	file = filepath.Join(d.t.TempDir(), "backup.db")
	if _, err := store.MakeBackup(d.t.Context(), filepath.Join(d.dir, "muster.db"), file); err != nil {
		d.t.Fatal(err)
	}
	return file
}

// restore is a dispatcher that was stopped, restored and is not started yet.
func (d *desk) restore(file string) {
	d.t.Helper()
	d.close()
	if _, err := store.Restore(d.t.Context(), file, filepath.Join(d.dir, "muster.db"), "ops", time.Now()); err != nil {
		d.t.Fatal(err)
	}
	d.open()
}

// series is how the store has the run's revisions: each with the number of its
// files, or waiting.
func (d *desk) series() string {
	d.t.Helper()
	var list []string
	for i, rev := range d.revisions() {
		if rev.Revision != i+1 {
			d.t.Errorf("revision %d stands where %d belongs", rev.Revision, i+1)
		}
		list = append(list, fmt.Sprintf("r%d:%d", rev.Revision, len(rev.Files)))
		if rev.PublishedAt.IsZero() {
			list[i] = fmt.Sprintf("r%d:waits", rev.Revision)
		}
	}
	return strings.Join(list, " ")
}

// kept fails unless every one of these files is as it was.
func (d *desk) kept(before map[string]string) {
	d.t.Helper()
	now := d.files()
	for name, data := range before {
		if now[name] != data {
			d.t.Errorf("%s was changed", name)
		}
	}
}

func (d *desk) headOf(revision int) (head protocol.ReportHead) {
	d.t.Helper()
	first, _, _ := strings.Cut(d.files()[fmt.Sprintf("%s%d.json", stem, revision)], "\n")
	if err := protocol.Decode([]byte(first), 1<<20, &head); err != nil {
		d.t.Fatalf("revision %d: %v", revision, err)
	}
	return head
}

const twoUnknown = "said What stands in the report folder as revisions 1 to 2 is not from headquarters' database, as after a restore from a backup: " +
	"this revision takes its place, and what changed since is not listed."

// TestARunThatIsJudgedAgainAfterARestoreGoesOnAboveWhatIsPublished: published
// revisions stay as they are, and what follows says why it is not the next one.
func TestARunThatIsJudgedAgainAfterARestoreGoesOnAboveWhatIsPublished(t *testing.T) {
	for _, c := range []struct {
		name         string
		known        bool // revision 1, at the backup
		again, later string
		text         string
	}{
		{"before the barrier", false, "r1:0 r2:0 r3:3", "r1:0 r2:0 r3:3 r4:3", twoUnknown},
		{"after the barrier", true, "r1:3 r2:0 r3:3", "r1:3 r2:0 r3:3 r4:3", strings.Replace(twoUnknown, "revisions 1 to 2", "revision 2", 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := setup(t)
				d.start()
				d.create(3)
				file := ""
				if !c.known {
					file = d.backup()
				}
				d.succeed(0)
				d.pass(2 * time.Minute)
				if c.known {
					file = d.backup()
				}
				d.succeed(1)
				d.pass(time.Minute)
				if got := d.series(); got != "r1:3 r2:3" {
					t.Fatal(got)
				}
				before := d.files()
				d.restore(file)
				d.start()
				if c.known {
					d.pass(time.Minute)
					d.succeed(2)
				}
				d.pass(time.Minute)
				if got := d.series(); got != c.again {
					t.Errorf("after the restore: %s", got)
				}
				if head := d.headOf(3); head.Text != c.text || !strings.Contains(head.TextZh, "报告文件夹中的第") || head.Supersedes != nil || head.Revision != 3 {
					t.Errorf("revision 3 is %+v", head)
				}
				d.kept(before)
				d.succeed(1)
				d.pass(time.Minute)
				if got := d.series(); got != c.later {
					t.Errorf("later: %s", got)
				}
				if head := d.headOf(4); head.Text != "said" || *head.Supersedes != 3 {
					t.Errorf("revision 4 is %+v", head)
				}
				if sums := d.summaries(); sums[len(sums)-1].Revision != 4 || !strings.HasPrefix(sums[len(sums)-2].Text, c.text) {
					t.Errorf("got summaries %+v", sums)
				}
				if raised := d.raised(); len(raised) != 0 {
					t.Errorf("alarms: %q", raised)
				}
			})
		})
	}
}

func TestARevisionOfTheSameBytesAfterARestoreIsTakenAsWhatItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.start()
		d.create(2)
		d.stuck.fail(errors.New("power is gone"))
		d.pass(2 * time.Minute)
		file := d.backup() // its revision 1 waits
		d.stuck.fail(nil)
		d.pass(2 * time.Minute)
		before := d.files()
		if got := d.series(); got != "r1:3" {
			t.Fatal(got)
		}
		d.restore(file)
		d.start()
		d.settle()
		if got := d.series(); got != "r1:3" || !maps.Equal(d.files(), before) {
			t.Errorf("%s, %d files", got, len(d.files()))
		}
	})
}

// TestACrashOnTheWayToAnotherNumberLeadsToTheSameBytes: it dies before the new
// number is stored, and after its files are written.
func TestACrashOnTheWayToAnotherNumberLeadsToTheSameBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.create(2)
		file := d.backup()
		d.start()
		d.succeed(0)
		d.pass(2 * time.Minute)
		lost := d.files()
		for _, rest := range []string{"1.csv", "1_manifest.json"} { // it was killed while it wrote
			if err := os.Remove(filepath.Join(d.dir, "reports", stem+rest)); err != nil {
				t.Fatal(err)
			}
			delete(lost, stem+rest)
		}
		d.restore(file)
		gone := errors.New("power is gone")
		d.stuck.fail(gone)
		d.start()
		d.settle()
		if got := d.series(); got != "r1:waits" || !maps.Equal(d.files(), lost) {
			t.Fatalf("%s, %d files", got, len(d.files()))
		}
		d.stuck.failMarks(gone)
		d.restart()
		d.settle()
		d.pass(time.Second)
		want := d.files()
		if got := d.series(); got != "r1:0 r2:waits" || len(want) != 4 {
			t.Fatalf("%s, %d files", got, len(want))
		}
		d.stuck.fail(nil)
		d.restart()
		d.settle()
		if got := d.series(); got != "r1:0 r2:3" || !maps.Equal(d.files(), want) {
			t.Errorf("%s, %d files", got, len(d.files()))
		}
		if head := d.headOf(2); head.Text != strings.Replace(twoUnknown, "revisions 1 to 2", "revision 1", 1) {
			t.Errorf("it says %q", head.Text)
		}
	})
}

func TestRevisionsThatWaitAreOneWhenTheirNumberIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.create(3)
		file := d.backup()
		d.start()
		d.pass(3 * time.Minute)
		d.restore(file)
		away := filepath.Join(d.dir, "away")
		if err := os.Rename(filepath.Join(d.dir, "reports"), away); err != nil {
			t.Fatal(err)
		}
		d.start() // a share that is away
		d.settle()
		d.pass(time.Minute)
		d.succeed(1)
		d.pass(time.Minute)
		if got := d.series(); got != "r1:waits r2:waits" {
			t.Fatal(got)
		}
		if err := os.Rename(away, filepath.Join(d.dir, "reports")); err != nil {
			t.Fatal(err)
		}
		d.pass(2 * time.Minute)
		if got := d.series(); got != "r1:0 r2:0 r3:3" {
			t.Errorf("%s, alarms %q", got, d.raised())
		}
		if head := d.headOf(3); head.Text != twoUnknown || head.RevisionWhy != protocol.WhyLateResults || head.Counts.Succeeded != 1 {
			t.Errorf("it is %+v", head)
		}
		if raised := d.raised(); raised[len(raised)-1] != "report_not_published R1: <nil>" {
			t.Errorf("the end of the trouble is not said: %q", raised)
		}
	})
}

// TestWhatIsNoRevisionIsLeftAloneAndToldHowToMend: something of a person has the
// name of the report that says what it is.
func TestWhatIsNoRevisionIsLeftAloneAndToldHowToMend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.start()
		head := func(schema, run string, revision int) string {
			return fmt.Sprintf(`{"schema":%q,"runId":%q,"input":{"revision":1},"revision":%d,"stores":[]}`, schema, run, revision)
		}
		taken := filepath.Join(d.dir, "reports", stem+"1.json")
		if err := os.MkdirAll(taken, 0o700); err != nil { // a folder
			t.Fatal(err)
		}
		d.create(1)
		d.pass(2*time.Minute + 2*time.Second)
		want := "report_not_published R1: cannot write " + taken + ": a different file has this name; " +
			"move it elsewhere, and the report is published within a minute"
		if raised := d.raised(); len(raised) != 1 || raised[0] != want {
			t.Fatalf("alarms %q", raised)
		}
		for _, text := range []string{"", "somebody's", `{"schema":"muster.report.v1","runId":"R1","rev`, `[1]`, head("muster.report.v2", runID, 1),
			head(protocol.ReportSchema, "R2", 1), head(protocol.ReportSchema, runID, 2)} {
			if err := errors.Join(os.Remove(taken), os.WriteFile(taken, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
			d.pass(time.Minute)
			if data, err := os.ReadFile(taken); err != nil || string(data) != text || d.series() != "r1:waits" {
				t.Errorf("%q: it is %q, %v, and the revisions %s", text, data, err, d.series())
			}
		}
		if err := os.Rename(taken, filepath.Join(d.dir, "elsewhere")); err != nil {
			t.Fatal(err)
		}
		d.pass(time.Minute)
		if got := d.series(); got != "r1:3" {
			t.Errorf("when it is moved: %s", got)
		}
	})
}

// TestARunThatIsOverIsKeptInMindUntilItsOtherNumberIsOut: what the store tells of
// the new number may come late.
func TestARunThatIsOverIsKeptInMindUntilItsOtherNumberIsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.start()
		d.stuck.fail(errors.New("power is gone"))
		d.create(1)
		d.succeed(0)
		d.pass(2 * time.Hour)
		if got, run := d.series(), d.run(); got != "r1:waits" || run.Phase() != protocol.PhaseClosed {
			t.Fatal(got, run.Phase())
		}
		d.stuck.fail(nil)
		d.close()
		taken := fmt.Sprintf(`{"schema":%q,"runId":%q,"revision":1}`, protocol.ReportSchema, runID)
		if err := os.WriteFile(filepath.Join(d.dir, "reports", stem+"1.json"), []byte(taken), 0o600); err != nil {
			t.Fatal(err)
		}
		d.open()
		d.deaf.Store(true)
		d.start()
		d.settle()
		if got := d.series(); got != "r1:0 r2:3" {
			t.Error(got)
		}
	})
}

func TestAMadeUpNameMovesTheNumberByABoundedStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.start()
		folder := filepath.Join(d.dir, "reports", filepath.Dir(stem))
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		base := filepath.Base(stem)
		taken := fmt.Sprintf(`{"schema":%q,"runId":%q,"revision":1}`, protocol.ReportSchema, runID)
		for name, text := range map[string]string{base + "1.json": taken, base + "3_manifest.json": "", "." + base + "4.json.tmp": "",
			base + "10002.json": "", base + "2000000000.json": "", base + "99999999999999999999.json": "", base + "-5.json": "", base + "x.json": "", base: "",
			strings.Replace(base, runID, "R10", 1) + "9.json": ""} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		d.create(1)
		d.pass(3 * time.Minute)
		if got := d.series(); got != "r1:0 r2:0 r3:0 r4:3" {
			t.Errorf("%s, alarms %q", got, d.raised())
		}
	})
}
