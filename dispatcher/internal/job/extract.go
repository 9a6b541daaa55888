package job

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"muster/internal/protocol"
)

// MaxColumnBytes bounds one column's value: a report shows it in a cell.
const MaxColumnBytes = 1 << 10

// Extract returns one value a column of a result; see Extractor.
func Extract(columns []protocol.Column, result json.RawMessage) []json.RawMessage {
	return NewExtractor(columns).Extract(result)
}

// Extractor takes the values of columns out of results, in one pass over each. Make it
// with NewExtractor; it is safe for concurrent use.
type Extractor struct {
	columns int
	root    place
}

// place is somewhere that columns lie, or that leads there.
type place struct {
	columns []int
	members map[string]*place
	items   map[int]*place // those members whose names are indexes
}

// NewExtractor returns an extractor for the columns. Each is found by its JSON Pointer
// (RFC 6901); one that is none finds nothing.
func NewExtractor(columns []protocol.Column) *Extractor {
	e := &Extractor{columns: len(columns)}
	for i, column := range columns {
		path, err := parsePointer(column.Pointer)
		if err != nil {
			continue
		}
		at := &e.root
		for _, step := range path {
			at = at.below(step)
		}
		at.columns = append(at.columns, i)
	}
	return e
}

func (p *place) below(step string) *place {
	if known := p.members[step]; known != nil {
		return known
	}
	if p.members == nil {
		p.members, p.items = map[string]*place{}, map[int]*place{}
	}
	child := &place{}
	p.members[step] = child
	if index, err := strconv.Atoi(step); err == nil && strconv.Itoa(index) == step {
		p.items[index] = child
	}
	return child
}

// Extract returns one value a column, with the exact bytes of the result, so that
// 9007199254740993 and 1.0 stay what they are. It is null where the result has no such
// place. A value over MaxColumnBytes becomes a string: a long text is cut and ends in
// "…", a large list or object is named by its size. The result must be valid JSON; the
// values may alias it.
func (e *Extractor) Extract(result json.RawMessage) []json.RawMessage {
	values := make([]json.RawMessage, e.columns)
	c := protocol.NewCursor(result)
	e.root.read(&c, values)
	for i := range values {
		if values[i] == nil {
			values[i] = json.RawMessage("null")
		}
	}
	return values
}

// read passes the value at hand and takes from it what lies there.
func (p *place) read(c *protocol.Cursor, values []json.RawMessage) {
	if len(p.columns) > 0 {
		here := *c
		value := cell(here.Literal())
		for _, column := range p.columns {
			values[column] = value
		}
	}
	kind := c.Kind()
	if len(p.members) == 0 || kind != protocol.KindObject && kind != protocol.KindList {
		c.Literal()
		return
	}
	c.Enter()
	for i := 0; c.More(); i++ {
		child := p.items[i]
		if kind == protocol.KindObject {
			child = p.members[string(c.Name())]
		}
		if child != nil {
			child.read(c, values)
		} else {
			c.Literal()
		}
	}
}

// cell makes a value fit a report's cell.
func cell(value json.RawMessage) json.RawMessage {
	if len(value) == 0 {
		return nil
	}
	compact := value // as a scalar is
	if kind := value[0]; kind == protocol.KindObject || kind == protocol.KindList {
		var err error
		if compact, err = protocol.Compact(value); err != nil {
			return nil
		}
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
