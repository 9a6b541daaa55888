package programs

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// jiffy is the unit of times below /proc, whatever the machine.
const jiffy = 10 * time.Millisecond

// proc reads a file of the process below /proc.
func (p *Process) proc(name string) string {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.PID(), name))
	if err != nil {
		p.hidden(err)
	}
	return string(text)
}

// hidden ends a test that cannot look at the process.
func (p *Process) hidden(err error) {
	p.t.Helper()
	select {
	case <-p.done:
		p.t.Fatalf("%s has ended", p.name)
	default:
		Lack(p.t, "a process cannot be looked at here: %v", err)
	}
}

// Status is a number of /proc/PID/status: VmHWM is the most memory that was ever
// resident, in KiB.
func (p *Process) Status(name string) (n int) {
	p.t.Helper()
	for line := range strings.Lines(p.proc("status")) {
		if value, is := strings.CutPrefix(line, name+":"); is {
			if _, err := fmt.Sscan(value, &n); err == nil {
				return n
			}
		}
	}
	p.t.Fatalf("%s does not say its %s", p.name, name)
	return 0
}

// Peak is the most memory that was ever resident, in MiB.
func (p *Process) Peak() int {
	p.t.Helper()
	return p.Status("VmHWM") >> 10
}

// Descriptors is how many the process has open.
func (p *Process) Descriptors() int {
	p.t.Helper()
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID()))
	if err != nil {
		p.hidden(err)
	}
	return len(open)
}

// CPU is how much of the processors the process has used.
func (p *Process) CPU() time.Duration {
	p.t.Helper()
	_, after, _ := strings.Cut(p.proc("stat"), ") ") // behind its name
	var user, system int64
	if fields := strings.Fields(after); len(fields) < 13 {
		p.t.Fatalf("%s does not say its time: %q", p.name, after)
	} else if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		p.t.Fatal(err)
	}
	return time.Duration(user+system) * jiffy
}
