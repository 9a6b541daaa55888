package guard_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"muster/broker/server/guard"
)

// frame puts a fixed header before a body of any size.
func frame(first byte, parts ...[]byte) []byte {
	body := join(parts...)
	return append(binary.AppendUvarint([]byte{first}, uint64(len(body))), body...)
}

// A payload may be large. A list may not: the library reserves a hundred bytes
// for each filter of three, and asks every hook about it.
func TestOnlyPayloadsMayBeLarge(t *testing.T) {
	filters := bytes.Repeat(append(text("a"), 1), 5_000)            // 20 KB
	userProperties := bytes.Repeat([]byte{0x26, 0, 0, 0, 0}, 4_000) // 20 KB
	many := binary.AppendUvarint(nil, uint64(len(userProperties)))
	for name, c := range map[string]struct {
		packet []byte
		code   byte
	}{
		"publish":         {frame(0x30, text("a"), []byte{0}, make([]byte, 500_000)), 0},
		"subscribe":       {frame(0x82, []byte{0, 1, 0}, filters), 0x95},
		"unsubscribe":     {frame(0xa2, []byte{0, 1, 0}, filters), 0x95},
		"user properties": {frame(0x30, text("a"), many, userProperties), 0x95},
	} {
		l := limits()
		l.MaxControlBytes = 16 << 10
		conn, far := pair(t, l)
		go func() { _, _ = far.Write(join(connect5("x"), c.packet)); _ = far.Close() }()
		_, err := io.Copy(io.Discard, conn)
		var v *guard.Violation
		switch {
		case c.code == 0 && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.code != 0 && (!errors.As(err, &v) || v.Code != c.code):
			t.Errorf("%s: %v, not 0x%02x", name, err, c.code)
		}
	}
}
