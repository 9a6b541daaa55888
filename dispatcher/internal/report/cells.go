package report

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"muster/dispatcher/internal/report/words"
)

// csvRules stands in every manifest beside the CSV file.
const csvRules = "CSV (RFC 4180), UTF-8 with byte order mark, CRLF, one header line. " +
	"A line of a text cell that a spreadsheet would run as a formula or turn into another value " +
	"(007, 1E5, 06-8108, =1+1) carries one apostrophe in front, and so does a line that starts with an apostrophe: " +
	"taking one leading apostrophe from each line of a cell gives the exact text back. " +
	"So does an id or a name that ends in the zero of a decimal (1.10), which a spreadsheet would drop. " +
	"The cell attempts is the list of the JSON file. " +
	"Other plain numbers such as -5 and -2.50 stand as they are; numbers in job columns keep the digits that the terminal sent."

// The patterns of text that a spreadsheet takes for something else.
var (
	// plainNumber reads back as the value it shows: no leading zeros, no
	// exponent, no more digits than a double holds.
	plainNumber = regexp.MustCompile(`^-?((0|[1-9]\d{0,14})|(0|[1-9]\d{0,8})\.\d{1,6})$`)
	// numberLike holds nothing but what numbers, dates and times are made of.
	numberLike = regexp.MustCompile(`^\d[\d.,:/\\ eE+\-%年月日时時分秒]*([AaPp][Mm]?)?$`)
	// endsInZero is a plain number that a spreadsheet shows shorter.
	endsInZero = regexp.MustCompile(`^-?\d+\.\d*0$`)
	monthLike  = regexp.MustCompile(`(?i)^(\d{1,4}[ ./-]*)?(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*([ ./,-]*\d{1,4})*$`)
	wordLike   = regexp.MustCompile(`(?i)^(true|false)$`)
)

// textCell makes text safe for a spreadsheet by the rule that csvRules tells.
func textCell(s string) string {
	if !strings.ContainsAny(s, "\r\n") {
		return guard(s)
	}
	var b strings.Builder
	for s != "" {
		end := strings.IndexAny(s, "\r\n")
		if end < 0 {
			end = len(s)
		}
		b.WriteString(guard(s[:end]))
		rest := end
		for rest < len(s) && (s[rest] == '\r' || s[rest] == '\n') {
			rest++
		}
		b.WriteString(s[end:rest])
		s = s[rest:]
	}
	return b.String()
}

// nameCell is textCell for ids and names. They are no amounts, so that 1.10 must
// not become 1.1, which may be another store.
func nameCell(s string) string {
	if strings.HasSuffix(s, "0") && endsInZero.MatchString(s) {
		return "'" + s
	}
	return textCell(s)
}

func guard(line string) string {
	if strings.HasPrefix(line, "'") || risky(line) {
		return "'" + line
	}
	return line
}

// risky reports whether a spreadsheet would run the line or show another value
// than it says. It looks past what spreadsheets strip: white space, control and
// format characters.
func risky(line string) bool { return !harmless(line) && matches(line) }

func matches(line string) bool {
	bare := strings.TrimFunc(line, ignorable)
	if bare == "" {
		return strings.HasPrefix(line, "\t")
	}
	if plainNumber.MatchString(line) {
		return false
	}
	switch []rune(bare)[0] {
	case '=', '+', '-', '@', '＝', '＋', '－', '＠':
		return true
	}
	if line[0] == '\t' {
		return true
	}
	return numberLike.MatchString(bare) || plainNumber.MatchString(bare) || monthLike.MatchString(bare) || wordLike.MatchString(bare)
}

func ignorable(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
}

// harmless is a quick look that spares most text the patterns: it begins with a
// letter, and with none of a month or of true and false, or it is ASCII, begins with
// a digit and has a letter that stands in no number or time, such as a hash.
func harmless(line string) bool {
	const inNumbers = "eEaApPmM"
	if line == "" {
		return true
	}
	if line[0] < '0' || line[0] > '9' {
		first, _ := utf8.DecodeRuneInString(line)
		return isLetter(line[0]) && !wordBegins(line) || words.Ideograph(first)
	}
	digits := len(line) - len(strings.TrimLeft(line, "0123456789"))
	if wordBegins(strings.TrimLeft(line[digits:], " ./-")) {
		return false
	}
	other := false
	for i := range len(line) {
		if line[i] >= utf8.RuneSelf {
			return false
		}
		other = other || line[i] == '_' || isLetter(line[i]) && strings.IndexByte(inNumbers, line[i]) < 0
	}
	return other
}

// wordBegins reports whether a month, true or false may stand here.
func wordBegins(s string) bool {
	const length = 3
	if len(s) < length {
		return false
	}
	var low [length]byte
	for i := range low {
		if low[i] = s[i] | 0x20; s[i] >= utf8.RuneSelf { // ſ is an s to the patterns
			return true
		}
	}
	switch string(low[:]) {
	case "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec", "tru", "fal":
		return true
	}
	return false
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
