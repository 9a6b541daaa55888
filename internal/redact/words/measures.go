package words

import (
	"strings"
	"time"
)

// IsMeasure reports whether the value of a secret's setting is no secret but a switch or a number that says how the
// secret is handled ("tokenTimeout=30", "passwordRequired=true").
func IsMeasure(name, value string) bool {
	value = strings.Trim(value, " \t\r,;}])")
	switch strings.ToLower(value) {
	case "", "true", "false", "null", "nil", "none", "yes", "no", "on", "off", "undefined", "~":
		return true
	}
	if parts := split(name); len(parts) > 0 && IsDigit(value[0]) {
		return measures(parts[len(parts)-1], value)
	}
	return false
}

// measures reports whether a value that begins with a digit is what the last word of a setting's name says: a number, with
// a unit perhaps, or a moment.
func measures(word, value string) bool {
	const longest = 8
	switch word {
	case "at", "date", "time", "since", "until":
		return len(value) >= len("2026-01-02") && len(value) <= len(time.RFC3339Nano) &&
			IsDigit(value[3]) && value[4] == '-' && strings.Trim(value, "0123456789-:.TZ+ ") == ""
	case "timeout", "ttl", "expiry", "expire", "expires", "expiration", "length", "len", "min", "max", "count", "size",
		"age", "days", "hours", "minutes", "seconds", "ms", "retries", "attempts", "limit", "version", "interval", "tokens", "cookies":
		return len(value) <= longest &&
			(strings.Trim(value, "0123456789") == "" || strings.Trim(strings.ToLower(value), "0123456789") != value)
	}
	return false
}
