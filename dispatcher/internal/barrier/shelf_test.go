package barrier_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/barrier"
	"muster/dispatcher/internal/store"
	"muster/internal/task"
)

func TestRowsAreReadOnceUnlessTheyAreTooMany(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int]int{0: 3, 11: 3, 12: 1, 1 << 20: 1} { // four rows of three bytes
		reads := 0
		rows, missing := barrier.Shelf(func(yield func(store.OutcomeRow, error) bool) {
			reads++
			for i := range 4 {
				row := store.OutcomeRow{StoreID: shop(i), Outcome: task.OutcomeSucceeded, Row: json.RawMessage(fmt.Sprintf("[%d]", i))}
				if i%2 == 1 {
					row.Outcome = task.OutcomeOffline
				}
				if !yield(row, nil) {
					return
				}
			}
		}, limit)
		for range 3 {
			got := ""
			for raw, err := range rows {
				if err != nil {
					t.Fatal(err)
				}
				got += string(raw)
			}
			if got != "[0][1][2][3]" {
				t.Errorf("limit %d: got %s", limit, got)
			}
		}
		if reads != want || !slices.Equal(missing(), []string{"S001", "S003"}) {
			t.Errorf("limit %d: read %d times, want %d; missing %q", limit, reads, want, missing())
		}
	}
}

// TestRowsThatWereNotAllReadAreReadAgain: who stopped early, or met an error, has not
// seen them all.
func TestRowsThatWereNotAllReadAreReadAgain(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is gone")
	reads := 0
	rows, missing := barrier.Shelf(func(yield func(store.OutcomeRow, error) bool) {
		reads++
		if yield(store.OutcomeRow{Row: json.RawMessage("1")}, nil) {
			if reads == 2 {
				yield(store.OutcomeRow{}, broken)
				return
			}
			yield(store.OutcomeRow{Row: json.RawMessage("2")}, nil)
		}
	}, 1<<20)
	look := func(stop bool) (got string, failure error) {
		for raw, err := range rows {
			got, failure = got+string(raw), errors.Join(failure, err)
			if stop {
				break
			}
		}
		return got, failure
	}
	if got, err := look(true); got != "1" || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
	if got, err := look(false); got != "1" || !errors.Is(err, broken) || missing() != nil {
		t.Errorf("got %s, %v", got, err)
	}
	if got, err := look(false); got != "12" || err != nil || reads != 3 || len(missing()) != 2 {
		t.Errorf("got %s, %v after %d reads", got, err, reads)
	}
}

// TestALargeRunsSummaryWaitsForNoOtherFormat: it names the JSON file alone until the
// others are there, and what keeps them away, or the broker, keeps nothing else.
func TestALargeRunsSummaryWaitsForNoOtherFormat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const targets = 5001
		d := setup(t)
		d.report.poison.Store("csv")
		d.start()
		d.create(targets)
		d.succeed(1)
		d.pass(2 * time.Minute)
		sums := d.summaries()
		if len(sums) != 1 || len(sums[0].Files) != 1 || sums[0].Files[0].Name != "20000101-0800_collect_log_R1_r1.json" ||
			sums[0].Counts.Sum() != targets || sums[0].Counts.Succeeded != 1 || len(sums[0].Missing) != 100 || sums[0].Missing[1] != "S002" {
			t.Fatalf("got summaries %+v; want one, of the JSON file", sums)
		}
		if revs := d.revisions(); !revs[0].PublishedAt.IsZero() {
			t.Error("it is marked before all files are there")
		}
		first := d.files()[stem+"1.json"]
		d.report.poison.Store("")
		d.pass(2 * time.Minute)
		sums = d.summaries()
		last := sums[len(sums)-1]
		if revs := d.revisions(); len(last.Files) != 3 || last.Files[0] != sums[0].Files[0] || len(revs[0].Files) != 3 || d.files()[stem+"1.json"] != first {
			t.Errorf("in the end: %+v, %+v", last, revs)
		}
	})
}

func TestABrokerThatIsAwayKeepsNoFileBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.refuse(errors.New("the broker is away"))
		d.start()
		d.create(5001)
		d.pass(2 * time.Minute)
		if revs := d.revisions(); len(revs) != 1 || len(revs[0].Files) != 3 {
			t.Errorf("got revisions %+v; want one with all files", revs)
		}
		d.refuse(nil)
		d.pass(2 * time.Minute)
		if sums := d.summaries(); len(sums) != 1 || len(sums[0].Files) != 3 {
			t.Errorf("got summaries %+v; want one with all files", sums)
		}
	})
}

// TestNoOlderSummaryFollowsAnEarlyOne: the broker is reached anew while a revision whose
// summary was said is not yet published.
func TestNoOlderSummaryFollowsAnEarlyOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.start()
		d.create(5001)
		d.pass(2 * time.Minute)
		d.stuck.fail(errors.New("the disk is full"))
		d.succeed(1)
		d.pass(10 * time.Second)
		if err := d.barrier.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		d.settle()
		d.restart()
		d.pass(time.Minute)
		d.stuck.fail(nil)
		d.pass(2 * time.Minute)
		sums, last := d.summaries(), 0
		for _, s := range sums {
			if s.Revision < last {
				t.Errorf("revision %d after revision %d", s.Revision, last)
			}
			last = s.Revision
		}
		if last != 2 || len(sums[len(sums)-1].Files) != 3 {
			t.Errorf("the last is %+v", sums[len(sums)-1])
		}
	})
}
