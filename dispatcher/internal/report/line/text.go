package line

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"muster/internal/protocol"
)

// Text is a column's value as people read it: strings without quotes,
// nothing for null, everything else byte for byte. text is true for a string.
func Text(raw json.RawMessage) (value string, text bool) {
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return "", false
	case raw[0] == '"' && len(raw) > 1 && isPlain(raw[1:len(raw)-1]):
		return string(raw[1 : len(raw)-1]), true
	case raw[0] == '"':
		var s string
		if json.Unmarshal(raw, &s) == nil {
			return s, true
		}
	}
	return string(raw), false
}

// isPlain reports whether a JSON string is just what stands between its quotes.
func isPlain(inner json.RawMessage) bool {
	ascii := true
	for _, c := range inner {
		if c == '\\' || c == '"' || c < ' ' {
			return false
		}
		ascii = ascii && c < utf8.RuneSelf
	}
	return ascii || utf8.Valid(inner)
}

// Labels are a store's labels by name, as key=value;key=value.
func Labels(labels map[string]string) string {
	pairs := make([]string, 0, len(labels))
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, key+"="+labels[key])
	}
	return strings.Join(pairs, ";")
}

// Moment is a time as in JSON, without quotes; nothing for none.
func Moment(t protocol.Time) string {
	if t.IsZero() {
		return ""
	}
	raw, err := t.MarshalJSON()
	if err != nil {
		return ""
	}
	return strings.Trim(string(raw), `"`)
}
