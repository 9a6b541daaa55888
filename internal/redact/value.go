package redact

import (
	"regexp"
	"strings"
	"sync"
)

// value notes the value of a key, whatever form it has.
func (f *finder) value(k key) {
	t, v := f.text, k.value
	if v >= len(t) {
		return
	}
	if t[v] == '\n' {
		f.emptyValue(k)
		return
	}
	if blockScalar().MatchString(lineAt(t, v)) {
		f.indented(k, v+len(lineAt(t, v)))
		return
	}
	if inner, end, ok := quotedAt(t, v); ok {
		if !isMeasure(k.name, t[inner:end]) {
			f.add(inner, end)
		}
		return
	}
	if strings.HasPrefix(t[v:], Mark) {
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

// quotedAt returns where the inside of a quoted value begins and ends. A quote may be escaped, as in JSON within JSON,
// and is then closed by one that is escaped as often. A quote that is never closed goes on to the end of its line.
func quotedAt(t string, v int) (inner, end int, ok bool) {
	i := v
	for i < len(t) && i < v+8 && t[i] == '\\' {
		i++
	}
	escape := t[v:i]
	if i < len(t) && strings.IndexByte("@rbuf$LN", t[i]) >= 0 && i+1 < len(t) && (t[i+1] == '"' || t[i+1] == '\'') {
		i++
	}
	for _, quote := range [...]string{`"""`, `'''`, `"`, `'`, "`", "&quot;", "&apos;", "“", "‘"} {
		if !strings.HasPrefix(t[i:], quote) {
			continue
		}
		inner = i + len(quote)
		if end = closing(t, inner, escape, quote); end >= 0 {
			return inner, end, true
		}
		return inner, inner + len(lineAt(t, inner)), true
	}
	return 0, 0, false
}

// closing returns where the closing quote (with its escape) begins, or -1.
func closing(t string, from int, escape, quote string) int {
	switch quote {
	case "“":
		quote = "”"
	case "‘":
		quote = "’"
	}
	// Farther than this a quote was not meant to be closed.
	limit := min(len(t), from+(64<<10))
	for i := from; i < limit; i++ {
		if escape == "" && len(quote) == 1 && quote != "`" && t[i] == '\\' {
			i++
			continue
		}
		if !strings.HasPrefix(t[i:limit], escape+quote) {
			continue
		}
		// Twice the quote is one quote in the value: SQL, CSV, YAML.
		if escape == "" && len(quote) == 1 && strings.HasPrefix(t[i+1:limit], quote) {
			i++
			continue
		}
		if escape != "" && i > from && t[i-1] == '\\' {
			continue
		}
		return i
	}
	return -1
}

// nested notes every value within brackets.
func (f *finder) nested(k key, v int) {
	t := f.text
	if k.separator == '=' && t[v] == '{' {
		// ODBC puts braces around a value that holds semicolons.
		if end := strings.IndexByte(lineAt(t, v), '}'); end > 0 {
			f.add(v+1, v+end)
			return
		}
	}
	depth := 0
	for i := v; i < len(t); {
		switch c := t[i]; {
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
	if inner, end, ok := quotedAt(t, i); ok {
		after := end
		for after < len(t) && strings.IndexByte("\\\"'`", t[after]) >= 0 {
			after++
		}
		if next := skipSpaces(t, after); next >= len(t) || t[next] != ':' {
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
	if !isMeasure("", t[i:end]) {
		f.add(i, end)
	}
	return max(end, i+1)
}

// bare notes a value without quotes. At the start of a line the value is all the rest of it: a secret may hold any
// character, and what a comment behind it loses is no loss.
func (f *finder) bare(k key) {
	t, v := f.text, k.value
	line := lineAt(t, v)
	toEnd := k.first || isHeader(k.name)
	end := v + len(line)
	if quote := f.enclosing(k); quote != 0 {
		if at := strings.IndexByte(line, quote); at >= 0 {
			end = v + at
			if k.first && k.quoted {
				toEnd = false
			}
		}
	}
	if at := strings.Index(t[v:end], "</"); at >= 0 {
		end = v + at
	}
	if number := jsonNumber().FindStringIndex(t[v:end]); number != nil && k.quoted {
		end, toEnd = v+number[1]-1, true
	}
	if !toEnd {
		end = v + bareSize(t[v:end], f.isConnection(k, end), k.quoted)
	}
	if isMeasure(k.name, t[v:end]) {
		return
	}
	f.add(v, end)
	if k.first && end == v+len(line) {
		f.continued(k, end)
	}
}

// isHeader reports whether a name is that of a header whose value holds spaces.
func isHeader(name string) bool {
	name = strings.ToLower(name)
	return strings.HasSuffix(name, "authorization") || strings.HasSuffix(name, "cookie")
}

var jsonNumber = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^-?[0-9.]+\s*[,}\]]`) })

// contextBytes bounds how much of a line around a key is looked at, so that a file that is one long line costs no more
// than one of many.
const contextBytes = 4096

// enclosing returns the quote that is open where the key stands, or 0.
func (f *finder) enclosing(k key) byte {
	var open byte
	for i := max(k.line, k.start-contextBytes); i < k.start; i++ {
		switch c := f.text[i]; {
		case c == '\\':
			i++
		case open == 0 && (c == '"' || c == '\'' || c == '`'):
			open = c
		case c == open:
			open = 0
		}
	}
	if open != 0 && k.quoted && k.start > 0 && f.text[k.start-1] == open {
		return 0
	}
	return open
}

// isConnection reports whether the key is a part of a connection string: parts with semicolons between them.
func (f *finder) isConnection(k key, end int) bool {
	if k.separator != '=' {
		return false
	}
	before := strings.TrimRight(f.text[k.line:k.start], " \t")
	return strings.HasSuffix(before, ";") || connectionPart().MatchString(f.text[k.value:min(end, k.value+contextBytes)])
}

var connectionPart = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`;\s*[A-Za-z][\w .-]{0,40}=`) })

// bareSize returns how far a value goes in the middle of a line. A comma, semicolon or ampersand ends it only where
// something else begins behind it; in a connection string a space does not end it.
func bareSize(s string, connection, json bool) int {
	for i := range len(s) {
		switch c := s[i]; c {
		case ' ', '\t':
			if !connection {
				return trimClosing(s, i)
			}
		case '"', '<', '>':
			return i
		case ',', ';', '&':
			if i+1 == len(s) || nextPart().MatchString(s[i+1:]) {
				return trimClosing(s, i)
			}
		case '}', ']':
			if json {
				return i
			}
		}
	}
	return trimClosing(s, len(s))
}

var nextPart = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:[\s"'}\])]|amp;|["']?[A-Za-z_][\w .-]{0,40}["']?\s*[=:])`)
})

// trimClosing leaves out the brackets that close what the value stands in.
func trimClosing(s string, end int) int {
	for end > 1 && strings.IndexByte("})]", s[end-1]) >= 0 {
		end--
	}
	return end
}
