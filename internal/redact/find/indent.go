package find

import (
	"regexp"
	"strings"
	"sync"

	"muster/internal/redact/words"
)

// emptyValue handles a key with nothing behind it on its line: its value may stand indented below.
func (f *finder) emptyValue(k key) {
	if k.first || k.quoted {
		f.indented(k, k.value)
	}
	f.below(k)
}

// indented notes the lines below a key that belong to it by their indentation, from the line break at i on: YAML's
// blocks, maps and lists, and the long values of ini files.
func (f *finder) indented(k key, i int) {
	t := f.text
	margin := indentation(t[k.line:])
	for i < len(t) && t[i] == '\n' {
		start := i + 1
		line := f.line(start)
		i = start + len(line)
		if f.work -= len(line) + lineWork; f.work < 0 {
			return
		}
		if strings.TrimSpace(line) == "" {
			continue
		}
		depth := indentation(line)
		item := itemSize(line) > 0
		if depth < margin || depth == margin && !item {
			return
		}
		f.indentedLine(start, line)
	}
}

// lineWork is what looking at a line costs beside its bytes.
const lineWork = 32

func (f *finder) indentedLine(start int, line string) {
	body := start + indentation(line)
	if dash := itemSize(line); dash > 0 {
		body = start + dash
	}
	end := start + len(line)
	if label := mapKey().FindStringIndex(f.text[body:end]); label != nil {
		body += label[1]
	}
	if !words.IsMeasure("", f.text[body:end]) {
		f.add(body, end)
	}
}

// continued notes the lines that carry on a bare value: after a backslash at the end of the line, or indented deeper
// than the key and no setting of their own.
func (f *finder) continued(k key, i int) {
	t := f.text
	margin := indentation(t[k.line:])
	for i < len(t) && t[i] == '\n' {
		backslash := strings.HasSuffix(strings.TrimSuffix(t[max(0, i-2):i], "\r"), "\\")
		start := i + 1
		line := f.line(start)
		if f.work -= len(line) + lineWork; f.work < 0 {
			return
		}
		trimmed := strings.TrimSpace(line)
		if !backslash && (trimmed == "" || indentation(line) <= margin || setting().MatchString(trimmed)) {
			return
		}
		f.add(start, start+len(line))
		i = start + len(line)
	}
}

func indentation(line string) int { return skipSpaces(line, 0) }

// itemSize returns the length of the dashes that begin an item of a list, with the spaces around them, or 0.
func itemSize(line string) (size int) {
	for {
		i := skipSpaces(line, size)
		if i+1 >= len(line) || line[i] != '-' || line[i+1] != ' ' && line[i+1] != '\t' {
			return size
		}
		size = skipSpaces(line, i+1)
	}
}

var mapKey = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^["']?[\w.\-]{1,80}["']?[ \t]*:(?:[ \t]+|$)`) })

// setting matches a line that sets something of its own, is a comment or opens a section. A line of base64 that ends in
// "=" sets nothing.
var setting = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:[#;\[<{}]|//|-[ \t]|["']?[\w.\-]{1,80}["']?[ \t]*(?::(?:[ \t]|$)|=[ \t]*[^=\s]))`)
})
