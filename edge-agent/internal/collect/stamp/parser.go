// Package stamp finds the time at which a log line says it was written, in the forms that programs commonly use, and
// turns it into an instant of the store's time zone. It must not guess at prose: only a time stamp that stands where
// lines carry theirs counts, so that a date in a message or a stack trace does not start a record.
package stamp

import (
	"bytes"
	"strings"
	"time"
)

const (
	// floatBytes bounds how far into a line a time stamp is looked for in a file that has shown none at the start of
	// its lines; program names and thread names before it are shorter.
	floatBytes = 64
	// fieldBytes bounds how far into a line a named time field or an access log's bracket is looked for.
	fieldBytes = 256
)

// Options say how the time stamps of one file are read.
type Options struct {
	// Location is the zone of time stamps without one. It must not be nil.
	Location *time.Location
	// AsOf and Modified bound the year of time stamps without one: see Parser.
	AsOf, Modified time.Time
	// FileDay is the day in the file's name, for lines that carry a time of day alone. The zero value is "none".
	FileDay time.Time
	// Layouts are further forms as package time writes them, tried first, at the start of a line.
	Layouts []string
}

// Parser reads the time stamps of one file, line after line; it is not safe for concurrent use.
//
// A time stamp without a year gets the latest year that does not put it more than two days after the file was last
// written (nor more than 62 days after AsOf, so that a file with a wrong or later date does not pull lines into the
// future). A modification time before 2000 is taken for a dead clock and AsOf alone counts.
type Parser struct {
	options Options
	latest  time.Time
	// anchored says that a line began with a time, and dated that one began with a whole date.
	anchored, dated bool
	day             dayCache
}

// NewParser returns a parser for one file.
func NewParser(options Options) *Parser {
	const copySlack, clockSlack = 62 * 24 * time.Hour, 48 * time.Hour
	latest := options.AsOf
	if options.Modified.Year() >= 2000 {
		latest = options.Modified
		if limit := options.AsOf.Add(copySlack); latest.After(limit) {
			latest = limit
		}
	}
	return &Parser{options: options, latest: latest.Add(clockSlack)}
}

// Parse returns the time of a line in Unix milliseconds and where the text after the time stamp begins. ok is false
// when the line carries none, as the later lines of a stack trace do.
func (p *Parser) Parse(line []byte) (ms int64, rest int, ok bool) {
	start := skipLead(line)
	if ms, rest, ok = p.layouts(line, start); ok {
		p.anchored = true
		return ms, rest, true
	}
	indented := len(line) > 0 && (line[0] == ' ' || line[0] == '\t')
	// A bar code may look like an epoch, and a duration like a time of day; where lines are dated they are no times.
	loose := !indented && !p.dated
	if ms, rest, ok = p.at(line, start, false); ok {
		p.anchored, p.dated = true, true
		return ms, rest, true
	}
	if loose {
		if ms, rest, ok = p.at(line, start, true); ok {
			p.anchored = true
			return ms, rest, true
		}
	}
	if level := skipWord(line, start); level > start {
		if ms, rest, ok = p.at(line, level, false); ok {
			p.anchored = true
			return ms, rest, true
		}
	}
	if ms, rest, ok = p.named(line); ok {
		p.anchored = true
		return ms, rest, true
	}
	if p.anchored || indented {
		return 0, 0, false
	}
	return p.floating(line, start)
}

// skipLead passes over what may stand before a time stamp: brackets, quotes, spaces and syslog's <priority>.
func skipLead(line []byte) int {
	i := 0
	if len(line) > 2 && line[0] == '<' && isDigit(line[1]) {
		if end := bytes.IndexByte(line[:min(len(line), 6)], '>'); end > 0 {
			i = end + 1
			// RFC 5424 has a version digit there.
			if i+1 < len(line) && line[i] == '1' && line[i+1] == ' ' {
				i += 2
			}
		}
	}
	for i < len(line) && i < 16 && isLead(line[i]) {
		i++
	}
	return i
}

func isLead(c byte) bool {
	switch c {
	case ' ', '\t', '[', '(', '{', '<', '"', '\'', '|', '*', '#', '-', '=', '>':
		return true
	default:
		return false
	}
}

