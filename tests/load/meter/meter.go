// Package meter reads from /proc what processes have used: processor time,
// memory, and what the rest of the machine did meanwhile.
//
// It measures no time of its own and knows no program.
package meter

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of /proc/PID/stat and /proc/stat on every Linux of today.
const tick = 10 * time.Millisecond

// CPU is the processor time that a process has used, to 10 ms.
func CPU(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("cannot read the processor time: %w", err)
	}
	// The name, in parentheses, may hold anything; what follows may not.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const user, system = 11, 12
	if len(fields) <= system {
		return 0, fmt.Errorf("process %d says no processor time", pid)
	}
	u, err := strconv.ParseInt(fields[user], 10, 64)
	s, err2 := strconv.ParseInt(fields[system], 10, 64)
	return time.Duration(u+s) * tick, errors.Join(err, err2)
}

// Busy is the processor time that all cores have spent on anything.
func Busy() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, fmt.Errorf("cannot read the machine's processor time: %w", err)
	}
	var user, nice, system, idle, wait, irq, soft, steal int64
	if _, err := fmt.Sscanf(string(text), "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &wait, &irq, &soft, &steal); err != nil {
		return 0, fmt.Errorf("cannot read the machine's processor time: %w", err)
	}
	return time.Duration(user+nice+system+irq+soft+steal) * tick, nil
}

// The amounts of Memory.
const (
	Resident = "VmRSS" // now
	Peak     = "VmHWM" // the most that was resident
)

// Memory is one amount of a process, in MiB.
func Memory(pid int, amount string) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("cannot read the memory: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, amount+": %d kB", &kib); n == 1 {
			return float64(kib) / 1024, nil
		}
	}
	return 0, fmt.Errorf("process %d does not say its %s", pid, amount)
}

// Span is what a time took, of some processes and of the others.
type Span struct {
	pids []int
	from time.Time
	cpu  []time.Duration
	busy time.Duration
}

// Start begins a span over some processes.
func Start(pids ...int) (Span, error) {
	s := Span{pids: pids, cpu: make([]time.Duration, len(pids))}
	var err error
	for i, pid := range pids {
		if s.cpu[i], err = CPU(pid); err != nil {
			return s, err
		}
	}
	s.busy, err = Busy()
	s.from = time.Now()
	return s, err
}

// Used is what a span took.
type Used struct {
	Wall  time.Duration
	CPU   []time.Duration // as the processes were given
	Other float64         // cores that everybody else used
}

// Stop ends a span.
func (s Span) Stop() (Used, error) {
	used := Used{Wall: time.Since(s.from), CPU: make([]time.Duration, len(s.pids))}
	busy, err := Busy()
	if err != nil {
		return used, err
	}
	others := busy - s.busy
	for i, pid := range s.pids {
		now, err := CPU(pid)
		if err != nil {
			return used, err
		}
		used.CPU[i] = now - s.cpu[i]
		others -= used.CPU[i]
	}
	used.Other = max(0, others.Seconds()) / used.Wall.Seconds()
	return used, nil
}
