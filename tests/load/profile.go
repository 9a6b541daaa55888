package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
)

// The collector's setting of the program while little is alive, as package heap of
// the dispatcher chooses it.
const collectAt = 200

// Each sample stands for so many bytes: enough of them for some thousand tasks, and
// few enough to cost little.
const sampled = 64 << 10

// spending is what headquarters does with its time and memory, for a headquarters in
// this process.
type spending struct {
	folder string
	cpu    *os.File
	before runtime.MemStats
}

// inspect begins to note; without a folder nothing is noted.
func inspect(folder string) (*spending, error) {
	s := &spending{folder: folder}
	if folder == "" {
		return s, nil
	}
	var err error
	if err = os.MkdirAll(folder, 0o755); err == nil {
		s.cpu, err = os.Create(filepath.Join(folder, "cpu.pprof"))
	}
	if err == nil {
		err = s.write("allocs-before.pprof")
	}
	if err == nil {
		runtime.ReadMemStats(&s.before)
		err = pprof.StartCPUProfile(s.cpu)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot profile: %w", err)
	}
	return s, nil
}

// end writes cpu.pprof and the two of allocations, whose difference is the run's, and
// returns how many of them a task took and how many bytes.
func (s *spending) end(tasks int) (allocations, size float64, err error) {
	if s.folder == "" {
		return 0, 0, nil
	}
	pprof.StopCPUProfile()
	var after runtime.MemStats
	runtime.ReadMemStats(&after)
	err = errors.Join(s.cpu.Close(), s.write("allocs.pprof"))
	each := func(after, before uint64) float64 { return float64(after-before) / float64(tasks) }
	return each(after.Mallocs, s.before.Mallocs), each(after.TotalAlloc, s.before.TotalAlloc), err
}

func (s *spending) write(name string) error {
	runtime.GC() // what was allocated since the last one is not in the profile
	file, err := os.Create(filepath.Join(s.folder, name))
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("allocs").WriteTo(file, 0), file.Close())
}

// profiled sets this process up as the program is.
func profiled() {
	runtime.MemProfileRate = sampled
	debug.SetGCPercent(collectAt)
}
