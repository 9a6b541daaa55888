package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"muster/dispatcher/internal/store"
)

// foreseen is what was told of one run.
type foreseen struct {
	run     store.Run
	tasks   []store.NewTask
	created []bool
}

// foresee notes what is foreseen from now on.
func (b *bundle) foresee() *[]*foreseen {
	var all []*foreseen
	b.Foresee(func(run store.Run, tasks []store.NewTask) func(bool) {
		f := &foreseen{run: run, tasks: tasks}
		all = append(all, f)
		return func(created bool) { f.created = append(f.created, created) }
	})
	return &all
}

// TestARunIsForeseenAsItIsStored: what is made of it ahead is what would be made of the
// stored one.
func TestARunIsForeseenAsItIsStored(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*store.Run){
		"plain":       func(*store.Run) {},
		"no input":    func(r *store.Run) { r.Input = nil },
		"other zone":  func(r *store.Run) { r.CreatedAt = t0.In(time.FixedZone("", 8*3600)).Add(777 * time.Microsecond) },
		"no attempts": func(r *store.Run) { r.Policy.Attempts = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			all := b.foresee()
			run := newRun("R")
			change(&run)
			places, tasks := targets(3)
			tasks[1].Input, tasks[1].TerminalID = []byte(`{"n":1.0}`), "backoffice"
			if _, err := b.CreateRun(t.Context(), run, places, tasks, store.Request{}, t0); err != nil {
				t.Fatal(err)
			}
			stored, err := b.GetRun(t.Context(), "R")
			if err != nil || len(*all) != 1 || !slices.Equal((*all)[0].created, []bool{true}) {
				t.Fatalf("foreseen %+v, %v", *all, err)
			}
			got := (*all)[0]
			if a, b := fmt.Sprintf("%+v", got.run), fmt.Sprintf("%+v", stored); a != b {
				t.Errorf("foreseen\n%s\nstored\n%s", a, b)
			}
			for i, planned := range got.tasks {
				own, err := b.GetTask(t.Context(), taskID(i))
				if a, b := fmt.Sprintf("%+v", got.run.Task(planned)), fmt.Sprintf("%+v", own); a != b || err != nil {
					t.Errorf("foreseen\n%s\nstored\n%s, %v", a, b, err)
				}
			}
		})
	}
}

// TestWhatWasForeseenAndDidNotComeIsTold, once.
func TestWhatWasForeseenAndDidNotComeIsTold(t *testing.T) {
	t.Parallel()
	b := setup(t)
	all := b.foresee()
	places, tasks := targets(1)
	request := store.Request{User: "ada", RequestID: "q", ContentHash: "h"}
	for i := range 3 {
		own := []store.NewTask{{TaskID: fmt.Sprint(i), StoreID: tasks[0].StoreID}}
		_, err := b.CreateRun(t.Context(), newRun(fmt.Sprintf("R%d", i%2)), places, own, request, t0)
		if err != nil {
			t.Fatal(err)
		}
		request.ContentHash = "other"
	}
	if _, err := b.CreateApprovedRun(t.Context(), "none", "bob", newRun("R3"), places, tasks, request, t0); err == nil {
		t.Fatal("an approval that nobody asked for made a run")
	}
	var created []bool
	for _, f := range *all {
		created = append(created, f.created...)
	}
	if !slices.Equal(created, []bool{true, false, false, false}) || len(*all) != 4 {
		t.Errorf("of %d foreseen runs created %v", len(*all), created)
	}
}
