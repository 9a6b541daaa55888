// Package logs makes the loggers of the programs: one line an event, whatever
// strangers put into what is logged.
//
// It knows no secret and hides none: what must not be logged is not handed to it.
package logs

import (
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"strconv"
	"strings"
	"unicode"
)

// New returns a logger that writes to w. level is debug, info, warn or error,
// format is text or json; anything else is an error that says so.
func New(w io.Writer, level, format string) (*slog.Logger, error) {
	var lowest slog.Level
	switch level {
	case "debug", "info", "warn", "error":
		if err := lowest.UnmarshalText([]byte(level)); err != nil {
			return nil, fmt.Errorf("cannot log at level %q: %w", level, err)
		}
	default:
		return nil, fmt.Errorf("log level %q is not debug, info, warn or error", level)
	}
	options := &slog.HandlerOptions{Level: lowest, ReplaceAttr: plain}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, options)), nil
	}
	return nil, fmt.Errorf("log format %q is not text or json", format)
}

// maxText bounds one value of a line, in bytes: what strangers send may be a
// thousand times as long, and a stack fits.
const maxText = 4 << 10

// plain keeps a value short and takes out of it what would move the cursor,
// colour the screen or turn the reading direction: JSON lets most of it stand.
func plain(_ []string, a slog.Attr) slog.Attr {
	text, ok := textOf(a.Value)
	if !ok {
		return a
	}
	short := clip(text)
	if strings.ContainsFunc(short, unseen) {
		short = escape(short)
	}
	if short != text {
		a.Value = slog.StringValue(short)
	}
	return a
}

// textOf returns what a handler would write of a text or an error.
func textOf(v slog.Value) (string, bool) {
	if v.Kind() == slog.KindString {
		return v.String(), true
	}
	if v.Kind() != slog.KindAny {
		return "", false
	}
	switch value := v.Any().(type) {
	case error:
		return value.Error(), true
	case []byte:
		return string(value), true
	case fmt.Stringer:
		return value.String(), true
	}
	if r := reflect.ValueOf(v.Any()); r.Kind() == reflect.String {
		return r.String(), true
	}
	return "", false
}

func clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(text[:maxText], ""), len(text))
}

// unseen are the runes that are not shown as themselves. Line feed and tab
// are left to the handlers, which write them as \n and \t.
func unseen(r rune) bool {
	return r != '\n' && r != '\t' && !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r)
}

func escape(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unseen(r) {
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
