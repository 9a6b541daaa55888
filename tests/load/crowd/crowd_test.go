package crowd_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"testing"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
	"github.com/oklog/ulid/v2"

	"muster/internal/protocol"
	"muster/internal/trust"
	"muster/tests/load/crowd"
)

func decode(t *testing.T, payload []byte, into any) {
	t.Helper()
	if err := protocol.Decode(payload, protocol.MaxPayloadBytes, into); err != nil {
		t.Fatalf("%s: %v", payload, err)
	}
}

// TestTheCrowdSaysWhatTheProtocolSays: what is put together by hand reads as the
// messages that a real terminal sends, each with a number and an id of its own.
func TestTheCrowdSaysWhatTheProtocolSays(t *testing.T) {
	t.Parallel()
	c, err := crowd.New(crowd.Options{Terminals: 1, Tasks: 1, Bytes: 1024, Work: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	now := time.UnixMilli(1_800_000_000_123)
	first, begun, answer := c.Say("task-1", "0a1b", 2, now)
	var claim protocol.Claim
	var start protocol.Progress
	var result protocol.Result
	decode(t, first, &claim)
	decode(t, begun, &start)
	decode(t, answer, &result)
	if claim.TaskID != "task-1" || claim.Instance == "" || start.TaskID != "task-1" || start.Attempt != 2 || start.Percent != 0 {
		t.Errorf("got claim %+v, start %+v", claim, start)
	}
	sum := sha256.Sum256(result.Result)
	want := protocol.Result{Meta: result.Meta, TaskID: "task-1", Attempt: 2, Outcome: protocol.AnswerSucceeded, Result: result.Result,
		StartedAt: now.UnixMilli() - 2000, FinishedAt: now.UnixMilli(), DurationMs: 2000, Executed: true, SHA256: hex.EncodeToString(sum[:]), OfferSHA256: "0a1b"}
	got, err1 := protocol.Encode(result)
	wanted, err2 := protocol.Encode(want)
	if err1 != nil || err2 != nil || !bytes.Equal(got, wanted) {
		t.Errorf("got %s, want %s (%v, %v)", got, wanted, err1, err2)
	}
	if n := len(result.Result); n < 1000 || n > 1050 {
		t.Errorf("the result has %d bytes, not about 1024", n)
	}
	seen := map[string]bool{}
	for i, m := range []protocol.Meta{claim.Meta, start.Meta, result.Meta} {
		id, err := ulid.ParseStrict(m.ID)
		if err != nil || id.Time() != uint64(now.UnixMilli()) || seen[m.ID] || !m.At.Equal(now) || m.Seq != claim.Seq+int64(i) {
			t.Errorf("message %d is framed %+v (%v)", i, m, err)
		}
		seen[m.ID] = true
	}
}

// TestPublishIsMQTT5: the library reads what the crowd writes, and the crowd what
// the library writes, signature and all.
func TestPublishIsMQTT5(t *testing.T) {
	t.Parallel()
	signer := trust.NewSigner(crowd.Key(3))
	payload := []byte(`{"order":"grant"}`)
	for name, s := range map[string]trust.Signature{"signed": signer.Sign("a/b", payload), "unsigned": {}} {
		wire := crowd.AppendPublish("a/b", payload, 7, s)
		pk := packets.Packet{ProtocolVersion: 5}
		if err := pk.FixedHeader.Decode(wire[0]); err != nil {
			t.Fatal(err)
		}
		length, n, err := packets.DecodeLength(bytes.NewReader(wire[1:]))
		if err != nil || length != len(wire)-1-n {
			t.Fatalf("%s: the length is %d of %d, %v", name, length, len(wire), err)
		}
		if err := pk.PublishDecode(wire[1+n:]); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if pk.TopicName != "a/b" || pk.PacketID != 7 || pk.FixedHeader.Qos != 1 || !bytes.Equal(pk.Payload, payload) {
			t.Errorf("%s: the library reads %+v", name, pk)
		}
		var out bytes.Buffer
		pk.Properties.ContentType = "application/json"
		if err := pk.PublishEncode(&out); err != nil {
			t.Fatal(err)
		}
		back := out.Bytes()
		_, n, err = packets.DecodeLength(bytes.NewReader(back[1:]))
		if err != nil {
			t.Fatal(err)
		}
		topic, body, id, read, err := crowd.ReadPublish(back[0], back[1+n:])
		if err != nil || topic != "a/b" || id != 7 || !bytes.Equal(body, payload) || read != s {
			t.Errorf("%s: the crowd reads %s %d %s %+v, %v", name, topic, id, body, read, err)
		}
		public, _ := crowd.Key(3).Public().(ed25519.PublicKey)
		if s.KeyID != "" && read.Verify(public, topic, body) != nil {
			t.Errorf("%s: the signature does not fit", name)
		}
	}
}

func TestAMemberIsFoundOutsideOfTexts(t *testing.T) {
	t.Parallel()
	payload, err := protocol.Encode(protocol.Order{Order: protocol.OrderReceipt, TaskID: "t-1", Attempt: 12, Message: `"taskId":"no"`, SHA256: "ab"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"taskId": "t-1", "attempt": "12", "order": "receipt", "sha256": "ab", "accepted": "", "message": `\`} {
		if got := crowd.Member(payload, name); got != want {
			t.Errorf("%s is %q, want %q, in %s", name, got, want, payload)
		}
	}
}
