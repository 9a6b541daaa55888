package job

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"muster/internal/protocol"
)

// MaxColumnBytes bounds one column's value: a report shows it in a cell.
const MaxColumnBytes = 1 << 10

// Extract returns the values of the job's columns; see the function Extract.
func (s Spec) Extract(result json.RawMessage) []json.RawMessage {
	return Extract(s.Columns, result)
}

// Extract returns one value a column, found by its JSON Pointer (RFC 6901) and
// with the exact bytes of the result, so that 9007199254740993 and 1.0 stay
// what they are. It is null where the result has no such place. A value over
// MaxColumnBytes becomes a string: a long text is cut and ends in "…", a large
// list or object is named by its size.
func Extract(columns []protocol.Column, result json.RawMessage) []json.RawMessage {
	values := make([]json.RawMessage, 0, len(columns))
	r := reader{seen: map[string]container{}}
	for _, column := range columns {
		value := json.RawMessage("null")
		if path, err := parsePointer(column.Pointer); err == nil {
			if found, ok := r.find(result, path); ok {
				value = cell(found)
			}
		}
		values = append(values, value)
	}
	return values
}

// container is one decoded object or array, its values still raw.
type container struct {
	members map[string]json.RawMessage
	items   []json.RawMessage
}

// reader decodes each container on the way once, however many columns pass it.
type reader struct{ seen map[string]container }

func (r reader) find(value json.RawMessage, path []string) (json.RawMessage, bool) {
	place := ""
	for _, step := range path {
		c, ok := r.seen[place]
		if !ok {
			c = open(value)
			r.seen[place] = c
		}
		if value, ok = c.get(step); !ok {
			return nil, false
		}
		place += "/" + strconv.Quote(step)
	}
	return value, len(value) > 0
}

func open(value json.RawMessage) container {
	var c container
	switch first(value) {
	case '{':
		_ = json.Unmarshal(value, &c.members) // nothing is found in what cannot be read
	case '[':
		_ = json.Unmarshal(value, &c.items)
	}
	return c
}

func (c container) get(step string) (json.RawMessage, bool) {
	if c.members != nil {
		value, ok := c.members[step]
		return value, ok
	}
	index, err := strconv.Atoi(step)
	if err != nil || index < 0 || index >= len(c.items) || strconv.Itoa(index) != step {
		return nil, false
	}
	return c.items[index], true
}

func first(value json.RawMessage) byte {
	trimmed := bytes.TrimLeft(value, " \t\r\n")
	if len(trimmed) == 0 {
		return 0
	}
	return trimmed[0]
}

// cell makes a value fit a report's cell.
func cell(value json.RawMessage) json.RawMessage {
	compact, err := protocol.Compact(value)
	if err != nil {
		return json.RawMessage("null")
	}
	if len(compact) <= MaxColumnBytes {
		return compact
	}
	text := fmt.Sprintf("… %d bytes, see the result", len(compact))
	if compact[0] == '"' && json.Unmarshal(compact, &text) == nil {
		return cut(text)
	}
	return quote(text)
}

// cut shortens a text until it fits as JSON. One that was longer only for the way
// it was escaped is whole.
func cut(text string) json.RawMessage {
	if doc := quote(text); len(doc) <= MaxColumnBytes {
		return doc
	}
	for n := min(len(text), MaxColumnBytes); ; n -= 64 { // escapes may make few bytes many
		for n > 0 && n < len(text) && !utf8.RuneStart(text[n]) {
			n--
		}
		if doc := quote(text[:max(n, 0)] + "…"); len(doc) <= MaxColumnBytes || n <= 0 {
			return doc
		}
	}
}

func quote(text string) json.RawMessage {
	doc, err := protocol.Encode(text)
	if err != nil {
		return json.RawMessage("null")
	}
	return doc
}

// parsePointer takes a JSON Pointer apart; "" is the whole document.
func parsePointer(pointer string) ([]string, error) {
	if pointer == "" {
		return nil, nil
	}
	if pointer[0] != '/' {
		return nil, fmt.Errorf("%q must start with /", pointer)
	}
	steps := strings.Split(pointer[1:], "/")
	for i, step := range steps {
		plain := strings.NewReplacer("~0", "", "~1", "").Replace(step)
		if strings.Contains(plain, "~") {
			return nil, fmt.Errorf("%q has a ~ that is neither ~0 nor ~1", pointer)
		}
		steps[i] = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
	}
	return steps, nil
}
