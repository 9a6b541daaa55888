package sim_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
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

// enough is how many seeds meet everything that a rule speaks of.
const enough = 40

// TestSimulation plays seeds: one that is given, or new ones. With enough of them each
// rule that is claimed must have had something to judge.
func TestSimulation(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	weights := checker.Weights{}
	list := chosen(t)
	t.Cleanup(func() {
		t.Logf("judged %s", weights)
		if idle := weights.Without(sim.Claimed()); len(list) >= enough && len(idle) > 0 {
			t.Errorf("%d seeds gave nothing to judge of: %q", len(list), idle)
		}
	})
	for _, seed := range list {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			weighed := simulate(t, seed)
			mu.Lock()
			defer mu.Unlock()
			weights.Add(weighed)
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
		n = enough
	default:
		n = 3
	}
	for range n {
		list = append(list, rand.Uint64N(1_000_000_000))
	}
	t.Logf("seeds %v", list)
	return list
}

// simulate plays one seed, judges it, and returns how much was judged.
func simulate(t *testing.T, seed uint64) checker.Weights {
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
	v, h, err := sim.Judge(folder, e)
	if err != nil {
		t.Error(err)
	}
	for _, f := range v.Findings {
		t.Error(f)
	}
	if len(e.Store.Attempts) == 0 || len(e.Store.Tasks) == 0 {
		t.Error("nothing was executed")
	}
	if t.Failed() {
		t.Logf("%s\nrepeat it with: make sim SEED=%d", plan, seed)
	}
	t.Logf("seed %d: %s, in %.1f s; judged %s", seed, tally(h, e.Store), time.Since(began).Seconds(), v.Weights)
	return v.Weights
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
