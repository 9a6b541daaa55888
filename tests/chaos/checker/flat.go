package checker

import (
	"slices"
	"time"

	"muster/tests/chaos/history"
)

// flat: what a process uses does not grow with what it has done.
func flat(b *book) {
	samples := map[process][]history.Line{}
	var order []process
	for _, l := range b.History {
		if l.Act != history.ActSampled || l.Sample == nil {
			continue
		}
		key := process{l.Name, l.PID}
		if samples[key] == nil {
			order = append(order, key)
		}
		samples[key] = append(samples[key], l)
	}
	for _, key := range order {
		b.flatProcess(key, samples[key])
	}
}

type process struct {
	name string
	pid  int
}

// fewestSamples is how many are needed after the warm-up to say anything.
const fewestSamples = 16

// measures are what is compared, and how much more the last quarter may show
// beside a tenth: what a few connections, calls that wait for the disk, or a garbage
// collection make. 0 is Limits.MemoryMore.
var measures = []struct {
	name  string
	more  int64
	value func(history.Sample) int64
}{
	{"threads", 16, func(s history.Sample) int64 { return int64(s.Threads) }},
	{"descriptors", 8, func(s history.Sample) int64 { return int64(s.Descriptors) }},
	{"RSS bytes", 0, func(s history.Sample) int64 { return s.RSSBytes }},
}

func (b *book) flatProcess(p process, lines []history.Line) {
	lines = lines[int(float64(len(lines))*b.limits.WarmUp):]
	if len(lines) < fewestSamples {
		return
	}
	b.weigh("samples", len(lines))
	quarter := len(lines) / 4
	last := lines[len(lines)-quarter:]
	for _, m := range measures {
		before, after := middle(lines[:quarter], m.value), middle(last, m.value)
		more := m.more
		if more == 0 {
			more = b.limits.MemoryMore
		}
		if after > before+before/10+more {
			span := time.Duration(last[0].AtMs-lines[0].AtMs) * time.Millisecond
			b.broken(Finding{Line: last[len(last)-1].Source}, "%s (process %d) grew from %d to %d %s in %v", p.name, p.pid, before, after, m.name, span)
		}
	}
}

func middle(lines []history.Line, value func(history.Sample) int64) int64 {
	var all []int64
	for _, l := range lines {
		all = append(all, value(*l.Sample))
	}
	slices.Sort(all)
	return all[len(all)/2]
}
