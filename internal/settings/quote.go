package settings

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/width"

	"muster/internal/redact"
)

// quoted is the source of a line with a caret under the column, both counted from
// 1; "" when there is no such line, or it may hold a secret. Neighbours are not
// quoted: they may hold one too.
func quoted(source []byte, line, column int) string {
	lines := bytes.Split(source, []byte("\n"))
	if line < 1 || line > len(lines) {
		return ""
	}
	text := strings.TrimRight(string(lines[line-1]), " \t\r")
	if _, secrets := redact.Text(text); secrets > 0 || strings.TrimSpace(text) == "" {
		return ""
	}
	margin := fmt.Sprintf("%4d", line)
	return fmt.Sprintf("\n%s | %s\n%s | %s^", margin, text, strings.Repeat(" ", len(margin)), blanks(text, column-1))
}

// blanks is as wide as the first characters of a text.
func blanks(text string, characters int) string {
	var b strings.Builder
	for i, r := range []rune(text) {
		if i >= characters {
			break
		}
		switch {
		case r == '\t':
			b.WriteRune(r)
		case unicode.Is(unicode.Mn, r):
		case width.LookupRune(r).Kind() == width.EastAsianWide, width.LookupRune(r).Kind() == width.EastAsianFullwidth:
			b.WriteString("  ")
		default:
			b.WriteByte(' ')
		}
	}
	return b.String()
}
