package hostile_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"muster/internal/protocol"
)

func text(s string) []byte { return append(binary.BigEndian.AppendUint16(nil, uint16(len(s))), s...) }

// frame puts a fixed header before a body.
func frame(first byte, parts ...[]byte) []byte {
	body := bytes.Join(parts, nil)
	return append(append([]byte{first}, varint(len(body))...), body...)
}

func varint(n int) []byte {
	var out []byte
	for {
		b := byte(n % 128)
		if n /= 128; n > 0 {
			b |= 0x80
		}
		out = append(out, b)
		if n == 0 {
			return out
		}
	}
}

// properties puts its length before a list of properties in version 5.
func properties(version byte, parts ...[]byte) []byte {
	if version != 5 {
		return nil
	}
	body := bytes.Join(parts, nil)
	return append(varint(len(body)), body...)
}

func connect(version byte, user string, clean bool) []byte {
	flags := byte(0x80)
	if clean {
		flags |= 2
	}
	expiry := []byte{0x11, 0, 0, 0xff, 0xff}
	return frame(0x10, text("MQTT"), []byte{version, flags, 0, 60},
		properties(version, expiry, []byte{0x21, 0, 3}, []byte{0x22, 0, 9}), text(user), text(user))
}

func connectWithWill(version byte, user, topic string) []byte {
	return frame(0x10, text("MQTT"), []byte{version, 0x80 | 0x04 | 0x20 | 2, 0, 60},
		properties(version), text(user), properties(version, []byte{0x18, 0, 0, 0, 1}), text(topic), text("gone"), text(user))
}

func subscribe(version byte, id uint16, filters ...string) []byte {
	parts := [][]byte{binary.BigEndian.AppendUint16(nil, id), properties(version, []byte{0x0b, 7})}
	for _, f := range filters {
		parts = append(parts, text(f), []byte{byte(id % 3)})
	}
	return frame(0x82, parts...)
}

func unsubscribe(version byte, id uint16, filters ...string) []byte {
	parts := [][]byte{binary.BigEndian.AppendUint16(nil, id), properties(version)}
	for _, f := range filters {
		parts = append(parts, text(f))
	}
	return frame(0xa2, parts...)
}

func publish(version, qos byte, id uint16, topic string, payload []byte) []byte {
	var ident []byte
	if qos > 0 {
		ident = binary.BigEndian.AppendUint16(nil, id)
	}
	props := properties(version, []byte{0x26}, text("k"), text("v"), []byte{0x08}, text("a/b"), []byte{0x09}, text("c"), []byte{0x02, 0, 0, 0, 9})
	return frame(0x30|qos<<1|byte(id&1), text(topic), ident, props, payload)
}

func acknowledge(kind byte, id uint16) []byte {
	return frame(kind, binary.BigEndian.AppendUint16(nil, id))
}

// places are topics and filters worth asking for: one's own, others', and
// such as confuse.
func places(user string) []string {
	t := topics()
	return []string{
		t.Request(user, protocol.VerbRun), t.LastReply(user), t.Replies(user) + "#", t.Info(), t.Trust(), t.Run("r1", protocol.RunState),
		t.Terminal("S1", "pos1", protocol.KindClaim), t.Terminal("S1", "pos1", protocol.KindOrders), t.Offer("S1", "t1"),
		t.Terminal("X1", user, protocol.KindClaim), t.Terminal("X1", user, protocol.KindPresence), t.Offer("X1", "+"),
		t.Root() + "/#", "#", "+/+/#", "$SYS/#", "$share/g/" + t.Root() + "/runs/#", "$share/g/#", "$share//x", "$share", "/", "//", "", "a#", "+a/b",
	}
}

// mutate changes a packet. Half of the time it keeps the frame well formed, so
// that what is wrong lies further in.
func mutate(r *rand.Rand, packet []byte) []byte {
	first, body := packet[0], bytes.Clone(packet[1:])
	if well := r.IntN(2) == 0; well {
		_, n := binary.Uvarint(packet[1:])
		body = bytes.Clone(packet[1+n:])
		for range 1 + r.IntN(3) {
			body = scramble(r, body)
		}
		return frame(first, body)
	}
	for range 1 + r.IntN(4) {
		body = scramble(r, body)
	}
	if r.IntN(4) == 0 {
		first = byte(r.Uint32())
	}
	return append([]byte{first}, body...)
}

func scramble(r *rand.Rand, b []byte) []byte {
	if len(b) == 0 {
		return []byte{byte(r.Uint32())}
	}
	at := r.IntN(len(b))
	switch r.IntN(6) {
	case 0:
		b[at] ^= 1 << r.IntN(8)
	case 1:
		b[at] = []byte{0, 1, 0x7f, 0x80, 0xff}[r.IntN(5)]
	case 2:
		return b[:at]
	case 3:
		return slices.Insert(b, at, random(r, 1+r.IntN(8))...)
	case 4:
		return slices.Delete(b, at, min(len(b), at+1+r.IntN(8)))
	case 5:
		return slices.Insert(b, at, bytes.Clone(b[at:min(len(b), at+64)])...)
	}
	return b
}

func random(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}
