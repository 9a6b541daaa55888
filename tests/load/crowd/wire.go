package crowd

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"muster/internal/trust"
)

// What the crowd needs of MQTT 5 (OASIS, 2019), section 3.
const (
	typeConnect     = 0x10
	typeConnack     = 0x20
	typePublish     = 0x30
	typePuback      = 0x40
	typeSubscribe   = 0x82
	typeSuback      = 0x90
	typePing        = 0xc0
	propertyUser    = 0x26
	propertyExpiry  = 0x02
	propertyContent = 0x03
)

var errMalformed = errors.New("the broker sent a packet that cannot be read")

// readBuffer holds a whole offer or order: a packet that fits is read in place.
const readBuffer = 2 << 10

// packet is one control packet; body is good until the next is read.
type packet struct {
	first byte
	body  []byte
}

func readPacket(r *bufio.Reader) (packet, error) {
	first, err := r.ReadByte()
	if err != nil {
		return packet{}, err
	}
	length, err := binary.ReadUvarint(r) // MQTT writes lengths the same way
	if err != nil {
		return packet{}, err
	}
	if length > 1<<20 {
		return packet{}, errMalformed
	}
	if n := int(length); n <= r.Size() {
		body, err := r.Peek(n)
		if err != nil {
			return packet{}, err
		}
		_, err = r.Discard(n) // the bytes stay where they are until the next fill
		return packet{first, body}, err
	}
	body := make([]byte, length)
	_, err = io.ReadFull(r, body)
	return packet{first, body}, err
}

// message is a PUBLISH.
type message struct {
	topic      []byte
	id         uint16 // 0: QoS 0
	properties []byte
	payload    []byte
}

func parsePublish(p packet) (m message, err error) {
	b := p.body
	if m.topic, b, err = takeText(b); err != nil {
		return m, err
	}
	if p.first&0x06 != 0 {
		if len(b) < 2 {
			return m, errMalformed
		}
		m.id, b = binary.BigEndian.Uint16(b), b[2:]
	}
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return m, errMalformed
	}
	m.properties, m.payload = b[size:size+int(n)], b[size+int(n):]
	return m, nil
}

func takeText(b []byte) (text, rest []byte, err error) {
	if len(b) < 2 || len(b)-2 < int(binary.BigEndian.Uint16(b)) {
		return nil, nil, errMalformed
	}
	n := int(binary.BigEndian.Uint16(b))
	return b[2 : 2+n], b[2+n:], nil
}

// signature reads the user properties of a signed message.
func (m message) signature() (s trust.Signature, err error) {
	for b := m.properties; len(b) > 0; {
		kind := b[0]
		b = b[1:]
		switch kind {
		case propertyUser:
			var name, value []byte
			if name, b, err = takeText(b); err != nil {
				return s, err
			}
			if value, b, err = takeText(b); err != nil {
				return s, err
			}
			switch string(name) {
			case "kid":
				s.KeyID = string(value)
			case "sig":
				s.Value = string(value)
			}
		case propertyExpiry:
			b = b[min(4, len(b)):]
		case propertyContent:
			if _, b, err = takeText(b); err != nil {
				return s, err
			}
		default:
			return s, fmt.Errorf("%w: property 0x%02x", errMalformed, kind)
		}
	}
	return s, nil
}

func appendText(b []byte, text string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(text))), text...)
}

func appendConnect(b []byte, name, password string, keepAlive uint16) []byte {
	flags, n := byte(0x82), 6+1+1+2+1+2+len(name)+2+len(name) // user name, clean start
	if password != "" {
		flags |= 0x40
		n += 2 + len(password)
	}
	b = binary.AppendUvarint(append(b, typeConnect), uint64(n))
	b = append(appendText(b, "MQTT"), 5, flags)
	b = append(binary.BigEndian.AppendUint16(b, keepAlive), 0)
	b = appendText(appendText(b, name), name)
	if password != "" {
		b = appendText(b, password)
	}
	return b
}

func appendSubscribe(b []byte, filters ...string) []byte {
	n := 2 + 1
	for _, f := range filters {
		n += 2 + len(f) + 1
	}
	b = binary.AppendUvarint(append(b, typeSubscribe), uint64(n))
	b = append(b, 0, 1, 0)
	for _, f := range filters {
		b = append(appendText(b, f), 1)
	}
	return b
}

func appendPuback(b []byte, id uint16) []byte {
	return binary.BigEndian.AppendUint16(append(b, typePuback, 2), id)
}

func appendPublish(b []byte, topic string, payload []byte, id uint16, s trust.Signature) []byte {
	properties := 0
	if !s.IsZero() {
		properties = 2*(1+2+3+2) + len(s.KeyID) + len(s.Value)
	}
	head := 1 // the length of the properties
	if properties > 127 {
		head = 2
	}
	b = binary.AppendUvarint(append(b, typePublish|0x02), uint64(2+len(topic)+2+head+properties+len(payload)))
	b = binary.BigEndian.AppendUint16(appendText(b, topic), id)
	b = binary.AppendUvarint(b, uint64(properties))
	if properties > 0 {
		b = appendText(appendText(append(b, propertyUser), "kid"), s.KeyID)
		b = appendText(appendText(append(b, propertyUser), "sig"), s.Value)
	}
	return append(b, payload...)
}

// open brings a connection to its CONNACK and SUBACK. Whatever else comes
// meanwhile goes to receive.
func open(c net.Conn, r *bufio.Reader, name, password string, filters []string, receive func(packet) error) error {
	if _, err := c.Write(appendConnect(nil, name, password, keepAlive)); err != nil {
		return fmt.Errorf("cannot write the CONNECT: %w", err)
	}
	p, err := readPacket(r)
	if err != nil {
		return fmt.Errorf("cannot read the CONNACK: %w", err)
	}
	if p.first != typeConnack || len(p.body) < 2 || p.body[1] != 0 {
		return fmt.Errorf("the broker refused %s: % x", name, p.body)
	}
	if _, err := c.Write(appendSubscribe(nil, filters...)); err != nil {
		return fmt.Errorf("cannot write the SUBSCRIBE: %w", err)
	}
	for {
		p, err := readPacket(r)
		if err != nil {
			return fmt.Errorf("cannot read the SUBACK: %w", err)
		}
		if p.first == typeSuback {
			return subscribed(p.body, len(filters))
		}
		if err := receive(p); err != nil {
			return err
		}
	}
}

// subscribed reads a SUBACK of n filters.
func subscribed(body []byte, n int) error {
	if len(body) < n {
		return errMalformed
	}
	for _, code := range body[len(body)-n:] {
		if code >= 0x80 {
			return fmt.Errorf("the broker refused a subscription: % x", body)
		}
	}
	return nil
}
