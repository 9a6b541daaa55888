package redact

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"muster/internal/redact/find"
)

// unquote returns the text of a JSON string with its quotes. Half a surrogate pair becomes U+FFFD.
func unquote(raw []byte) string {
	raw = raw[1 : len(raw)-1]
	text := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		text, i = unescape(text, raw, i)
	}
	return string(text)
}

// unescape appends the character at i and returns where the next one begins.
func unescape(text, raw []byte, i int) ([]byte, int) {
	if raw[i] != '\\' || i+1 == len(raw) {
		return append(text, raw[i]), i + 1
	}
	switch c := raw[i+1]; c {
	case 'b':
		return append(text, '\b'), i + 2
	case 'f':
		return append(text, '\f'), i + 2
	case 'n':
		return append(text, '\n'), i + 2
	case 'r':
		return append(text, '\r'), i + 2
	case 't':
		return append(text, '\t'), i + 2
	case 'u':
		first := unit(raw, i)
		if second := unit(raw, i+6); utf16.IsSurrogate(first) && second >= 0 {
			if r := utf16.DecodeRune(first, second); r != utf8.RuneError {
				return utf8.AppendRune(text, r), i + 12
			}
		}
		return utf8.AppendRune(text, first), min(i+6, len(raw))
	default:
		return append(text, c), i + 2
	}
}

// unit returns the UTF-16 unit that is written as \uXXXX at i, or -1.
func unit(raw []byte, i int) rune {
	if i+6 > len(raw) || raw[i] != '\\' || raw[i+1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(raw[i+2:i+6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

// rawSpans tells where places in the text of a JSON string stand in the string as it is written. The places are in
// order and apart.
func rawSpans(raw []byte, places []find.Span) []span {
	inner := raw[1 : len(raw)-1]
	out := make([]span, 0, len(places))
	var char [utf8.UTFMax]byte
	at, i := 0, 0
	// seek goes to where the text's byte at offset begins, or, inside a character, to the end of it.
	seek := func(offset int) int {
		for at < offset && i < len(inner) {
			one, next := unescape(char[:0], inner, i)
			at, i = at+len(one), next
		}
		return i + 1
	}
	for _, p := range places {
		out = append(out, span{seek(p.Start), seek(p.End)})
	}
	return out
}

// escapeSpace writes the line breaks and tabs of a text as JSON does.
func escapeSpace(s string) string { return spaceEscapes.Replace(s) }

var spaceEscapes = strings.NewReplacer("\n", `\n`, "\t", `\t`, "\r", `\r`)
