package words

import (
	"fmt"
	"strings"
	"unicode"
)

const (
	zeroWidthJoiner    = '\u200d' // emoji families are made with it
	zeroWidthNonJoiner = '\u200c' // some scripts need it
	pictures           = '\u2400' // the block that shows control characters
)

// Visible shows what would act on the text around it, or would not be seen at
// all: control characters, direction marks, other invisible format characters
// and line separators. Everything else stays.
func Visible(s string) string {
	if strings.IndexFunc(s, Acts) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !Acts(r):
			b.WriteRune(r)
		case r < ' ':
			b.WriteRune(pictures + r)
		default:
			fmt.Fprintf(&b, "[U+%04X]", r)
		}
	}
	return b.String()
}

// Acts reports whether a character acts on the text around it or would not be seen.
func Acts(r rune) bool {
	if r >= ' ' && r <= '~' || Ideograph(r) || r == zeroWidthJoiner || r == zeroWidthNonJoiner {
		return false
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r)
}

// Ideograph is true for the characters of East Asia, but for wide forms of others.
func Ideograph(r rune) bool { return r > '\u3000' && r <= '\ud7ff' }
