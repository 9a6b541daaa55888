// Package redact takes secrets out of text before it leaves a terminal, and out of what headquarters stores in case a
// terminal failed to. One set of rules serves both: passwords, tokens and keys in settings of any
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

// maxPasses bounds how often a text is looked over: what a first pass leaves may, with marks in it, read as another
// secret. Texts that people and programs write are done after the second, which finds nothing.
const maxPasses = 8

// Text returns the text with every secret that it can find replaced by Mark, and how many there were. What Text
// returned once it leaves alone, and the count is 0 then. The time it takes grows with the text and nothing else. It is
// safe for concurrent use.
func Text(text string) (clean string, count int) {
	for range maxPasses {
		names, marks := look(text)
		secrets := find(text, names, marks)
		if len(secrets) == 0 {
			return text, count
		}
		count += len(secrets)
		text = rewrite(text, secrets)
	}
	return rewrite(text, []span{{0, len(text)}}), count
}

// maxExcerptBytes bounds how much of a payload is looked over for an excerpt: a log line is not worth more.
const maxExcerptBytes = 16 << 10

// Excerpt returns the start of a payload for a log, free of secrets, in valid UTF-8 and at most limit bytes long.
func Excerpt(payload []byte, limit int) string {
	if limit < maxExcerptBytes && len(payload) > maxExcerptBytes {
		payload = Clip(payload, maxExcerptBytes)
	}
	clean, _ := JSON(payload)
	return string(Clip(bytes.ToValidUTF8(clean, nil), limit))
}

// find returns the places of the secrets in a text, in order and apart from each other. names and marks are the bits of
// the words in it; bits too many only cost time.
func find(text string, names, marks uint32) []span {
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

// span is a secret's place in the text.
type span struct{ start, end int }

// What looking at one text may cost, in bytes that are looked at. Each key looks at its surroundings, which in real
// texts are short; a text made so that they overlap must not cost the square of its length.
const (
	workPerByte = 32
	workAtLeast = 64 << 10
)

// finder collects the secrets of one text.
type finder struct {
	text  string
	spans []span
	// work is what may still be spent. Once it is gone, the rest of the text is a secret.
	work int
	// lineStart and lineEnd are the line that was last asked for.
	lineStart, lineEnd int
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

// merged returns the secrets in order. Overlapping ones are one secret, and what is only marks is none.
func (f *finder) merged() []span {
	slices.SortFunc(f.spans, func(a, b span) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end)) })
	merged := f.spans[:0]
	for _, next := range f.spans {
		if n := len(merged); n > 0 && next.start < merged[n-1].end {
			merged[n-1].end = max(merged[n-1].end, next.end)
			continue
		}
		merged = append(merged, next)
	}
	return slices.DeleteFunc(merged, func(s span) bool { return isMarked(f.text[s.start:s.end], s.end == len(f.text)) })
}

// isMarked reports whether a text is marks alone, one a line. At the end of a text that was cut the last one may be cut.
func isMarked(s string, last bool) bool {
	for s != "" {
		line, rest, more := strings.Cut(s, "\n")
		line = strings.Trim(line, " \t")
		cut := last && !more && strings.HasPrefix(Mark, line)
		if line != "" && line != Mark && !cut {
			return false
		}
		s = rest
	}
	return true
}

// rewrite replaces the secrets.
func rewrite(text string, secrets []span) string {
	var out strings.Builder
	out.Grow(len(text))
	done := 0
	for _, secret := range secrets {
		out.WriteString(text[done:secret.start])
		writeMarks(&out, text[secret.start:secret.end])
		done = secret.end
	}
	out.WriteString(text[done:])
	return out.String()
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
