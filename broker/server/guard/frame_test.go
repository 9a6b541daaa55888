package guard_test

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"muster/broker/server/guard"
)

// packet puts a fixed header before a body of fewer than 128 bytes.
func packet(first byte, body ...byte) []byte {
	return append([]byte{first, byte(len(body))}, body...)
}

func text(s string) []byte { return append([]byte{0, byte(len(s))}, s...) }

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func connect5(id string) []byte {
	return packet(0x10, join(text("MQTT"), []byte{5, 2, 0, 60, 0}, text(id))...)
}

func TestCheckAcceptsWhatClientsSend(t *testing.T) {
	for name, p := range map[string][]byte{
		"publish qos 0":   packet(0x30, join(text("a/b"), []byte{0}, []byte("payload"))...),
		"publish qos 1":   packet(0x32, join(text("a/b"), []byte{0, 9, 0}, []byte("payload"))...),
		"publish empty":   packet(0x31, join(text("a/b"), []byte{0})...),
		"user property":   packet(0x30, join(text("a"), []byte{9, 0x26}, text("k"), []byte{0, 3}, []byte("a\tb"))...),
		"two user props":  packet(0x30, join(text("a"), []byte{10, 0x26, 0, 0, 0, 0, 0x26, 0, 0, 0, 0})...),
		"subscribe":       packet(0x82, join([]byte{0, 1, 0}, text("a/#"), []byte{1}, text("b"), []byte{0})...),
		"subscription id": packet(0x82, join([]byte{0, 1, 2, 0x0b, 7}, text("a/#"), []byte{1})...),
		"unsubscribe":     packet(0xa2, join([]byte{0, 1, 0}, text("a/#"))...),
		"puback":          packet(0x40, 0, 1),
		"puback reason":   packet(0x40, 0, 1, 0x10),
		"puback props":    packet(0x40, 0, 1, 0x10, 0),
		"pubrel":          packet(0x62, 0, 1),
		"ping":            packet(0xc0),
		"disconnect":      packet(0xe0),
		"disconnect 4":    packet(0xe0, 4),
	} {
		if v, err := guard.Check(p, 5); err != nil || v != 5 {
			t.Errorf("%s: %v (version %d)", name, err, v)
		}
	}
	if v, err := guard.Check(packet(0x82, join([]byte{0, 1}, text("a"), []byte{1})...), 4); err != nil || v != 4 {
		t.Errorf("subscribe of 3.1.1: %v", err)
	}
	for name, p := range map[string][]byte{
		"5":       connect5("x"),
		"5 no id": connect5(""),
		"3.1.1":   packet(0x10, join(text("MQTT"), []byte{4, 2, 0, 60}, text("x"))...),
		"3.1":     packet(0x10, join(text("MQIsdp"), []byte{3, 2, 0, 60}, text("x"))...),
		"will":    packet(0x10, join(text("MQTT"), []byte{5, 0xc6, 0, 60, 0}, text("x"), []byte{0}, text("w"), text("gone"), text("user"), text("pw"))...),
	} {
		if v, err := guard.Check(p, 0); err != nil || v == 0 {
			t.Errorf("connect %s: %v", name, err)
		}
	}
}

