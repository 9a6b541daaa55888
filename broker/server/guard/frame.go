package guard

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// Packet types (MQTT 5, 2.1.2). A client sends no CONNACK.
const (
	typeConnect     = 1
	typeConnack     = 2
	typePublish     = 3
	typePuback      = 4
	typePubrec      = 5
	typePubrel      = 6
	typePubcomp     = 7
	typeSubscribe   = 8
	typeUnsubscribe = 10
	typePingreq     = 12
	typeDisconnect  = 14
	typeAuth        = 15
)

// Reason codes the guard closes with (MQTT 5, 2.4).
const (
	codeMalformed = 0x81
	codeProtocol  = 0x82
	codeTooLarge  = 0x95
)

// Violation is why the guard closed a connection. Code is the MQTT 5 reason
// code that a client of version 5 is told.
type Violation struct {
	Code   byte
	Reason string
}

func (v *Violation) Error() string {
	return fmt.Sprintf("refused packet: %s (0x%02x)", v.Reason, v.Code)
}

// maxProperties bounds one property list. The library reserves many bytes for
// one of a list: 32 for an empty user property of 5.
const maxProperties = 16 << 10

func malformed(reason string) error { return &Violation{codeMalformed, reason} }

// frameSize returns the whole size of the packet at the start of b, header
// included. ok is false while the header is not complete.
func frameSize(b []byte) (size int, ok bool, err error) {
	length, n, complete, err := varint(b[min(1, len(b)):])
	if err != nil || !complete {
		return 0, false, err
	}
	return 1 + n + length, true, nil
}

// varint reads a variable byte integer of at most four bytes (MQTT 5, 1.5.5).
func varint(b []byte) (value, n int, complete bool, err error) {
	for n < 4 {
		if n >= len(b) {
			return 0, 0, false, nil
		}
		value |= int(b[n]&0x7f) << (7 * n)
		n++
		if b[n-1]&0x80 == 0 {
			return value, n, true, nil
		}
	}
	return 0, 0, false, malformed("length of more than four bytes")
}

// check walks one whole packet. version is 0 before CONNECT; the version the
// packet speaks is returned.
func check(packet []byte, version byte) (byte, error) {
	kind, flags := packet[0]>>4, packet[0]&0x0f
	_, n, _, err := varint(packet[1:])
	if err != nil {
		return version, err
	}
	c := &cursor{rest: packet[1+n:]}
	if version == 0 {
		if kind != typeConnect || flags != 0 {
			return 0, &Violation{codeProtocol, "first packet is not CONNECT"}
		}
		return checkConnect(c)
	}
	switch kind {
	case typePublish:
		checkPublish(c, flags, version)
	case typeSubscribe, typeUnsubscribe:
		checkFilters(c, flags, version, kind == typeSubscribe)
	case typePuback, typePubrec, typePubrel, typePubcomp:
		checkAck(c, flags, version, kind == typePubrel)
	case typePingreq:
		c.require(flags == 0 && len(c.rest) == 0, "PINGREQ with content")
	case typeDisconnect, typeAuth:
		checkReason(c, flags, version)
	case typeConnect:
		return version, &Violation{codeProtocol, "second CONNECT"}
	default:
		return version, &Violation{codeProtocol, "packet type that no client sends"}
	}
	return version, c.err
}

func checkConnect(c *cursor) (byte, error) {
	name := c.text()
	version := c.byte()
	known := (string(name) == "MQTT" && (version == 4 || version == 5)) || (string(name) == "MQIsdp" && version == 3)
	if !known {
		return 0, malformed("unknown protocol name or version")
	}
	flags := c.byte()
	c.take(2) // keep alive
	c.require(flags&0x01 == 0, "reserved CONNECT flag")
	if version == 5 {
		c.properties()
	}
	c.text() // client id
	if flags&0x04 != 0 {
		if version == 5 {
			c.properties()
		}
		c.text()
		c.binary()
	}
	if flags&0x80 != 0 {
		c.text()
	}
	if flags&0x40 != 0 {
		c.binary()
	}
	c.end()
	return version, c.err
}

func checkPublish(c *cursor, flags, version byte) {
	qos := flags >> 1 & 3
	c.require(qos < 3, "QoS 3")
	c.text()
	if qos > 0 {
		c.id()
	}
	if version == 5 {
		c.properties()
	}
}

