package sim_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
	"muster/tests/chaos/sim"
	"muster/tests/programs"
)

var (
	seedFlag = flag.String("seed", "", "the history to repeat; empty: new ones")
	seeds    = flag.Int("seeds", 0, "how many new histories; 0: as many as suits")
	keep     = flag.String("keep", "", "a folder that gets everything that was written")
)

// TestMain puts what is written into memory where it can: a kill leaves what was
// written, and what was fsynced is looked at elsewhere.
func TestMain(m *testing.M) {
	if at, err := os.Stat("/dev/shm"); err == nil && at.IsDir() && os.Getenv("TMPDIR") == "" {
		if err := os.Setenv("TMPDIR", "/dev/shm"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// TestSimulation plays seeds: one that is given, or new ones.
func TestSimulation(t *testing.T) {
	t.Parallel()
	for _, seed := range chosen(t) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			simulate(t, seed)
		})
	}
}

func chosen(t *testing.T) (list []uint64) {
	t.Helper()
	if *seedFlag != "" {
		var seed uint64
		if _, err := fmt.Sscan(*seedFlag, &seed); err != nil {
			t.Fatalf("seed %q: %v", *seedFlag, err)
		}
		return []uint64{seed}
	}
	n := *seeds
	switch {
	case n > 0:
	case programs.Full():
		n = 40
	default:
		n = 3
	}
	for range n {
		list = append(list, rand.Uint64N(1_000_000_000))
	}
	t.Logf("seeds %v", list)
	return list
}

// simulate plays one seed and judges it.
func simulate(t *testing.T, seed uint64) {
	t.Helper()
	folder := t.TempDir()
	if *keep != "" {
		folder = filepath.Join(*keep, fmt.Sprint(seed))
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	plan := sim.Draw(seed)
	var e sim.Played
	synctest.Test(t, func(t *testing.T) {
		var err error
		if e, err = sim.Play(t.Context(), plan, folder); err != nil {
			t.Error(err)
		}
	})
	found, h, err := sim.Judge(folder, e)
	if err != nil {
		t.Error(err)
	}
	for _, f := range found {
		t.Error(f)
	}
	if len(e.Store.Attempts) == 0 || len(e.Store.Tasks) == 0 {
		t.Error("nothing was executed")
	}
	if t.Failed() {
		t.Logf("%s\nrepeat it with: make sim SEED=%d", plan, seed)
	}
	t.Logf("seed %d: %s, in %.1f s", seed, tally(h, e.Store), time.Since(began).Seconds())
}

func tally(h history.History, s checker.Store) string {
	acts, ends := map[history.Act]int{}, map[string]int{}
	for _, l := range h.Lines {
		acts[l.Act]++
	}
	for _, task := range s.Tasks {
		ends[string(task.Status)]++
	}
	text := fmt.Sprintf("%d runs, %d attempts, tasks", len(s.Runs), len(s.Attempts))
	for _, k := range slices.Sorted(maps.Keys(ends)) {
		text += fmt.Sprintf(" %d %s", ends[k], k)
	}
	for _, k := range slices.Sorted(maps.Keys(acts)) {
		text += fmt.Sprintf(", %d %s", acts[k], k)
	}
	return text
}
