package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"muster/dispatcher/internal/store"
)

// BenchmarkSettle measures durable answers of 1 KiB from many callers at once;
// one operation is one answer, committed with fsync.
func BenchmarkSettle(b *testing.B) {
	for _, callers := range []int{1, 64, 512} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			s := setup(b)
			places, tasks := targets(b.N)
			if _, err := s.CreateRun(b.Context(), newRun("R"), places, tasks, store.Request{}, t0); err != nil {
				b.Fatal(err)
			}
			result := `{"text":"` + strings.Repeat("x", 1000) + `"}`
			each(b, callers, func(i int) error {
				_, err := s.Grant(b.Context(), store.Grant{TaskID: taskID(i), StoreID: storeID(i), TerminalID: "pos1"}, t0)
				return err
			})
			b.ResetTimer()
			each(b, callers, func(i int) error {
				got, err := s.Settle(b.Context(), success(i, 1, result), t0)
				if err == nil && !got.Applied {
					err = fmt.Errorf("task %d: %+v", i, got)
				}
				return err
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "answers/s")
			b.StopTimer()
		})
	}
}

// BenchmarkTask measures what a claim, a grant and an answer of 1 KiB read and write,
// each alone in its commit.
func BenchmarkTask(b *testing.B) {
	const batch = 1000
	s := setup(b)
	result := `{"text":"` + strings.Repeat("x", 1000) + `"}`
	places, tasks := targets(batch)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		i := n % batch
		if i == 0 {
			b.StopTimer()
			run := newRun(fmt.Sprint("R", n))
			for i := range tasks {
				tasks[i].TaskID = taskID(n + i)
			}
			if _, err := s.CreateRun(b.Context(), run, places, tasks, store.Request{}, t0); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
		known, err := s.GetTask(b.Context(), taskID(n))
		if err != nil {
			b.Fatal(err)
		}
		g, err := s.Grant(b.Context(), store.Grant{TaskID: taskID(n), StoreID: storeID(i), TerminalID: "pos1", Instance: "i", Known: &known}, t0)
		if err != nil || g.Refusal != "" {
			b.Fatal(g, err)
		}
		answer := success(n, 1, result)
		answer.Attempt.StoreID, answer.Known = storeID(i), &g.Task
		if got, err := s.Settle(b.Context(), answer, t0); err != nil || !got.Applied {
			b.Fatal(got, err)
		}
	}
}

// each calls f for 0 to b.N-1 from so many goroutines.
func each(b *testing.B, callers int, f func(i int) error) {
	b.Helper()
	var next atomic.Int64
	done := make(chan error, callers)
	for range callers {
		go func() {
			for i := int(next.Add(1)) - 1; i < b.N; i = int(next.Add(1)) - 1 {
				if err := f(i); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range callers {
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
}

// BenchmarkCreateRun measures one atomic run of 100,000 tasks.
func BenchmarkCreateRun(b *testing.B) {
	s := setup(b)
	places, tasks := targets(100_000)
	n := 0
	for b.Loop() {
		n++
		run := newRun(fmt.Sprint("R", n))
		for i := range tasks {
			tasks[i].TaskID = fmt.Sprint(run.RunID, "-", i)
		}
		if _, err := s.CreateRun(b.Context(), run, places, tasks, store.Request{}, t0); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCandidates measures judging a run of 5,000 stores at its barrier.
func BenchmarkCandidates(b *testing.B) {
	s := setup(b)
	s.create(5000)
	for i := range 2500 {
		s.grant(i, t0)
	}
	for b.Loop() {
		snap, err := s.Snapshot(b.Context(), "R")
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		for _, err := range snap.Candidates() {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if err := snap.Close(); err != nil || n != 5000 {
			b.Fatal(n, err)
		}
	}
}

// BenchmarkOpen measures Open and Close of a store that holds a run of 100,000
// tasks: the seal, the check of all pages, and the seal again.
func BenchmarkOpen(b *testing.B) {
	s := setup(b)
	s.create(100_000)
	s.reopen()
	info, err := os.Stat(s.path)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(info.Size())/(1<<20), "MiB")
	for b.Loop() {
		s.reopen()
	}
}

// BenchmarkBackup measures a backup of 100,000 tasks, with what it checks.
func BenchmarkBackup(b *testing.B) {
	s := setup(b)
	s.create(100_000)
	n := 0
	for b.Loop() {
		n++
		if _, err := store.MakeBackup(b.Context(), s.path, filepath.Join(b.TempDir(), fmt.Sprint(n))); err != nil {
			b.Fatal(err)
		}
	}
}
