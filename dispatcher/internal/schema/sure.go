package schema

import (
	"math"
	"regexp"
	"strconv"
	"unicode/utf8"

	"github.com/xeipuuv/gojsonschema"

	"muster/internal/protocol"
)

// sure is a schema reduced to what can be told of a document in one pass over its
// bytes. It says yes only where the library would find no fault; no means that the
// library has to be asked, which words the refusal. nil says yes to everything.
type sure struct {
	doubt bool // always no: it has a keyword that is left to the library
	kinds kinds
	all   []*sure
	any   []*sure

	listed   bool // enum or const: the value is one of those below
	texts    map[string]bool
	literals map[string]bool

	length  span // of a text, in characters
	pattern *regexp.Regexp
	format  string

	bounds []bound

	items span
	item  *sure

	members  span
	required uint64
	named    map[string]member
	other    *sure // members that are not named
}

// member is what is asked of a member: its schema, and its bit in required.
type member struct {
	check *sure
	bit   uint64
}

// span bounds a number of things.
type span struct{ least, most int }

func (s span) holds(n int) bool { return n >= s.least && n <= s.most }

// kinds are types, a bit each; 0: all of them.
type kinds uint8

const (
	object kinds = 1 << iota
	array
	text
	number
	integer
	boolean
	null
)

func (k kinds) holds(one kinds) bool { return k == 0 || k&one != 0 }

// admits passes the value at hand, if it says yes. The document must have passed
// protocol.Scan: the library may panic on others.
func (s *sure) admits(c *protocol.Cursor) bool {
	if s == nil {
		c.Literal()
		return true
	}
	if s.doubt || !s.admitsParts(*c) {
		return false
	}
	switch c.Kind() {
	case protocol.KindObject:
		return s.kinds.holds(object) && !s.listed && s.admitsObject(c)
	case protocol.KindList:
		return s.kinds.holds(array) && !s.listed && s.admitsList(c)
	case protocol.KindText:
		return s.kinds.holds(text) && s.admitsText(c.Text())
	case protocol.KindTrue, protocol.KindFalse:
		return s.kinds.holds(boolean) && s.lists(c.Literal())
	case protocol.KindNull:
		return s.kinds.holds(null) && s.lists(c.Literal())
	}
	return s.admitsNumber(c.Literal())
}

func (s *sure) admitsParts(c protocol.Cursor) bool {
	for _, part := range s.all {
		if here := c; !part.admits(&here) {
			return false
		}
	}
	for _, part := range s.any {
		if here := c; part.admits(&here) {
			return true
		}
	}
	return len(s.any) == 0
}

func (s *sure) lists(literal []byte) bool { return !s.listed || s.literals[string(literal)] }

func (s *sure) admitsObject(c *protocol.Cursor) bool {
	n, seen := 0, uint64(0)
	for c.Enter(); c.More(); n++ {
		check := s.other
		if m, known := s.named[string(c.Name())]; known {
			check, seen = m.check, seen|m.bit
		}
		if !check.admits(c) {
			return false
		}
	}
	return seen == s.required && s.members.holds(n)
}

func (s *sure) admitsList(c *protocol.Cursor) bool {
	n := 0
	for c.Enter(); c.More(); n++ {
		if !s.item.admits(c) {
			return false
		}
	}
	return s.items.holds(n)
}

func (s *sure) admitsText(said []byte) bool {
	switch {
	case s.listed && !s.texts[string(said)]:
	case s.length != anyNumber && !s.length.holds(utf8.RuneCount(said)):
	case s.pattern != nil && !s.pattern.Match(said):
	case s.format == "date-time" && !isDateTime(said): // without the lock that the library's list takes
	case s.format != "" && s.format != "date-time" && !gojsonschema.FormatCheckers.IsFormat(s.format, string(said)):
	default:
		return true
	}
	return false
}

// admitsNumber takes a whole number for one only if it is written as such.
func (s *sure) admitsNumber(literal []byte) bool {
	n, plain := protocol.PlainInt(literal)
	if !s.kinds.holds(number) && !(plain && s.kinds.holds(integer)) || !s.lists(literal) {
		return false
	}
	for _, b := range s.bounds {
		if plain && b.plain {
			if !b.holds(n) {
				return false
			}
		} else if f, err := strconv.ParseFloat(string(literal), 64); err != nil || !b.holdsFar(f) {
			return false
		}
	}
	return true
}

// bound is one of minimum, maximum and the exclusive ones.
type bound struct {
	upper, open bool
	plain       bool
	whole       int64 // if it is plain
	float       float64
}

func (b bound) holds(n int64) bool {
	switch {
	case n == b.whole:
		return !b.open
	case b.upper:
		return n < b.whole
	}
	return n > b.whole
}

// holdsFar compares what float64 tells apart: rounding keeps the order.
func (b bound) holdsFar(f float64) bool {
	if b.upper {
		return f < b.float
	}
	return f > b.float
}

var anyNumber = span{0, math.MaxInt}
