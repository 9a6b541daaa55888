package stamp

import "bytes"

// at reads a time stamp that begins at i. epoch and a bare time of day are accepted only where loose is set: a number
// or "12:30:00" in the middle of a line is hardly ever the line's time.
func (p *Parser) at(line []byte, i int, loose bool) (ms int64, rest int, ok bool) {
	s := scanner{b: line, i: i}
	if i >= len(line) {
		return 0, 0, false
	}
	var c clock
	switch first := line[i]; {
	case isDigit(first):
		if loose {
			if ms, ok = s.epoch(); ok {
				return ms, s.i, true
			}
		}
		c, ok = s.numeric(p, loose)
	case isLetter(first):
		c, ok = s.worded(loose)
	}
	if !ok {
		return 0, 0, false
	}
	return p.resolve(c), s.i, true
}

// numeric reads the forms that begin with a digit.
func (s *scanner) numeric(p *Parser, loose bool) (clock, bool) {
	switch n := digits(s.b[s.i:]); n {
	case 4:
		return s.yearFirst()
	case 8, 14, 17:
		return s.compact(n)
	case 1, 2:
		if s.i+n >= len(s.b) {
			return clock{}, false
		}
		switch next := s.b[s.i+n]; {
		case next == ':' && loose:
			return s.timeOnly(p)
		case next == '/' || next == '-' || next == '.' || next == ' ':
			return s.dayFirst(n, next)
		}
	}
	return clock{}, false
}

// yearFirst reads 2026-09-17 07:30:00 and its kin: / . 年 as separators, T _ - : as joints, one-digit fields.
func (s *scanner) yearFirst() (c clock, ok bool) {
	c.year = s.number(4)
	if !s.separator("年") {
		return c, false
	}
	c.month = s.number(2)
	if !s.separator("月") {
		return c, false
	}
	c.day = s.number(2)
	s.take("日")
	if !c.validDate() {
		return c, false
	}
	s.joint()
	return s.clockAndZone(c)
}

// compact reads 20260917 073000, 20260917-07:30:00:123, 20260917073000 and 20260917073000123.
func (s *scanner) compact(n int) (c clock, ok bool) {
	c.year, c.month, c.day = s.number(4), s.number(2), s.number(2)
	if !c.validDate() {
		return c, false
	}
	if n == 8 {
		s.joint()
		if digits(s.b[s.i:]) != 6 {
			return s.clockAndZone(c)
		}
	}
	c.hour, c.minute, c.second = s.number(2), s.number(2), s.number(2)
	if n == 17 {
		c.milli = s.number(3)
	} else {
		c.milli = s.fraction()
	}
	s.zone(&c)
	return c, c.validTime()
}

// dayFirst reads the forms that begin with a one- or two-digit number: 17/Jun/2026:07:30:00, 17 Jun 2026 07:30:00,
// 17.06.2026 07:30:00, 9/17/2026 7:30:00 AM (day first where it can only be so), 26/09/17 07:30:00, 09-17 07:30:00.
func (s *scanner) dayFirst(n int, separator byte) (c clock, ok bool) {
	first := s.number(n)
	s.i++
	if s.i < len(s.b) && isLetter(s.b[s.i]) {
		c.day = first
		if c.month = s.month(); c.month == 0 || !s.oneOf("/- ") {
			return c, false
		}
		if c.year = s.number(4); c.year < 1000 {
			return c, false
		}
		s.joint()
		return s.clockAndZone(c)
	}
	if separator == ' ' {
		return c, false
	}
	second := s.number(2)
	if second < 0 {
		return c, false
	}
	if s.i >= len(s.b) || s.b[s.i] != separator {
		// Month and day alone, as Android writes them.
		c.month, c.day, c.noYear = first, second, true
		if separator == '.' || !s.take(" ") || !c.validDate() {
			return c, false
		}
		return s.clockAndZone(c)
	}
	s.i++
	width := digits(s.b[s.i:])
	third := s.number(4)
	switch {
	case width == 4 && separator == '.', width == 4 && first > 12:
		c.day, c.month, c.year = first, second, third
	case width == 4:
		c.month, c.day, c.year = first, second, third
	case width == 2 && n == 2:
		c.year, c.month, c.day = 2000+first, second, third
	default:
		return c, false
	}
	s.joint()
	return s.clockAndZone(c)
}

// timeOnly reads 07:30:00.123 in a file whose name says the day.
func (s *scanner) timeOnly(p *Parser) (c clock, ok bool) {
	day := p.options.FileDay
	if day.IsZero() {
		return c, false
	}
	c.year, c.month, c.day = day.Year(), int(day.Month()), day.Day()
	return s.clockAndZone(c)
}

// worded reads the forms that begin with a letter: Sun Dec 04 04:47:44 2005, Jun 14 15:16:01, Jun 14, 2026 3:16:01 PM,
// Wed, 17 Jun 2026 07:30:00 GMT, and glog's I0917 07:30:00.123456.
func (s *scanner) worded(loose bool) (c clock, ok bool) {
	if loose && s.i+6 < len(s.b) && bytes.IndexByte([]byte("IWEF"), s.b[s.i]) >= 0 && digits(s.b[s.i+1:]) == 4 {
		s.i++
		c.month, c.day, c.noYear = s.number(2), s.number(2), true
		if !s.take(" ") {
			return c, false
		}
		return s.clockAndZone(c)
	}
	if s.weekday() {
		s.take(",")
		s.spaces()
		if s.i < len(s.b) && isDigit(s.b[s.i]) {
			n := digits(s.b[s.i:])
			if n > 2 || s.i+n >= len(s.b) {
				return c, false
			}
			return s.dayFirst(n, s.b[s.i+n])
		}
	}
	if c.month = s.month(); c.month == 0 || !s.spaces() {
		return c, false
	}
	if c.day = s.number(2); c.day < 1 {
		return c, false
	}
	return s.afterMonthDay(c)
}

func (s *scanner) afterMonthDay(c clock) (clock, bool) {
	c.noYear = true
	s.take(",")
	if !s.spaces() {
		return c, false
	}
	if digits(s.b[s.i:]) == 4 {
		c.year, c.noYear = s.number(4), false
		s.spaces()
		return s.clockAndZone(c)
	}
	c, ok := s.clockAndZone(c)
	if !ok {
		return c, false
	}
	// The year may come last, behind a zone's name: "Sun Dec  4 04:47:44 CST 2005".
	mark := s.i
	s.spaces()
	for s.i < len(s.b) && s.i < mark+6 && s.b[s.i] >= 'A' && s.b[s.i] <= 'Z' {
		s.i++
	}
	s.spaces()
	if digits(s.b[s.i:]) == 4 {
		if year := s.number(4); year >= 1970 && year < 2200 {
			c.year, c.noYear = year, false
			return c, true
		}
	}
	s.i = mark
	return c, true
}
