package tally

import (
	"bytes"
	"cmp"
	"container/heap"
	"slices"
	"strings"

	"muster/internal/redact"
)

// maxLineBytes bounds how much of a line an excerpt shows.
const maxLineBytes = 1024

// Line is a line of an excerpt.
type Line struct {
	AtMs   int64
	Path   string
	Number int64
	Level  Level
	// Text is set by Excerpt.Lines.
	Text string
	// Cut says that Text is only the head of the line.
	Cut bool

	// text is Text while the line may still be pushed out.
	text []byte
}

// Excerpt keeps the last lines of a day: warnings and errors with what follows them first, and others where there is
// room. The same lines give the same excerpt in whatever order their files are read. It is not safe for concurrent use.
type Excerpt struct {
	limit            int
	important, plain latest
}

// NewExcerpt returns an excerpt of at most limit lines.
func NewExcerpt(limit int) *Excerpt { return &Excerpt{limit: limit} }

// Add offers a line. A continuation line carries time and level of its record.
func (e *Excerpt) Add(text []byte, cut bool, line Line) {
	kept := &e.plain
	if line.Level <= Warn {
		kept = &e.important
	}
	if e.limit == 0 || len(*kept) == e.limit && before(line, (*kept)[0]) {
		return
	}
	shown := redact.Clip(text, maxLineBytes)
	line.Cut = cut || len(shown) < len(text)
	if len(*kept) == e.limit {
		// Nearly every line of a day pushes another out, so its memory is taken over.
		reused := (*kept)[0].text
		reused = append(reused[:0], shown...)
		line.text = reused
		(*kept)[0] = line
		heap.Fix(kept, 0)
		return
	}
	line.text = bytes.Clone(shown)
	heap.Push(kept, line)
}

// Lines returns the excerpt in the order of time.
func (e *Excerpt) Lines() []Line {
	lines := slices.Clone([]Line(e.important))
	if room := e.limit - len(lines); room > 0 {
		plain := slices.Clone([]Line(e.plain))
		slices.SortFunc(plain, compare)
		lines = append(lines, plain[max(0, len(plain)-room):]...)
	}
	slices.SortFunc(lines, compare)
	for i := range lines {
		lines[i].Text = string(lines[i].text)
	}
	return lines
}

func compare(a, b Line) int {
	return cmp.Or(cmp.Compare(a.AtMs, b.AtMs), strings.Compare(a.Path, b.Path), cmp.Compare(a.Number, b.Number))
}

func before(a, b Line) bool { return compare(a, b) < 0 }

// latest is a heap whose first line is the earliest, the first to give way.
type latest []Line

// Len implements heap.Interface.
func (l latest) Len() int { return len(l) }

// Less implements heap.Interface.
func (l latest) Less(i, j int) bool { return before(l[i], l[j]) }

// Swap implements heap.Interface.
func (l latest) Swap(i, j int) { l[i], l[j] = l[j], l[i] }

// Push implements heap.Interface.
func (l *latest) Push(x any) {
	if line, ok := x.(Line); ok {
		*l = append(*l, line)
	}
}

// Pop implements heap.Interface.
func (l *latest) Pop() any {
	old := *l
	last := old[len(old)-1]
	*l = old[:len(old)-1]
	return last
}