// skipWord passes over one leading word, which is a level in most logs ("INFO  2026-…", "[ERROR] 2026-…"), and over
// what separates it from what follows. It returns start when there is no such word.
func skipWord(line []byte, start int) int {
	i := start
	for i < len(line) && i < start+12 && isLetter(line[i]) {
		i++
	}
	if i == start {
		return start
	}
	end := i
	for i < len(line) && i < end+8 && (isLead(line[i]) || line[i] == ']' || line[i] == ':' || line[i] == ',' || line[i] == ')') {
		i++
	}
	if i == end {
		return start
	}
	return i
}

// named looks for a time that is labelled as one: a field of a JSON or logfmt line, or an access log's bracket.
func (p *Parser) named(line []byte) (ms int64, rest int, ok bool) {
	head := line[:min(len(line), fieldBytes)]
	if len(head) == 0 {
		return 0, 0, false
	}
	if head[0] == '{' {
		return p.jsonField(line, head)
	}
	if bytes.IndexByte(head, '=') > 0 {
		for _, label := range [...]string{"time=", "ts=", "timestamp="} {
			if i := bytes.Index(head, []byte(label)); i == 0 || (i > 0 && head[i-1] == ' ') {
				return p.at(line, skipQuote(line, i+len(label)), false)
			}
		}
	}
	if i := bytes.IndexByte(head, '['); i > 0 && i+12 < len(head) && head[i+3] == '/' && head[i+7] == '/' {
		return p.at(line, i+1, false)
	}
	return 0, 0, false
}

func (p *Parser) jsonField(line, head []byte) (ms int64, rest int, ok bool) {
	for _, label := range [...]string{
		`"time"`, `"timestamp"`, `"@timestamp"`, `"ts"`, `"datetime"`, `"date"`, `"t"`, `"asctime"`, `"logTime"`, `"@t"`,
	} {
		i := bytes.Index(head, []byte(label))
		if i < 0 {
			continue
		}
		i += len(label)
		for i < len(line) && (line[i] == ' ' || line[i] == ':') {
			i++
		}
		if ms, rest, ok = p.at(line, skipQuote(line, i), true); ok {
			return ms, rest, true
		}
	}
	return 0, 0, false
}

func skipQuote(line []byte, i int) int {
	if i < len(line) && line[i] == '"' {
		return i + 1
	}
	return i
}

// floating looks for a full date and time anywhere in the head of the line.
func (p *Parser) floating(line []byte, start int) (ms int64, rest int, ok bool) {
	head := line[:min(len(line), floatBytes)]
	for i := start + 1; i+10 < len(head); i++ {
		if !isDigit(head[i]) || isDigit(head[i-1]) || isLetter(head[i-1]) {
			continue
		}
		if n := digits(head[i:]); n == 4 && isDateSeparator(head[i+4]) {
			if ms, rest, ok = p.at(line, i, false); ok {
				return ms, rest, true
			}
		}
	}
	return 0, 0, false
}

// layouts tries the forms that the configuration adds.
func (p *Parser) layouts(line []byte, start int) (ms int64, rest int, ok bool) {
	if len(p.options.Layouts) == 0 {
		return 0, 0, false
	}
	for _, from := range [...]int{0, start} {
		head := string(line[from:min(len(line), from+floatBytes)])
		for _, layout := range p.options.Layouts {
			if t, used, found := parseHead(layout, head, p.options.Location); found {
				return p.settle(t, layout), from + used, true
			}
		}
	}
	return 0, 0, false
}

// parseHead parses the head of text by layout; package time says in its error where the text went on.
func parseHead(layout, text string, location *time.Location) (t time.Time, used int, ok bool) {
	t, err := time.ParseInLocation(layout, text, location)
	if err == nil {
		return t, len(text), true
	}
	parseError, isParse := err.(*time.ParseError) //nolint:errorlint // package time documents this concrete type
	if !isParse || !strings.HasPrefix(parseError.Message, ": extra text") {
		return time.Time{}, 0, false
	}
	used = len(text) - len(parseError.ValueElem)
	if used <= 0 || used > len(text) {
		return time.Time{}, 0, false
	}
	t, err = time.ParseInLocation(layout, text[:used], location)
	return t, used, err == nil
}

// settle gives a time that was parsed by a layout its year, where the layout has none.
func (p *Parser) settle(t time.Time, layout string) int64 {
	if strings.Contains(layout, "06") {
		return t.UnixMilli()
	}
	year := p.inferYear(int(t.Month()), t.Day())
	return time.Date(year, t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), t.Location()).UnixMilli()
}