func checkFilters(c *cursor, flags, version byte, options bool) {
	c.require(flags == 2, "reserved flags")
	c.id()
	if version == 5 {
		c.properties()
	}
	c.require(len(c.rest) > 0, "no topic filter")
	for c.err == nil && len(c.rest) > 0 {
		c.text()
		if options {
			c.byte()
		}
	}
}

func checkAck(c *cursor, flags, version byte, pubrel bool) {
	want := byte(0)
	if pubrel {
		want = 2
	}
	c.require(flags == want, "reserved flags")
	c.id()
	reasonAndProperties(c, version)
}

func checkReason(c *cursor, flags, version byte) {
	c.require(flags == 0, "reserved flags")
	reasonAndProperties(c, version)
}

func reasonAndProperties(c *cursor, version byte) {
	if version == 5 && len(c.rest) > 0 {
		c.byte()
		if len(c.rest) > 0 {
			c.properties()
		}
	}
	c.end()
}

// cursor walks a packet's body; after the first fault it stands still.
type cursor struct {
	rest []byte
	err  error
}

func (c *cursor) require(ok bool, reason string) {
	if !ok && c.err == nil {
		c.err = malformed(reason)
	}
}

func (c *cursor) take(n int) []byte {
	if c.err == nil && len(c.rest) < n {
		c.err = malformed("packet ends too early")
	}
	if c.err != nil {
		return nil
	}
	b := c.rest[:n]
	c.rest = c.rest[n:]
	return b
}

func (c *cursor) byte() byte {
	if b := c.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (c *cursor) id() {
	if b := c.take(2); b != nil {
		c.require(binary.BigEndian.Uint16(b) != 0, "packet id 0")
	}
}

func (c *cursor) binary() []byte {
	b := c.take(2)
	if b == nil {
		return nil
	}
	return c.take(int(binary.BigEndian.Uint16(b)))
}

// positive walks n bytes of a number that must not be 0 (MQTT 5, 3.1.2.11.3 and
// 3.1.2.11.4).
func (c *cursor) positive(n int, name string) {
	if b := c.take(n); b != nil && len(bytes.Trim(b, "\x00")) == 0 {
		c.err = &Violation{codeProtocol, name + " of 0"}
	}
}

func (c *cursor) text() []byte {
	b := c.binary()
	for _, r := range b {
		c.require(r != 0, "NUL in text")
	}
	c.require(utf8.Valid(b), "text is not UTF-8")
	return b
}

func (c *cursor) end() { c.require(len(c.rest) == 0, "bytes after the end of the packet") }

func (c *cursor) varint() int {
	if c.err != nil {
		return 0
	}
	value, n, complete, err := varint(c.rest)
	if err == nil && !complete {
		err = malformed("packet ends too early")
	}
	if err != nil {
		c.err = err
		return 0
	}
	c.rest = c.rest[n:]
	return value
}

// properties walks a property list, which must fill its length exactly and,
// user properties and subscription identifiers apart, name nothing twice
// (MQTT 5, 2.2.2).
func (c *cursor) properties() {
	length := c.varint()
	if length > maxProperties && c.err == nil {
		c.err = &Violation{codeTooLarge, "properties too large"}
	}
	inner := &cursor{rest: c.take(length), err: c.err}
	var seen uint64
	for inner.err == nil && len(inner.rest) > 0 {
		id := inner.byte()
		inner.property(id)
		repeatable := id == 0x26 || id == 0x0b
		if id < 64 && !repeatable {
			inner.require(seen&(1<<id) == 0, "property given twice")
			seen |= 1 << id
		}
	}
	c.err = inner.err
}

func (c *cursor) property(id byte) {
	switch id {
	case 0x01, 0x17, 0x19, 0x24, 0x25, 0x28, 0x29, 0x2a:
		c.byte()
	case 0x21:
		c.positive(2, "Receive Maximum")
	case 0x27:
		c.positive(4, "Maximum Packet Size")
	case 0x13, 0x22, 0x23:
		c.take(2)
	case 0x02, 0x11, 0x18:
		c.take(4)
	case 0x0b:
		c.varint()
	case 0x03, 0x08, 0x12, 0x15, 0x1a, 0x1c, 0x1f:
		c.text()
	case 0x09, 0x16:
		c.binary()
	case 0x26:
		c.text()
		c.text()
	default:
		c.require(false, "unknown property")
	}
}
