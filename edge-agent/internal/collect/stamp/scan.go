package stamp

import (
	"bytes"
	"strings"
)

// scanner is a position in a line. Its methods move on only past what they accept, except where a form has failed and
// the scanner is thrown away.
type scanner struct {
	b []byte
	i int
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isLetter(c byte) bool { return (c|0x20) >= 'a' && (c|0x20) <= 'z' }

func isDateSeparator(c byte) bool { return c == '-' || c == '/' || c == '.' || c == 0xE5 }

// digits counts the digits at the start of b.
func digits(b []byte) int {
	n := 0
	for n < len(b) && isDigit(b[n]) {
		n++
	}
	return n
}

// number reads at most width digits; -1 when there is none.
func (s *scanner) number(width int) int {
	value, n := 0, 0
	for n < width && s.i < len(s.b) && isDigit(s.b[s.i]) {
		value = value*10 + int(s.b[s.i]-'0')
		s.i++
		n++
	}
	if n == 0 {
		return -1
	}
	return value
}

func (s *scanner) take(text string) bool {
	if !bytes.HasPrefix(s.b[s.i:], []byte(text)) {
		return false
	}
	s.i += len(text)
	return true
}

func (s *scanner) oneOf(set string) bool {
	if s.i < len(s.b) && strings.IndexByte(set, s.b[s.i]) >= 0 {
		s.i++
		return true
	}
	return false
}

func (s *scanner) spaces() bool {
	from := s.i
	for s.i < len(s.b) && s.b[s.i] == ' ' {
		s.i++
	}
	return s.i > from
}

// separator takes what stands between the parts of a date.
func (s *scanner) separator(chinese string) bool { return s.oneOf("-/.") || s.take(chinese) }

// joint takes what stands between a date and a time of day.
func (s *scanner) joint() {
	s.oneOf("T_-:t,")
	s.spaces()
}

// month reads an English month by its first three letters, whatever the rest of the word; 0 when there is none.
func (s *scanner) month() int {
	return s.name("janfebmaraprmayjunjulaugsepoctnovdec")
}

// weekday passes an English weekday.
func (s *scanner) weekday() bool { return s.name("sunmontuewedthufrisat") > 0 }

func (s *scanner) name(table string) int {
	if s.i+3 > len(s.b) {
		return 0
	}
	a, b, c := s.b[s.i]|0x20, s.b[s.i+1]|0x20, s.b[s.i+2]|0x20
	for k := 0; k+2 < len(table); k += 3 {
		if table[k] != a || table[k+1] != b || table[k+2] != c {
			continue
		}
		end := s.i + 3
		for end < len(s.b) && isLetter(s.b[end]) {
			end++
		}
		if end-s.i > 9 {
			return 0
		}
		s.i = end
		return k/3 + 1
	}
	return 0
}

// clockAndZone reads the time of day, its fraction and its zone, and says whether date and time are possible ones.
func (s *scanner) clockAndZone(c clock) (clock, bool) {
	afternoon := s.halfDay()
	c.hour = s.number(2)
	if c.hour < 0 || !(s.oneOf(":.") || s.take("时") || s.take("：")) {
		return c, false
	}
	if c.minute = s.number(2); c.minute < 0 {
		return c, false
	}
	if s.oneOf(":.") || s.take("分") || s.take("：") {
		if c.second = s.number(2); c.second < 0 {
			return c, false
		}
		s.take("秒")
		c.milli = s.fraction()
	}
	if afternoon == "" {
		mark := s.i
		s.spaces()
		if afternoon = s.halfDay(); afternoon == "" {
			s.i = mark
		}
	}
	switch {
	case afternoon == "pm" && c.hour < 12:
		c.hour += 12
	case afternoon == "am" && c.hour == 12:
		c.hour = 0
	}
	s.zone(&c)
	if s.i < len(s.b) && isDigit(s.b[s.i]) {
		return c, false
	}
	return c, c.validTime() && (c.noYear || c.year >= 1970 && c.year < 2200) && c.validDate()
}

// halfDay reads the half of the day of a twelve-hour clock: "am", "pm" or "".
func (s *scanner) halfDay() string {
	for _, mark := range [...][2]string{
		{"AM", "am"}, {"PM", "pm"}, {"am", "am"}, {"pm", "pm"}, {"上午", "am"}, {"下午", "pm"},
	} {
		if s.take(mark[0]) {
			s.spaces()
			return mark[1]
		}
	}
	return ""
}

// fraction reads the digits behind the seconds, of which three count.
func (s *scanner) fraction() int {
	if s.i+1 >= len(s.b) || !isDigit(s.b[s.i+1]) || strings.IndexByte(".,:", s.b[s.i]) < 0 {
		return 0
	}
	counted := s.b[s.i] == ':'
	s.i++
	n := digits(s.b[s.i:])
	value := s.number(min(n, 3))
	// Behind a colon stands a count of milliseconds, which some loggers do not pad; ".5" is half a second.
	for k := n; k < 3 && !counted; k++ {
		value *= 10
	}
	s.i += max(n-3, 0)
	return value
}

// zone reads Z, UTC, GMT, +08:00 or +0800. Other names ("CST") stand for several zones and are left alone.
func (s *scanner) zone(c *clock) {
	mark := s.i
	s.spaces()
	switch {
	case s.take("UTC"), s.take("GMT"), s.i == mark && s.take("Z"):
		if s.i < len(s.b) && isLetter(s.b[s.i]) {
			s.i = mark
			return
		}
		c.zoned = true
		return
	}
	if s.i+4 >= len(s.b) || (s.b[s.i] != '+' && s.b[s.i] != '-') || digits(s.b[s.i+1:]) < 2 {
		s.i = mark
		return
	}
	sign := 1
	if s.b[s.i] == '-' {
		sign = -1
	}
	s.i++
	hours := s.number(2)
	s.oneOf(":")
	if digits(s.b[s.i:]) != 2 {
		s.i = mark
		return
	}
	minutes := s.number(2)
	if hours > 14 || minutes%15 != 0 || minutes > 45 {
		s.i = mark
		return
	}
	c.zoned, c.offsetSeconds = true, sign*(hours*3600+minutes*60)
}

// epoch reads seconds, milliseconds, microseconds or nanoseconds since 1970, between the years 2000 and 2100.
func (s *scanner) epoch() (ms int64, ok bool) {
	const from, until = 946_684_800_000, 4_102_444_800_000
	n := digits(s.b[s.i:])
	var value int64
	switch n {
	case 10, 13, 16, 19:
		for _, c := range s.b[s.i : s.i+n] {
			value = value*10 + int64(c-'0')
		}
	default:
		return 0, false
	}
	switch n {
	case 10:
		ms = value * 1000
	case 13:
		ms = value
	case 16:
		ms = value / 1000
	default:
		ms = value / 1_000_000
	}
	if ms < from || ms >= until {
		return 0, false
	}
	next := s.i + n
	if next < len(s.b) && (isLetter(s.b[next]) || s.b[next] == '-' || s.b[next] == '_') {
		return 0, false
	}
	s.i = next
	if n == 10 && next < len(s.b) && s.b[next] == '.' {
		ms += int64(s.fraction())
	}
	return ms, true
}
