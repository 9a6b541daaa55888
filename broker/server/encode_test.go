package server_test

import (
	"bytes"
	"testing"

	"github.com/mochi-mqtt/server/v2/packets"
	"pgregory.net/rapid"

	"muster/broker/server"
)

// TestAPublishIsWrittenAsTheLibraryDoes, byte for byte.
func TestAPublishIsWrittenAsTheLibraryDoes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, -1, 200)
		pk := packets.Packet{
			FixedHeader:     packets.FixedHeader{Type: packets.Publish, Qos: rapid.ByteRange(0, 2).Draw(t, "qos"), Retain: rapid.Bool().Draw(t, "retain"), Dup: rapid.Bool().Draw(t, "dup")},
			ProtocolVersion: rapid.ByteRange(3, 5).Draw(t, "version"),
			TopicName:       text.Draw(t, "topic"),
			PacketID:        rapid.Uint16().Draw(t, "id"),
			Payload:         rapid.SliceOfN(rapid.Byte(), 0, 20_000).Draw(t, "payload"),
			Mods:            packets.Mods{AllowResponseInfo: true, DisallowProblemInfo: rapid.Bool().Draw(t, "no problem information")},
			Properties: packets.Properties{
				PayloadFormat: 1, PayloadFormatFlag: rapid.Bool().Draw(t, "format"),
				MessageExpiryInterval:  rapid.Uint32().Draw(t, "expiry"),
				ContentType:            text.Draw(t, "content type"),
				ResponseTopic:          rapid.SampledFrom([]string{"", "a/b", "a/+", "#"}).Draw(t, "response topic"),
				CorrelationData:        rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "correlation data"),
				SubscriptionIdentifier: rapid.SliceOfN(rapid.IntRange(0, 268_435_455), 0, 4).Draw(t, "identifiers"),
				TopicAlias:             rapid.Uint16().Draw(t, "alias"), TopicAliasFlag: rapid.Bool().Draw(t, "aliased"),
			},
		}
		for range rapid.IntRange(0, 3).Draw(t, "user properties") {
			pk.Properties.User = append(pk.Properties.User, packets.UserProperty{Key: text.Draw(t, "key"), Val: text.Draw(t, "value")})
		}
		var want, got bytes.Buffer
		theirs, ours := pk, pk
		err := theirs.PublishEncode(&want)
		if ok := server.PublishInto(&got, &ours); ok != (err == nil) {
			t.Fatalf("ours says %t, the library %v", ok, err)
		}
		if err == nil && !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Fatalf("ours\n% x\nthe library's\n% x", got.Bytes(), want.Bytes())
		}
	})
}
