package find

import (
	"regexp"
	"strings"
	"sync"

	"muster/internal/redact/words"
)

// value notes the value of a key, whatever form it has.
func (f *finder) value(k key) {
	t, v := f.text, k.value
	if v >= len(t) {
		return
	}
	if strings.HasPrefix(t[v:], "\r\n") {
		k.value, v = v+1, v+1
	}
	if t[v] == '\n' {
		f.emptyValue(k)
		return
	}
	if strings.IndexByte("<$`\"", t[v]) >= 0 && f.heredoc(v) {
		return
	}
	if strings.IndexByte("!&|>", t[v]) >= 0 {
		line := f.line(v)
		f.work -= len(line)
		if blockScalar().MatchString(line) {
			f.indented(k, v+len(line))
			return
		}
	}
	if inner, end, ok := f.quotedAt(v); ok {
		if !words.IsMeasure(k.name, t[inner:end]) {
			f.add(inner, end)
		}
		return
	}
	if strings.HasPrefix(t[v:], Mark) || strings.HasPrefix(Mark, t[v:]) {
		return
	}
	if t[v] == '{' || t[v] == '[' {
		f.nested(k, v)
		return
	}
	f.bare(k)
}

// blockScalar matches YAML's introduction of a value in the lines below.
var blockScalar = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:[!&]\S*\s+)*[|>][-+0-9]*\s*(?:#.*)?$`)
})

// nested notes every value within brackets.
func (f *finder) nested(k key, v int) {
	t := f.text
	if k.separator == '=' && t[v] == '{' {
		// ODBC puts braces around a value that holds semicolons.
		if end := strings.IndexByte(f.line(v), '}'); end > 0 {
			f.work -= end
			f.add(v+1, v+end)
			return
		}
	}
	depth := 0
	for i := v; i < len(t) && f.work >= 0; f.work-- {
		switch c := t[i]; {
		case c == '[' && strings.HasPrefix(t[i:], Mark):
			i += len(Mark)
		case c == '{' || c == '[':
			depth++
			i++
		case c == '}' || c == ']':
			depth--
			i++
			if depth == 0 {
				return
			}
		case strings.IndexByte(" \t\n,:=", c) >= 0:
			i++
		default:
			i = f.nestedScalar(i)
		}
	}
}

// nestedScalar notes the scalar at i unless it is a key, and returns where it ends.
func (f *finder) nestedScalar(i int) int {
	t := f.text
	if inner, end, ok := f.quotedAt(i); ok {
		after := end
		for after < len(t) && strings.IndexByte("\\\"'`", t[after]) >= 0 {
			after++
		}
		if next := skipSpaces(t, after); (next >= len(t) || t[next] != ':') && !words.IsMeasure("", t[inner:end]) {
			f.add(inner, end)
		}
		return max(after, i+1)
	}
	end := i
	for end < len(t) && strings.IndexByte(",}]\n", t[end]) < 0 {
		if t[end] == ':' && end+1 < len(t) && strings.IndexByte(" \t\"'[{", t[end+1]) >= 0 {
			return end + 1
		}
		end++
	}
	f.work -= end - i
	if !words.IsMeasure("", t[i:end]) {
		f.add(i, end)
	}
	return max(end, i+1)
}
