package report

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

// visible shows what would act on the text around it, or would not be seen at
// all: control characters, direction marks, other invisible format characters
// and line separators. Everything else stays.
func visible(s string) string {
	if strings.IndexFunc(s, acts) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !acts(r):
			b.WriteRune(r)
		case r < ' ':
			b.WriteRune(pictures + r)
		default:
			fmt.Fprintf(&b, "[U+%04X]", r)
		}
	}
	return b.String()
}

func acts(r rune) bool {
	if r >= ' ' && r <= '~' || isIdeograph(r) || r == zeroWidthJoiner || r == zeroWidthNonJoiner {
		return false
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r)
}
