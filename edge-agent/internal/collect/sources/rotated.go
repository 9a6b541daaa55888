package sources

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	datePart = `(?:19|20)\d{2}[-_.]?(?:0[1-9]|1[0-2])[-_.]?(?:0[1-9]|[12]\d|3[01])`
	timePart = `(?:[-_.T]?\d{2}(?:[-_.h]?\d{2}){0,2}(?:\.\d{3})?)?`
	packed   = `\.(?:gz|bz2|xz|zip|zst|z)`
	retired  = `[-_.](?:old|bak|prev|save)`
	number   = `\.\d{1,5}`
	dated    = `[-_.]?` + datePart + timePart
)

// rotations are the places where the programs that rotate logs add to a name: app.log.1, app.log.2.gz, app.log.old,
// app.log-20260917, app-2026-09-17.log, app.1.log, 2026-09-17_app.log.
type rotations struct {
	suffix, infix, prefix, day *regexp.Regexp
}

var rotation = sync.OnceValue(func() rotations {
	return rotations{
		suffix: regexp.MustCompile(`(?i)^(.*?[^-_.])(?:` + packed + `|` + retired + `|` + number + `|` + dated + `)$`),
		infix:  regexp.MustCompile(`(?i)^(.*?[^-_.])(?:` + dated + `|` + number + `)(\.[a-z]{2,8})$`),
		prefix: regexp.MustCompile(`^` + datePart + timePart + `[-_.](.+)$`),
		day:    regexp.MustCompile(`(?:^|\D)((?:19|20)\d{2})[-_.]?(0[1-9]|1[0-2])[-_.]?(0[1-9]|[12]\d|3[01])(?:\D|$)`),
	}
})

// unrotated returns the names that a file may have had before rotation, nearest first.
func unrotated(name string) []string {
	// More rounds than any scheme adds parts: date, number, compression and one to spare.
	const rounds = 4
	known := rotation()
	names, frontier := []string{}, []string{name}
	for range rounds {
		var next []string
		for _, current := range frontier {
			for _, stem := range []string{
				first(known.suffix.FindStringSubmatch(current)),
				first(known.infix.FindStringSubmatch(current)),
				first(known.prefix.FindStringSubmatch(current)),
			} {
				if stem != "" && stem != name && !slices.Contains(names, stem) {
					names, next = append(names, stem), append(next, stem)
				}
			}
		}
		frontier = next
	}
	return names
}

func first(groups []string) string {
	switch len(groups) {
	case 2:
		return groups[1]
	case 3:
		return groups[1] + groups[2]
	default:
		return ""
	}
}

// DayInName returns the day that a file's name carries, as midnight UTC, or the zero time.
func DayInName(path string) time.Time {
	groups := rotation().day.FindStringSubmatch(filepath.Base(path))
	if groups == nil {
		return time.Time{}
	}
	year, _ := strconv.Atoi(groups[1])
	month, _ := strconv.Atoi(groups[2])
	day, _ := strconv.Atoi(groups[3])
	return time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
}
