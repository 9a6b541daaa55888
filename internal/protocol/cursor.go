package protocol

import (
	"encoding/json"
	"unicode/utf8"
)

// Cursor walks a valid JSON document without decoding it. What it says of a document
// that is not valid has no meaning, but each call passes something unless it is at the
// end. A copy of it goes its own way; it is not safe for concurrent use.
type Cursor struct {
	doc []byte
	at  int
}

// NewCursor returns a cursor at a document's value.
func NewCursor(doc []byte) Cursor {
	c := Cursor{doc: doc}
	c.next()
	return c
}

// What Kind tells apart; of a number it is its first character.
const (
	KindObject = '{'
	KindList   = '['
	KindText   = '"'
	KindTrue   = 't'
	KindFalse  = 'f'
	KindNull   = 'n'
)

// Kind is the first byte of the value at hand, 0 at the end.
func (c *Cursor) Kind() byte {
	if c.at >= len(c.doc) {
		return 0
	}
	return c.doc[c.at]
}

// Enter goes into the object or list at hand; More then goes from one member or item to
// the next.
func (c *Cursor) Enter() { c.pass() }

// More goes to the next member or item, the first one too. It returns false when there
// is none, and has left the object or list then.
func (c *Cursor) More() bool {
	switch c.next() {
	case ',':
		c.pass()
		c.next()
		return true
	case '}', ']':
		c.pass()
		return false
	case 0:
		return false
	}
	return true
}

// Name passes the name of the member at hand and returns it; its value is at hand then.
func (c *Cursor) Name() []byte {
	name := c.Text()
	if c.next() == ':' {
		c.pass()
		c.next()
	}
	return name
}

// Text passes the string at hand and returns what it says, which aliases the document
// where it can.
func (c *Cursor) Text() []byte {
	start := c.at
	literal, escaped := c.text()
	if !escaped {
		return literal[min(1, len(literal)):max(len(literal)-1, min(1, len(literal)))]
	}
	var plain string
	if err := json.Unmarshal(c.doc[start:c.at], &plain); err != nil {
		return nil
	}
	return []byte(plain)
}

// Literal passes the value at hand and returns it as it stands.
func (c *Cursor) Literal() []byte {
	start := c.at
	switch c.Kind() {
	case KindText:
		literal, _ := c.text()
		return literal
	case KindObject, KindList:
		c.container()
	default:
		c.word()
	}
	return c.doc[start:c.at]
}

// next passes white space and returns the byte at hand, 0 at the end.
func (c *Cursor) next() byte {
	for ; c.at < len(c.doc); c.at++ {
		switch b := c.doc[c.at]; b {
		case ' ', '\t', '\r', '\n':
		default:
			return b
		}
	}
	return 0
}

func (c *Cursor) pass() {
	if c.at < len(c.doc) {
		c.at++
	}
}

// text passes the string at hand.
func (c *Cursor) text() (literal []byte, escaped bool) {
	start := c.at
	c.pass()
	for c.at < len(c.doc) {
		c.at += plain(c.doc[c.at:])
		for c.at < len(c.doc) && c.doc[c.at] >= utf8.RuneSelf {
			c.at++
		}
		switch c.Kind() {
		case '"':
			c.pass()
			return c.doc[start:c.at], escaped
		case '\\':
			escaped = true
			c.pass()
			c.pass()
		default: // a control character, of a document that is not valid
			c.pass()
		}
	}
	return c.doc[start:c.at], escaped
}

// container passes the object or list at hand.
func (c *Cursor) container() {
	for depth := 0; c.at < len(c.doc); {
		switch c.doc[c.at] {
		case '"':
			c.text()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		c.at++
		if depth == 0 {
			return
		}
	}
}

// word passes the number, true, false or null at hand.
func (c *Cursor) word() {
	for c.pass(); c.at < len(c.doc); c.at++ {
		switch c.doc[c.at] {
		case ',', ']', '}', ':', '"', ' ', '\t', '\r', '\n':
			return
		}
	}
}
