package protocol_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"muster/internal/protocol"
)

// BenchmarkDecode takes in an answer as headquarters does, a usual one and one of the
// largest.
func BenchmarkDecode(b *testing.B) {
	for name, lines := range map[string]int{"1KiB": 9, "256KiB": 3400} {
		text := strings.Repeat(`{"at":"2026-09-17T07:30:00.000Z","level":"info","line":"sale 4711 closed"},`, lines)
		payload := fmt.Appendf(nil, `{"id":"01K5BXJ3Z8A1B2C3D4E5F6G7H8","at":"2026-09-17T07:30:00.000Z","seq":1,"taskId":"t-1","attempt":1,"outcome":"succeeded",`+
			`"startedAt":1758094200000,"endedAt":1758094200000,"durationMs":125,"executed":true,"sha256":"%064d","result":{"lines":[%s]}}`, 0, strings.TrimSuffix(text, ","))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(payload)))
			b.ReportAllocs()
			for b.Loop() {
				var m protocol.Result
				if err := protocol.Decode(payload, protocol.MaxPayloadBytes, &m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkParse takes a topic apart, as is done for every message.
func BenchmarkParse(b *testing.B) {
	tp, err := protocol.NewTopics(protocol.DefaultRoot)
	if err != nil {
		b.Fatal(err)
	}
	topic := tp.Terminal("S0123", "pos-1", protocol.KindResult)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := tp.Parse(topic); !ok {
			b.Fatal("not taken")
		}
	}
}

// BenchmarkEncode writes a receipt.
func BenchmarkEncode(b *testing.B) {
	accepted := true
	o := protocol.Order{Meta: protocol.Meta{ID: "01K5BXJ3Z8A1B2C3D4E5F6G7H8", At: protocol.At(time.UnixMilli(1_789_574_400_000)), Seq: 7}, Order: protocol.OrderReceipt,
		TaskID: "t-1", Attempt: 1, SHA256: strings.Repeat("0", 64), Accepted: &accepted}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := protocol.Encode(o); err != nil {
			b.Fatal(err)
		}
	}
}
