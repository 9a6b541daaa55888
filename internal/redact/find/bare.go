package find

import (
	"strings"

	"muster/internal/redact/words"
)

// bare notes a value without quotes. At the start of a line the value is all the rest of it: a secret may hold any
// character, and what a comment behind it loses is no loss.
func (f *finder) bare(k key) {
	t, v := f.text, k.value
	line := f.line(v)
	if number := jsonNumber(line); number > 0 && k.quoted {
		if !words.IsMeasure(k.name, line[:number]) {
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
	if words.IsMeasure(k.name, t[v:end]) {
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
	for i < len(s) && (words.IsDigit(s[i]) || s[i] == '.' || i == 0 && s[i] == '-') {
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
	for n < min(len(s), most) && (words.IsAlphanumeric(s[n]) || strings.IndexByte("_ .-", s[n]) >= 0) {
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