func TestCheckRefusesWhatIsCutShortOrWrong(t *testing.T) {
	whole := map[string][]byte{
		"subscribe":   packet(0x82, join([]byte{0, 1, 2, 0x0b, 7}, text("a/#"), []byte{1})...),
		"unsubscribe": packet(0xa2, join([]byte{0, 1, 0}, text("a/#"))...),
		"publish":     packet(0x32, join(text("a/b"), []byte{0, 9, 7, 0x03}, []byte{0, 4}, []byte("json"))...),
		"puback":      packet(0x40, 0, 1, 0x10, 5, 0x1f, 0, 2, 'o', 'k'),
	}
	for name, p := range whole {
		if _, err := guard.Check(p, 5); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for n := range len(p) - 2 {
			cut := packet(p[0], p[2:2+n]...)
			_, err := guard.Check(cut, 5)
			whole := name == "puback" && (n == 2 || n == 3) // reason and properties may be left out
			if (err == nil) != whole {
				t.Errorf("%s cut to %d bytes: %v", name, n, err)
			}
		}
	}
	c := packet(0x10, join(text("MQTT"), []byte{5, 0xc6, 0, 60, 0}, text("x"), []byte{0}, text("w"), text("gone"), text("user"), text("pw"))...)
	for n := range len(c) - 2 {
		if _, err := guard.Check(packet(0x10, c[2:2+n]...), 0); err == nil {
			t.Errorf("CONNECT cut to %d bytes passes", n)
		}
	}
	for name, p := range map[string][]byte{
		"subscribe without options":   packet(0x82, join([]byte{0, 1, 0}, text("a/#"))...),
		"subscribe without filters":   packet(0x82, 0, 1, 0),
		"subscribe with packet id 0":  packet(0x82, join([]byte{0, 0, 0}, text("a"), []byte{1})...),
		"subscribe with wrong flags":  packet(0x80, join([]byte{0, 1, 0}, text("a"), []byte{1})...),
		"property beyond its list":    packet(0x30, join(text("a"), []byte{1, 0x02, 0, 0, 0, 9})...),
		"property list beyond packet": packet(0x30, join(text("a"), []byte{20, 0x02})...),
		"property twice":              packet(0x30, join(text("a"), []byte{4, 0x01, 1, 0x01, 1})...),
		"property unknown":            packet(0x30, join(text("a"), []byte{2, 0x7f, 1})...),
		"endless varint":              packet(0x30, join(text("a"), []byte{0x80, 0x80, 0x80, 0x80, 0})...),
		"qos 3":                       packet(0x36, join(text("a"), []byte{0, 1, 0})...),
		"NUL in topic":                packet(0x30, join([]byte{0, 1, 0}, []byte{0})...),
		"topic not UTF-8":             packet(0x30, 0, 1, 0xff, 0),
		"second CONNECT":              connect5("x"),
		"CONNACK":                     packet(0x20, 0, 0, 0),
		"SUBACK":                      packet(0x90, 0, 1, 0, 0),
		"type 0":                      packet(0x00),
		"ping with content":           packet(0xc0, 1),
		"ack with more behind":        packet(0x40, 0, 1, 0, 0, 9),
	} {
		if _, err := guard.Check(p, 5); err == nil {
			t.Errorf("%s passes", name)
		}
	}
	for name, p := range map[string][]byte{
		"no CONNECT":        packet(0xc0),
		"unknown version":   packet(0x10, join(text("MQTT"), []byte{6, 2, 0, 60, 0}, text("x"))...),
		"other protocol":    packet(0x10, join(text("HTTP"), []byte{5, 2, 0, 60, 0}, text("x"))...),
		"reserved flag":     packet(0x10, join(text("MQTT"), []byte{5, 3, 0, 60, 0}, text("x"))...),
		"CONNECT with more": packet(0x10, join(text("MQTT"), []byte{5, 2, 0, 60, 0}, text("x"), []byte{1})...),
	} {
		if _, err := guard.Check(p, 0); err == nil {
			t.Errorf("%s passes", name)
		}
	}
}

// TestCheckRefusesQuotasOfZero (MQTT 5, 3.1.2.11.3 and 3.1.2.11.4).
func TestCheckRefusesQuotasOfZero(t *testing.T) {
	for name, c := range map[string]struct {
		properties []byte
		refused    bool
	}{
		"receive maximum 0":       {[]byte{3, 0x21, 0, 0}, true},
		"receive maximum 1":       {[]byte{3, 0x21, 0, 1}, false},
		"receive maximum 256":     {[]byte{3, 0x21, 1, 0}, false},
		"maximum packet size 0":   {[]byte{5, 0x27, 0, 0, 0, 0}, true},
		"maximum packet size 256": {[]byte{5, 0x27, 0, 0, 1, 0}, false},
	} {
		_, err := guard.Check(packet(0x10, join(text("MQTT"), []byte{5, 2, 0, 60}, c.properties, text("x"))...), 0)
		var v *guard.Violation
		if errors.As(err, &v) != c.refused || c.refused && v.Code != 0x82 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFrameSize(t *testing.T) {
	for _, c := range []struct {
		in   []byte
		size int
		ok   bool
		bad  bool
	}{
		{nil, 0, false, false},
		{[]byte{0x30}, 0, false, false},
		{[]byte{0x30, 0x80}, 0, false, false},
		{[]byte{0x30, 0x7f}, 129, true, false},
		{[]byte{0x30, 0x80, 0x01}, 131, true, false},
		{[]byte{0x30, 0xff, 0xff, 0xff, 0x7f}, 268_435_460, true, false},
		{[]byte{0x30, 0x80, 0x80, 0x80, 0x80}, 0, false, true},
	} {
		size, ok, err := guard.FrameSize(c.in)
		if size != c.size || ok != c.ok || (err != nil) != c.bad {
			t.Errorf("% x: %d %v %v", c.in, size, ok, err)
		}
	}
}

func TestCheckNeverPanics(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "body")
		version := rapid.SampledFrom([]byte{0, 3, 4, 5}).Draw(t, "version")
		_, _ = guard.Check(packet(rapid.Byte().Draw(t, "first"), body...), version)
	})
}
