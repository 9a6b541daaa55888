package collect

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"
)

const (
	dateLayout          = "2006-01-02"
	yesterday           = "yesterday"
	defaultExcerptLines = 100
	maxExcerptLines     = 1000
	defaultTopErrors    = 20
	maxTopErrors        = 100
)

// order is the job's input.
type order struct {
	date         string
	excerptLines int
	topErrors    int
}

// parseInput reads the input. Keys that are not known are left alone, as everywhere in the protocol; names are taken
// by their exact case, which package json alone would not do.
func parseInput(input json.RawMessage) (order, error) {
	o := order{date: yesterday, excerptLines: defaultExcerptLines, topErrors: defaultTopErrors}
	var fields map[string]json.RawMessage
	if len(input) > 0 {
		if err := json.Unmarshal(input, &fields); err != nil {
			return o, err
		}
	}
	if raw, ok := fields["date"]; ok {
		if err := json.Unmarshal(raw, &o.date); err != nil {
			return o, errors.New("date: it must be a string")
		}
	}
	if err := wholeNumber(fields, "excerptLines", maxExcerptLines, &o.excerptLines); err != nil {
		return o, err
	}
	return o, wholeNumber(fields, "topErrors", maxTopErrors, &o.topErrors)
}

func wholeNumber(fields map[string]json.RawMessage, key string, most int, into *int) error {
	raw, ok := fields[key]
	if !ok {
		return nil
	}
	var value float64
	if err := json.Unmarshal(raw, &value); err != nil || string(raw) == "null" ||
		value != math.Trunc(value) || value < 0 || value > float64(most) {
		return fmt.Errorf("%s: it must be a whole number between 0 and %d", key, most)
	}
	*into = int(value)
	return nil
}

// businessDay is a day of the store: from start up to, and without, end.
type businessDay struct {
	date           string
	start, end     time.Time
	startMs, endMs int64
}

func (d businessDay) holds(ms int64) bool { return ms >= d.startMs && ms < d.endMs }

// day returns the day that is meant. Yesterday is the day before the one that asOf falls on in the store's zone.
func (o order) day(asOf time.Time, location *time.Location) (businessDay, error) {
	var year, day int
	var month time.Month
	if o.date == yesterday {
		year, month, day = asOf.In(location).Date()
		day--
	} else {
		date, err := time.Parse(dateLayout, o.date)
		if err != nil {
			return businessDay{}, fmt.Errorf("date %.40q: it must be a date such as 2026-09-17, or yesterday", o.date)
		}
		year, month, day = date.Date()
	}
	start, end := startOfDay(year, month, day, location), startOfDay(year, month, day+1, location)
	return businessDay{
		date: time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Format(dateLayout), start: start, end: end,
		startMs: start.UnixMilli(), endMs: end.UnixMilli(),
	}, nil
}

// startOfDay returns the first instant of a date in a zone. It is not always midnight: where clocks jump ahead at
// midnight the day begins at one o'clock, where they fall back to midnight it has two of them and begins with the
// first, and a date that a zone skipped is empty.
func startOfDay(year int, month time.Month, day int, location *time.Location) time.Time {
	midnight := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	var earliest time.Time
	consider := func(t time.Time) {
		begins := !dateOf(t, location).Before(midnight) && dateOf(t.Add(-time.Nanosecond), location).Before(midnight)
		if begins && (earliest.IsZero() || t.Before(earliest)) {
			earliest = t
		}
	}
	// Zones lie within 14 hours of UTC, so a day to either side holds all offsets and changes that can matter.
	for t := midnight.Add(-26 * time.Hour); t.Before(midnight.Add(26 * time.Hour)); {
		_, offset := t.In(location).Zone()
		consider(midnight.Add(-time.Duration(offset) * time.Second).In(location))
		_, change := t.In(location).ZoneBounds()
		if change.IsZero() {
			break
		}
		consider(change.In(location))
		t = change
	}
	return earliest
}

// dateOf returns the date of an instant in a zone as midnight UTC, so that dates can be compared.
func dateOf(t time.Time, location *time.Location) time.Time {
	year, month, day := t.In(location).Date()
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}
