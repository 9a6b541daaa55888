// Package redact takes secrets out of text before it leaves a terminal: passwords, tokens and keys in settings of any
// common form (ini, properties, env, JSON, YAML, XML, connection strings, URLs, command lines), in comments and in log
// lines. The form is not asked for: files lie about theirs, and one form is quoted inside another. It must never leave
// part of a secret for the sake of pretty output; where it cannot tell how far a secret goes, it takes the longer way.
// It keeps every line break, so that line numbers stay true, and every key, so that a reader sees what was set.
//
// What no rule can see is a secret without a name, in no known form: a bare password in prose.
package redact

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
)

// Mark stands where a secret was.
const Mark = "[redacted]"

// Text returns the text with every secret that it can find replaced by Mark, and how many there were. It is safe for
// concurrent use.
func Text(text string) (clean string, count int) {
	f := &finder{text: text}
	f.keys()
	if f.named {
		f.pairs()
	}
	f.patterns()
	if len(f.spans) == 0 {
		return text, 0
	}
	return f.rewrite()
}

// span is a secret's place in the text.
type span struct{ start, end int }

// finder collects the secrets of one text.
type finder struct {
	text  string
	spans []span
	// named says that the name of a secret was seen.
	named bool
}

// add notes a secret. White space around it is not part of it.
func (f *finder) add(start, end int) {
	for start < end && strings.IndexByte(" \t\n", f.text[start]) >= 0 {
		start++
	}
	for end > start && strings.IndexByte(" \t\n", f.text[end-1]) >= 0 {
		end--
	}
	if start < end {
		f.spans = append(f.spans, span{start, end})
	}
}

// rewrite replaces the secrets. Overlapping ones are one secret.
func (f *finder) rewrite() (string, int) {
	slices.SortFunc(f.spans, func(a, b span) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end)) })
	merged := f.spans[:1]
	for _, next := range f.spans[1:] {
		if last := &merged[len(merged)-1]; next.start < last.end {
			last.end = max(last.end, next.end)
			continue
		}
		merged = append(merged, next)
	}
	var out strings.Builder
	out.Grow(len(f.text))
	done := 0
	for _, secret := range merged {
		out.WriteString(f.text[done:secret.start])
		writeMarks(&out, f.text[secret.start:secret.end])
		done = secret.end
	}
	out.WriteString(f.text[done:])
	return out.String(), len(merged)
}

// writeMarks writes one mark a line, so that the text keeps its lines and their indentation.
func writeMarks(out *strings.Builder, secret string) {
	for i, line := range strings.Split(secret, "\n") {
		if i > 0 {
			out.WriteByte('\n')
		}
		trimmed := strings.TrimLeft(line, " \t")
		out.WriteString(line[:len(line)-len(trimmed)])
		if trimmed != "" {
			out.WriteString(Mark)
		}
	}
}

// Blocks follows the lines of a file to tell which lie within a private key: an excerpt may show the middle of a key
// without the line that begins it. The zero value is ready; it is not safe for concurrent use.
type Blocks struct{ inside int }

// maxKeyLines bounds a private key whose end never comes: the longest in use have some 150 lines.
const maxKeyLines = 400

// Secret reports whether the line is part of a private key, its first and last line aside.
func (b *Blocks) Secret(line []byte) bool {
	if bytes.Contains(line, []byte("-----")) {
		if bytes.Contains(line, []byte("PRIVATE KEY")) {
			begins := bytes.LastIndex(line, []byte("-----BEGIN "))
			ends := bytes.LastIndex(line, []byte("-----END "))
			b.inside = 0
			if begins > ends {
				b.inside = maxKeyLines
			}
			return false
		}
	}
	if b.inside > 0 {
		b.inside--
		return true
	}
	return false
}
