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
	if strings.IndexByte("!&|>", t[v]) >= 0 {
		line := f.line(v)
		f.work -= len(line)
		if blockScalar().MatchString(line) {
			f.indented(k, v+len(line))
			return
		}
	}
	if inner, end, ok := f.quotedAt(v); ok {
		if !isMeasure(k.name, t[inner:end]) {
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

// quotedAt returns where the inside of a quoted value begins and ends. A quote may be escaped, as in JSON within JSON,
// and is then closed by one that is escaped as often. A quote that is never closed goes on to the end of its line.
func (f *finder) quotedAt(v int) (inner, end int, ok bool) {
	t, i := f.text, v
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
		end = closing(t, inner, escape, quote)
		if end < 0 {
			f.work -= min(maxQuotedBytes, len(t)-inner)
			end = inner + len(f.line(inner))
		}
		f.work -= end - inner
		return inner, end, true
	}
	return 0, 0, false
}

// maxQuotedBytes bounds a quoted value: farther than this a quote was not meant to be closed.
const maxQuotedBytes = 64 << 10

// closing returns where the closing quote (with its escape) begins, or -1.
func closing(t string, from int, escape, quote string) int {
	switch quote {
	case "“":
		quote = "”"
	case "‘":
		quote = "’"
	}
	limit := min(len(t), from+maxQuotedBytes)
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
		if next := skipSpaces(t, after); (next >= len(t) || t[next] != ':') && !isMeasure("", t[inner:end]) {
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
	if !isMeasure("", t[i:end]) {
		f.add(i, end)
	}
	return max(end, i+1)
}

// bare notes a value without quotes. At the start of a line the value is all the rest of it: a secret may hold any
// character, and what a comment behind it loses is no loss.
func (f *finder) bare(k key) {
	t, v := f.text, k.value
	line := f.line(v)
	if number := jsonNumber(line); number > 0 && k.quoted {
		if !isMeasure(k.name, line[:number]) {
			f.add(v, v+number)
		}
		return
	}
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
	f.work -= len(line) / 16
	if toEnd {
		if at := strings.Index(t[v:end], "</"); at >= 0 {
			end = v + at
		}
	} else {
		end = v + bareSize(t[v:end], f.isConnection(k, end), k.quoted)
	}
	f.work -= end - v
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

// jsonNumber returns the length of a number and the spaces behind it where something of JSON follows, or 0.
func jsonNumber(s string) int {
	i := 0
	for i < len(s) && (isDigit(s[i]) || s[i] == '.' || i == 0 && s[i] == '-') {
		i++
	}
	if strings.Trim(s[:i], "-") == "" {
		return 0
	}
	if i = skipSpaces(s, i); i < len(s) && strings.IndexByte(",}]", s[i]) >= 0 {
		return i
	}
	return 0
}

// contextBytes bounds how much of a line around a key is looked at, so that a file that is one long line costs no more
// than one of many.
const contextBytes = 4096

// enclosing returns the quote that is open where the key stands, or 0.
func (f *finder) enclosing(k key) byte {
	var open byte
	from := max(k.line, k.start-contextBytes)
	f.work -= (k.start - from) / 4
	for i := from; i < k.start; i++ {
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
	before := strings.TrimRight(f.text[max(k.line, k.start-contextBytes):k.start], " \t")
	return strings.HasSuffix(before, ";") || f.holdsPart(f.text[k.value:min(end, k.value+contextBytes)])
}

// holdsPart reports whether another part of a connection string stands in s.
func (f *finder) holdsPart(s string) bool {
	f.work -= len(s) / 4
	for {
		at := strings.IndexByte(s, ';')
		if at < 0 {
			return false
		}
		s = s[at+1:]
		rest := strings.TrimLeft(s, " \t")
		if n := partName(rest); n > 0 && n < len(rest) && rest[n] == '=' {
			return true
		}
	}
}

// partName returns the length of the name of a part, which may hold spaces, at the start of s.
func partName(s string) int {
	const most = 41
	n := 0
	for n < min(len(s), most) && (isAlphanumeric(s[n]) || strings.IndexByte("_ .-", s[n]) >= 0) {
		n++
	}
	if n > 0 && (s[0] == '_' || (s[0]|0x20) >= 'a' && (s[0]|0x20) <= 'z') {
		return n
	}
	return 0
}

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
			if i+1 == len(s) || beginsNext(s[i+1:]) {
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

// beginsNext reports whether s begins with something other than the rest of a value: the end of what the value stands
// in, or another setting.
func beginsNext(s string) bool {
	if strings.IndexByte(" \t\n\r\"'}])", s[0]) >= 0 || strings.HasPrefix(s, "amp;") {
		return true
	}
	n := partName(s)
	if n == 0 {
		return false
	}
	if n < len(s) && (s[n] == '"' || s[n] == '\'') {
		n++
	}
	n = skipSpaces(s, n)
	return n < len(s) && (s[n] == '=' || s[n] == ':')
}

// trimClosing leaves out the brackets that close what the value stands in.
func trimClosing(s string, end int) int {
	for end > 1 && strings.IndexByte("})]", s[end-1]) >= 0 {
		end--
	}
	return end
}
