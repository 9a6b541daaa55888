package stamp

import (
	"errors"
	"time"
)

// clock is a time stamp as it stands in the line.
type clock struct {
	year, month, day            int
	hour, minute, second, milli int
	offsetSeconds               int
	noYear, zoned               bool
}

func (c clock) validDate() bool {
	return c.month >= 1 && c.month <= 12 && c.day >= 1 && c.day <= daysIn(c.month, c.year, c.noYear)
}

func (c clock) validTime() bool {
	// 60 is a leap second; it belongs to the minute that it ends.
	return c.hour >= 0 && c.hour <= 23 && c.minute >= 0 && c.minute <= 59 && c.second >= 0 && c.second <= 60
}

func daysIn(month, year int, noYear bool) int {
	switch month {
	case 2:
		if noYear || (year%4 == 0 && (year%100 != 0 || year%400 == 0)) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	default:
		return 31
	}
}

// dayCache remembers the midnight of the last day seen: the lines of a log mostly follow each other within a day.
type dayCache struct {
	year, month, day int
	midnightMs       int64
	plain            bool
}

func (p *Parser) resolve(c clock) int64 {
	if c.noYear {
		c.year = p.inferYear(c.month, c.day)
	}
	c.second = min(c.second, 59)
	ofDay := int64(c.hour*3600+c.minute*60+c.second)*1000 + int64(c.milli)
	if c.zoned {
		midnight := time.Date(c.year, time.Month(c.month), c.day, 0, 0, 0, 0, time.UTC)
		return midnight.UnixMilli() + ofDay - int64(c.offsetSeconds)*1000
	}
	if p.day.year != c.year || p.day.month != c.month || p.day.day != c.day {
		p.day = newDayCache(c, p.options.Location)
	}
	if p.day.plain {
		return p.day.midnightMs + ofDay
	}
	t := time.Date(c.year, time.Month(c.month), c.day, c.hour, c.minute, c.second, c.milli*1e6, p.options.Location)
	if t.Day() != c.day {
		// A clock that jumps ahead at midnight leaves a gap; package time may move a time in it to the day before.
		_, t = t.ZoneBounds()
	}
	return t.UnixMilli()
}

func newDayCache(c clock, location *time.Location) dayCache {
	start := time.Date(c.year, time.Month(c.month), c.day, 0, 0, 0, 0, location)
	end := time.Date(c.year, time.Month(c.month), c.day, 23, 59, 59, 0, location)
	_, before := start.Add(-12 * time.Hour).Zone()
	_, first := start.Zone()
	_, last := end.Zone()
	return dayCache{
		year: c.year, month: c.month, day: c.day, midnightMs: start.UnixMilli(),
		plain: before == first && first == last && start.Day() == c.day && end.Sub(start) == 86_399*time.Second,
	}
}

// inferYear returns the year for a month and day without one; Parser says by which rule.
func (p *Parser) inferYear(month, day int) int {
	// Eight years back there is a 29 February, whatever the century.
	latest := p.latest.In(p.options.Location).Year()
	for year := latest; year > latest-9; year-- {
		if day > daysIn(month, year, false) {
			continue
		}
		if !time.Date(year, time.Month(month), day, 0, 0, 0, 0, p.options.Location).After(p.latest) {
			return year
		}
	}
	return latest
}

// CheckLayout reports why a layout cannot be used: it must name at least month, day and hour.
func CheckLayout(layout string) error {
	probe := time.Date(2011, time.November, 23, 17, 41, 52, 0, time.UTC)
	back, err := time.Parse(layout, probe.Format(layout))
	if err != nil {
		return err
	}
	if back.Month() != probe.Month() || back.Day() != probe.Day() || back.Hour()%12 != probe.Hour()%12 {
		return errors.New("it names no month, day and hour")
	}
	return nil
}
