package find

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"muster/internal/redact/words"
)

// plain is a text whose characters were written otherwise, written plainly: JSON's escapes, full-width letters, entities
// of markup, percent signs of URLs and odd spaces. Names are told by it, and the text that it comes from keeps its bytes.
type plain struct {
	out strings.Builder
	// marks are where both texts go on side by side, in order.
	marks []sideBySide
}

// sideBySide says that offset plain of the plain text is offset written of the other.
type sideBySide struct{ plain, written int }

// inPlain returns the places of the secrets that are seen only once the text is written plainly.
func inPlain(text string) []Span {
	p := plainOf(text)
	if len(p.marks) == 0 {
		return nil
	}
	shown := p.out.String()
	names, marks := words.Look(shown)
	spans := look(shown, names, marks)
	at := 0
	// written goes to where the offset, none smaller than the one before, stands in the text.
	written := func(offset int) int {
		for at < len(p.marks) && p.marks[at].plain <= offset {
			at++
		}
		limit := len(text)
		if at < len(p.marks) {
			limit = p.marks[at].written
		}
		if at == 0 {
			return offset
		}
		return min(limit, p.marks[at-1].written+offset-p.marks[at-1].plain)
	}
	for i := range spans {
		spans[i].Start = written(spans[i].Start)
		spans[i].End = written(spans[i].End)
	}
	return spans
}

func plainOf(text string) *plain {
	p := &plain{}
	done := 0
	for i := 0; i < len(text); {
		shown, size := written(text[i:])
		if size == 0 {
			i++
			continue
		}
		p.out.WriteString(text[done:i])
		p.marks = append(p.marks, sideBySide{p.out.Len(), i})
		p.out.WriteString(shown)
		i += size
		done = i
		p.marks = append(p.marks, sideBySide{p.out.Len(), i})
	}
	p.out.WriteString(text[done:])
	return p
}

// written returns what the start of s stands for and how long it is; size is 0 where it stands for itself.
func written(s string) (shown string, size int) {
	switch c := s[0]; {
	case c == '\\':
		return jsonEscape(s)
	case c == '&':
		return entity(s)
	case c == '%' && len(s) > 2:
		if n, err := strconv.ParseUint(s[1:3], 16, 8); err == nil && n >= ' ' && n != '\\' && n != 0x7f {
			return string([]byte{byte(n)}), 3
		}
	case c == 0xC2 || c == 0xE2 || c == 0xE3 || c == 0xEF:
		return wideSign(s)
	}
	return "", 0
}

// jsonEscape is a character as \uXXXX, the backslash perhaps escaped itself. Signs that would end a string stay.
func jsonEscape(s string) (shown string, size int) {
	const mostBackslashes = 8
	for size < min(len(s), mostBackslashes) && s[size] == '\\' {
		size++
	}
	if size+5 > len(s) || s[size] != 'u' {
		return "", 0
	}
	n, err := strconv.ParseUint(s[size+1:size+5], 16, 16)
	if err != nil || n < ' ' || n == '\\' || !utf8.ValidRune(rune(n)) {
		return "", 0
	}
	return string(rune(n)), size + 5
}

// entity is a character as markup writes it.
func entity(s string) (shown string, size int) {
	for _, known := range [...][2]string{{"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", `"`}, {"&apos;", "'"}} {
		if strings.HasPrefix(s, known[0]) {
			return known[1], len(known[0])
		}
	}
	const longest = len("&#x10ffff;")
	if !strings.HasPrefix(s, "&#") {
		return "", 0
	}
	number, _, closed := strings.Cut(s[2:min(len(s), longest)], ";")
	base, digits := 10, number
	if strings.HasPrefix(number, "x") || strings.HasPrefix(number, "X") {
		base, digits = 16, number[1:]
	}
	n, err := strconv.ParseUint(digits, base, 31)
	if !closed || err != nil || n < ' ' || n == '\\' || !utf8.ValidRune(rune(n)) {
		return "", 0
	}
	return string(rune(n)), len("&#") + len(number) + len(";")
}

// wideSign is a full-width letter or sign, a space that is none of ASCII, or a character without width.
func wideSign(s string) (shown string, size int) {
	switch r, size := utf8.DecodeRuneInString(s); {
	case r >= '！' && r <= '～' && r != '＼':
		return string(r - '！' + '!'), size
	case r == '\u00a0' || r == '\u3000' || r == '\u2007' || r == '\u202f':
		return " ", size
	case r >= '\u200b' && r <= '\u200d' || r == '\u2060' || r == '\ufeff':
		return "", size
	}
	return "", 0
}
