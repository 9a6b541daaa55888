package gate_test

import (
	"fmt"
	"strings"
	"testing"

	"muster/internal/protocol"
)

// sizes are those of a claim, of a usual answer, and of the largest one.
func sizes() map[string]int {
	return map[string]int{"300B": 300, "8KiB": protocol.InlineLimit, "256KiB": protocol.MaxResultBytes}
}

// filled is a message of about size bytes.
func filled(seq int64, size int) []byte {
	lines := strings.Repeat(`{"at":"2026-09-17T07:30:00.000Z","level":"info","line":"sale 4711 closed"},`, max(0, size-110)/75)
	return fmt.Appendf(nil, `{"id":"01K5BXJ3Z8A1B2C3D4E5F6G7H8","at":"2026-09-17T07:30:00.000Z","seq":%d,"taskId":"t","result":[%s]}`,
		seq, strings.TrimSuffix(lines, ","))
}

func BenchmarkSign(b *testing.B) {
	h := open(b)
	p := h.pairOf("S1", "pos", 1)
	for name, size := range sizes() {
		b.Run(name, func(b *testing.B) {
			topic, payload := h.topic(p, protocol.KindResult), filled(1, size)
			for b.Loop() {
				p.signer.Sign(topic, payload)
			}
		})
	}
}

func BenchmarkVerify(b *testing.B) {
	h := open(b)
	p := h.pairOf("S1", "pos", 1)
	for name, size := range sizes() {
		b.Run(name, func(b *testing.B) {
			in := h.signed(p, protocol.KindResult, filled(1, size))
			for b.Loop() {
				if err := in.Signature.Verify(p.public, in.Topic, in.Payload); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPass is what the gate adds to a message: the key from memory, the
// signature, and the number. The step behind it fails, so that one message can
// come again and again.
func BenchmarkPass(b *testing.B) {
	h := open(b)
	p := h.enrol("S1", "pos", 1)
	for name, size := range sizes() {
		b.Run(name, func(b *testing.B) {
			in := h.signed(p, protocol.KindResult, filled(1, size))
			through := 0
			for b.Loop() {
				_ = h.passTo(in, func() error { through++; return errBusy })
			}
			if through != b.N {
				b.Fatalf("%d of %d went through", through, b.N)
			}
		})
	}
}
