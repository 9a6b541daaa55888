// Package find tells where the secrets of a text stand: behind a name that says so, in any form of setting, or by a form
// of their own. It changes no text. Where it cannot tell how far a secret goes, it takes the longer way; what looking
// costs must grow with the text and nothing else.
package find

import (
	"cmp"
	"slices"
	"strings"

	"muster/internal/redact/words"
)

// Mark stands where a secret was. It is none itself: what was cleaned once is found clean.
const Mark = "[redacted]"

// In returns the places of the secrets in a text, in order and apart from each other. names and marks are what
// words.Look says of it; bits too many only cost time.
func In(text string, names, marks uint32) []Span {
	spans := look(text, names, marks)
	if marks&(words.MayBeEscaped|words.MayBeEncoded) != 0 {
		spans = joined(append(spans, inPlain(text)...))
	}
	return spans
}

// look looks over a text as it stands.
func look(text string, names, marks uint32) []Span {
	if names|marks == 0 {
		return nil
	}
	f := &finder{text: text, work: workPerByte*len(text) + workAtLeast}
	if names != 0 {
		f.keys()
	}
	f.patterns(marks)
	return f.merged()
}

// Span is a secret's place in the text.
type Span struct{ Start, End int }

// What looking at one text may cost, in bytes that are looked at. Each key looks at its surroundings, which in real
// texts are short; a text made so that they overlap must not cost the square of its length.
const (
	workPerByte = 32
	workAtLeast = 64 << 10
)

// finder collects the secrets of one text.
type finder struct {
	text  string
	spans []Span
	// work is what may still be spent. Once it is gone, the rest of the text is a secret.
	work int
	// lineStart and lineEnd are the line that was last asked for.
	lineStart, lineEnd int
	// tableEnd is where the last table ends whose head was looked at.
	tableEnd int
}

// line returns the rest of the line from start on.
func (f *finder) line(start int) string {
	if start < f.lineStart || start > f.lineEnd || f.lineEnd == 0 {
		rest := lineAt(f.text, start)
		f.work -= len(rest) / 16 // looking for one byte is so much cheaper than a look at each
		f.lineStart, f.lineEnd = start, start+len(rest)
	}
	return f.text[start:f.lineEnd]
}

// add notes a secret. White space around it is not part of it.
func (f *finder) add(start, end int) {
	for start < end && strings.IndexByte(" \t\r\n", f.text[start]) >= 0 {
		start++
	}
	for end > start && strings.IndexByte(" \t\r\n", f.text[end-1]) >= 0 {
		end--
	}
	if start < end {
		f.spans = append(f.spans, Span{start, end})
	}
}

// merged returns the secrets in order. What is only marks is none.
func (f *finder) merged() []Span {
	return slices.DeleteFunc(joined(f.spans), func(s Span) bool { return IsMarked(f.text[s.Start:s.End], s.End == len(f.text)) })
}

// joined puts places in order. Overlapping ones are one.
func joined(spans []Span) []Span {
	slices.SortFunc(spans, func(a, b Span) int { return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(b.End, a.End)) })
	merged := spans[:0]
	for _, next := range spans {
		if n := len(merged); n > 0 && next.Start < merged[n-1].End {
			merged[n-1].End = max(merged[n-1].End, next.End)
			continue
		}
		merged = append(merged, next)
	}
	return merged
}

// IsMarked reports whether a text is marks alone, one a line. At the end of a text that was cut the last one may be cut.
func IsMarked(s string, last bool) bool {
	for s != "" {
		line, rest, more := strings.Cut(s, "\n")
		line = strings.Trim(line, " \t\r")
		cut := last && !more && strings.HasPrefix(Mark, line)
		if line != "" && line != Mark && !cut {
			return false
		}
		s = rest
	}
	return true
}
