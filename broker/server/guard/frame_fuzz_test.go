package guard_test

import (
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/mochi-mqtt/server/v2/packets"

	"muster/broker/server/guard"
)

// amplification is how many bytes the library may reserve for one byte that the
// guard lets through, and slack what it may besides. With at most 16 KiB of
// anything but payload, that stays near a single megabyte.
const (
	amplification = 64
	slack         = 8 << 10
)

// Whatever the guard lets through, the library's own decoders survive, and they
// reserve no more than a fixed multiple of it.
func FuzzFrame(f *testing.F) {
	for _, seed := range seeds() {
		f.Add(seed.version, seed.packet)
	}
	f.Fuzz(func(t *testing.T, version byte, data []byte) {
		version %= 6 // 0 is before CONNECT
		size, ok, err := guard.FrameSize(data)
		if err != nil || !ok || size > len(data) {
			return // not a whole packet: the guard waits for more, or refuses
		}
		packet := data[:size]
		speaks, err := guard.Check(packet, version)
		if err != nil {
			return
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		decode(t, packet, speaks)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > uint64(amplification*len(packet)+slack) {
			t.Errorf("%d bytes were reserved for a packet of %d", used, len(packet))
		}
	})
}

// decode reads a packet as the library does once the guard has passed it on.
func decode(t *testing.T, packet []byte, version byte) {
	t.Helper()
	pk := packets.Packet{ProtocolVersion: version}
	if pk.FixedHeader.Decode(packet[0]) != nil {
		return // the library refuses it
	}
	length, n := binary.Uvarint(packet[1:])
	pk.FixedHeader.Remaining = int(length)
	body := append([]byte{}, packet[1+n:]...) // the library's own copy: an overrun is a panic
	decoders := map[byte]func([]byte) error{
		packets.Connect: pk.ConnectDecode, packets.Publish: pk.PublishDecode, packets.Puback: pk.PubackDecode,
		packets.Pubrec: pk.PubrecDecode, packets.Pubrel: pk.PubrelDecode, packets.Pubcomp: pk.PubcompDecode,
		packets.Subscribe: pk.SubscribeDecode, packets.Unsubscribe: pk.UnsubscribeDecode, packets.Pingreq: pk.PingreqDecode,
		packets.Disconnect: pk.DisconnectDecode, packets.Auth: pk.AuthDecode,
	}
	decoder := decoders[pk.FixedHeader.Type]
	if decoder == nil {
		t.Fatalf("the guard lets through a packet of type %d", pk.FixedHeader.Type)
	}
	_ = decoder(body) // it may refuse; it must not panic
}

type seed struct {
	version byte
	packet  []byte
}

// seeds are real packets of both versions, and what once did harm.
func seeds() []seed {
	var all []seed
	add := func(version byte, packet []byte) { all = append(all, seed{version, packet}) }
	connect3 := packet(0x10, join(text("MQTT"), []byte{4, 0xc6, 0, 60}, text("x"), text("w"), text("gone"), text("u"), text("p"))...)
	connect5 := packet(0x10, join(text("MQTT"), []byte{5, 0xc6, 0, 60, 8, 0x11, 0, 0, 0, 9, 0x21, 0, 3}, text("x"),
		[]byte{5, 0x18, 0, 0, 0, 1}, text("w"), text("gone"), text("u"), text("p"))...)
	add(0, connect3)
	add(0, connect5)
	add(0, packet(0x10, join(text("MQIsdp"), []byte{3, 2, 0, 60}, text("x"))...))
	whole := map[byte][][]byte{
		4: {
			packet(0x82, join([]byte{0, 1}, text("a/#"), []byte{1}, text("$share/g/b"), []byte{0})...),
			packet(0xa2, join([]byte{0, 1}, text("a/#"))...),
			packet(0x32, join(text("a/b"), []byte{0, 9}, []byte("payload"))...),
			packet(0x30, join(text("a/b"), []byte("payload"))...),
			packet(0x40, 0, 1), packet(0x50, 0, 1), packet(0x62, 0, 1), packet(0x70, 0, 1), packet(0xc0), packet(0xe0),
		},
		5: {
			packet(0x82, join([]byte{0, 1, 2, 0x0b, 7}, text("a/#"), []byte{1}, text("$share/g/b"), []byte{0x2e})...),
			packet(0xa2, join([]byte{0, 1, 0}, text("a/#"))...),
			packet(0x34, join(text("a/b"), []byte{0, 9, 0}, []byte("payload"))...),
			packet(0x30, join(text(""), []byte{3, 0x23, 0, 1}, []byte("topic alias"))...),
			packet(0x30, join(text("a"), []byte{20, 0x26, 0, 1, 'k', 0, 1, 'v', 0x08, 0, 1, 'r', 0x09, 0, 1, 'c', 0x02, 0, 0, 0, 9})...),
			packet(0x30, join(text("a"), []byte{10, 0x26, 0, 0, 0, 0, 0x26, 0, 0, 0, 0})...),
			packet(0x40, 0, 1, 0x10, 5, 0x1f, 0, 2, 'o', 'k'), packet(0x62, 0, 1, 0x92), packet(0xc0),
			packet(0xe0, 4, 5, 0x11, 0, 0, 0, 9), packet(0xf0, 0x18, 6, 0x15, 0, 1, 'm', 0x16, 0, 0),
		},
	}
	for version, list := range whole {
		for _, p := range list {
			add(version, p)
			add(version, append([]byte{p[0], byte(len(p) / 2)}, p[2:]...)) // cut short
		}
	}
	add(5, []byte{0x30, 0xff, 0xff, 0xff, 0x7f, 1, 2})                // promises 256 MiB
	add(5, []byte{0x30, 0x80, 0x80, 0x80, 0x80, 0x01})                // length of five bytes
	add(5, packet(0x30, 0, 1, 'a', 0xff, 0xff, 0xff, 0xff))           // properties of endless length
	add(5, packet(0x82, 0, 1, 0, 0, 9, 'a'))                          // filter beyond the packet
	add(5, packet(0x82, join([]byte{0, 1, 0}, text("a"))...))         // no options: once ended the process
	add(5, packet(0x82, join([]byte{0, 1}, text("a"), []byte{1})...)) // a 3.1.1 packet in version 5
	return all
}
