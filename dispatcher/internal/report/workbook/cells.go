package workbook

import (
	"bufio"
	"encoding/json"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/xuri/excelize/v2"

	"muster/dispatcher/internal/report/line"
	"muster/dispatcher/internal/report/words"
	"muster/internal/protocol"
)

// cells writes the rows of one sheet, cell by cell. It knows strings and
// numbers only, so that nothing that it writes is a formula or a link,
// whatever the text says.
type cells struct {
	out     *bufio.Writer
	zone    *time.Location
	styles  styles
	letters []string // of the columns
	row     string
	column  int
	cut     int // texts that did not fit into a cell
}

func newCells(w io.Writer, zone *time.Location, looks styles) *cells {
	return &cells{out: bufio.NewWriter(w), zone: zone, styles: looks}
}

// sheet writes a whole sheet between what stands before its rows and after.
func (c *cells) sheet(before []byte, s sheet, after []byte) error {
	for i := range s.columns {
		letters, err := excelize.ColumnNumberToName(i + 1)
		if err != nil {
			return err
		}
		c.letters = append(c.letters, letters)
	}
	_, _ = c.out.Write(before)
	_, _ = c.out.WriteString("<sheetData>")
	c.row = "1"
	c.write(`<row r="1" ht="45" customHeight="1">`) // three lines
	for _, column := range s.columns {
		c.text(c.styles.header, column.title.Zh+"\n"+column.title.En)
	}
	c.end()
	if err := s.fill(c); err != nil {
		return err
	}
	_, _ = c.out.WriteString("</sheetData>")
	_, _ = c.out.Write(after)
	return c.out.Flush() // bufio keeps the first error
}

func (c *cells) begin(row int) {
	c.row, c.column = strconv.Itoa(row), 0
	c.write(`<row r="`, c.row, `">`)
}

func (c *cells) end() { c.write("</row>") }

// none leaves a cell out.
func (c *cells) none() { c.column++ }

// text writes a string cell.
func (c *cells) text(style int, text string) {
	text, cut := fitting(Shown(text))
	if cut {
		c.cut++
	}
	c.open(style, ` t="inlineStr"><is><t xml:space="preserve">`)
	c.escaped(text)
	c.write("</t></is></c>")
}

// plain writes text as it is, none where there is no text.
func (c *cells) plain(text string) {
	if text == "" {
		c.none()
		return
	}
	c.text(c.styles.text, text)
}

// integer writes a whole number.
func (c *cells) integer(n int64) { c.number(strconv.FormatInt(n, 10)) }

// number writes a number in the digits of JSON: as a number cell if a
// spreadsheet keeps its value, else as text.
func (c *cells) number(digits string) {
	if !keepsValue(digits) {
		c.text(c.styles.text, digits)
		return
	}
	c.open(0, "><v>")
	c.write(digits, "</v></c>")
}

// typed writes a value of a job's column as what the column says that it is: a date, a
// moment, true or false, or a number. What it is not, and a value that a spreadsheet would
// not keep, is text. A column without a type has numbers and texts.
func (c *cells) typed(of protocol.ColumnType, raw json.RawMessage) {
	text, quoted := line.Text(raw)
	switch {
	case text == "" && !quoted:
		c.none()
	case !quoted && (of == "" || of.Numeric()) && (text[0] == '-' || text[0] >= '0' && text[0] <= '9'):
		c.number(text)
	case !quoted && of == protocol.ColumnBool && (text == "true" || text == "false"):
		c.truth(text == "true")
	case quoted && of == protocol.ColumnDate && c.dateOf(text):
	case quoted && of == protocol.ColumnTime && c.momentOf(text):
	default: // objects and lists too
		c.text(c.styles.text, text)
	}
}

// dateOf writes the day that the text says, and reports whether it could.
func (c *cells) dateOf(text string) bool {
	day, err := time.Parse(time.DateOnly, text)
	return err == nil && c.days(c.styles.date, day)
}

// momentOf writes the moment that the text says, and reports whether it could: nothing
// finer than a millisecond is kept.
func (c *cells) momentOf(text string) bool {
	at, err := time.Parse(time.RFC3339, text)
	return err == nil && at.Nanosecond()%int(time.Millisecond) == 0 && c.days(c.styles.moment, at.In(c.zone))
}

// share writes a part of a whole in per cent, a dash for a part of nothing.
func (c *cells) share(share *float64) {
	if share == nil {
		c.text(c.styles.text, words.Percent(nil))
		return
	}
	c.open(c.styles.share, "><v>")
	c.write(strconv.FormatFloat(*share, 'f', -1, 64), "</v></c>")
}

// moment writes a time as a date of headquarters' wall clock, nothing for none.
func (c *cells) moment(t protocol.Time) {
	if t.IsZero() {
		c.none()
	} else if !c.days(c.styles.moment, t.In(c.zone)) {
		c.text(c.styles.text, line.Moment(t))
	}
}

// days writes a wall clock's time as a date, and reports whether spreadsheets know it.
func (c *cells) days(style int, t time.Time) bool {
	days, ok := serial(t)
	if ok {
		c.open(style, "><v>")
		c.write(days, "</v></c>")
	}
	return ok
}

// truth writes true or false.
func (c *cells) truth(yes bool) {
	digit := "0"
	if yes {
		digit = "1"
	}
	c.open(0, ` t="b"><v>`)
	c.write(digit, "</v></c>")
}

// open begins a cell and moves on to the next.
func (c *cells) open(style int, rest string) {
	c.write(`<c r="`, c.letters[c.column], c.row, `"`)
	if style != 0 {
		c.write(` s="`, strconv.Itoa(style), `"`)
	}
	c.write(rest)
	c.column++
}

func (c *cells) write(pieces ...string) {
	for _, piece := range pieces {
		_, _ = c.out.WriteString(piece)
	}
}

// escaped writes text for XML. Spreadsheets also read _x0041_ as the letter A
// (ISO/IEC 29500-1, 22.9.2.19), so that such an underscore is written that way
// itself.
func (c *cells) escaped(text string) {
	from := 0
	for i := range len(text) {
		var escape string
		switch text[i] {
		case '&':
			escape = "&amp;"
		case '<':
			escape = "&lt;"
		case '>':
			escape = "&gt;"
		case '_':
			if escapeLike.MatchString(text[i:min(len(text), i+len("_x0041_"))]) { // overlapping ones too
				escape = "_x005F_"
			}
		}
		if escape != "" {
			c.write(text[from:i], escape)
			from = i + 1
		}
	}
	c.write(text[from:])
}

var (
	escapeLike = regexp.MustCompile(`^_x[0-9A-Fa-f]{4}_$`)
	jsonNumber = regexp.MustCompile(`^(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?$`)
)

// keepsValue reports whether the number is the same after a spreadsheet read
// it: doubles that are neither zero by underflow nor without bound, and no more
// than the 15 digits that it shows.
func keepsValue(number string) bool {
	const digitsShown, smallest, largest = 15, 1e-300, 1e300
	parts := jsonNumber.FindStringSubmatch(number)
	if parts == nil {
		return false
	}
	digits := strings.Trim(parts[2]+parts[3], "0")
	if digits == "" {
		return parts[1] == "" // it would drop the sign of -0
	}
	value, err := strconv.ParseFloat(number, 64)
	size := math.Abs(value)
	return err == nil && len(digits) <= digitsShown && size >= smallest && size <= largest
}

// serial is the number by which spreadsheets mean a date: days since the end of
// 1899. It is false for dates that they count in another way, or not at all.
func serial(t time.Time) (days string, ok bool) {
	const perDay = 24 * 60 * 60 * 1000
	wall := time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
	first := time.Date(1900, time.March, 1, 0, 0, 0, 0, time.UTC) // before it, they know a day that never was
	if wall.Before(first) || wall.Year() > 9999 {
		return "", false
	}
	start := time.Date(1899, time.December, 30, 0, 0, 0, 0, time.UTC)
	return strconv.FormatFloat(float64(wall.UnixMilli()-start.UnixMilli())/perDay, 'f', -1, 64), true
}

// fitting cuts text that does not fit into a cell, and says so at its end.
func fitting(text string) (fit string, cut bool) {
	const unitsHeld = 32767 // UTF-16 units, the limit of spreadsheets
	if len(text) <= unitsHeld || units(text) <= unitsHeld {
		return text, false
	}
	mark := " … [已截断 cut: " + strconv.Itoa(utf8.RuneCountInString(text)) + "]"
	left := unitsHeld - units(mark)
	for i, r := range text {
		if left -= units(string(r)); left < 0 {
			return text[:i] + mark, true
		}
	}
	return text, false
}

func units(text string) int {
	n := 0
	for _, r := range text {
		n++
		if r > math.MaxUint16 {
			n++
		}
	}
	return n
}

// Shown is text as a cell shows it: visible, but with line breaks and tabs, which a cell
// may have, and without U+FFFE and U+FFFF, which XML has not.
func Shown(text string) string {
	clean := func(r rune) bool {
		return r == '\n' || r == '\t' || !words.Acts(r) && r != '\ufffe' && r != '\uffff'
	}
	if strings.IndexFunc(text, func(r rune) bool { return !clean(r) }) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case clean(r):
			b.WriteRune(r)
		case r == '\ufffe' || r == '\uffff':
			b.WriteString("[U+" + strings.ToUpper(strconv.FormatInt(int64(r), 16)) + "]")
		default:
			b.WriteString(words.Visible(string(r)))
		}
	}
	return b.String()
}
