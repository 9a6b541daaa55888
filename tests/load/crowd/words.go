package crowd

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/oklog/ulid/v2"

	"muster/internal/protocol"
)

// What terminals say is put together by hand, and what they hear is not parsed:
// the crowd stands for machines that do this elsewhere, and has to leave the
// processor to headquarters. Tests hold the words against internal/protocol.

const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// frame begins a message: id, at and seq.
func (t *terminal) frame(b []byte, now time.Time) []byte {
	t.seq++
	var id ulid.ULID
	_ = id.SetTime(uint64(now.UnixMilli())) // fails beyond the year 10889
	binary.BigEndian.PutUint32(id[6:], uint32(t.index))
	binary.BigEndian.PutUint32(id[12:], uint32(t.seq))
	b = append(append(b, `{"id":"`...), id.String()...)
	b = now.AppendFormat(append(b, `","at":"`...), timeLayout)
	return strconv.AppendInt(append(b, `","seq":`...), t.seq, 10)
}

func (t *terminal) claimOf(b []byte, d *duty, now time.Time) []byte {
	b = append(t.frame(b, now), `,"taskId":"`...)
	b = append(append(b, d.id...), `","condition":{},"instance":"`...)
	return append(append(b, t.crowd.instance...), `"}`...)
}

func (t *terminal) startOf(b []byte, d *duty, now time.Time) []byte {
	b = append(t.frame(b, now), `,"taskId":"`...)
	b = append(append(b, d.id...), `","attempt":`...)
	return append(strconv.AppendInt(b, int64(d.attempt), 10), `,"percent":0}`...)
}

func (t *terminal) resultOf(b []byte, d *duty, now time.Time) []byte {
	b = append(t.frame(b, now), `,"taskId":"`...)
	b = append(append(b, d.id...), `","attempt":`...)
	b = append(strconv.AppendInt(b, int64(d.attempt), 10), `,"outcome":"succeeded","result":`...)
	from := len(b)
	b = append(append(b, `{"run":"r1","store":"`...), t.store...)
	b = append(append(b, `","status":"SUCCEEDED","exit":0,"rows":1234,"log":"`...), t.crowd.log...)
	b = append(b, `"}`...)
	sum := sha256.Sum256(b[from:])
	b = strconv.AppendInt(append(b, `,"startedAt":`...), now.Add(-t.crowd.work).UnixMilli(), 10)
	b = strconv.AppendInt(append(b, `,"finishedAt":`...), now.UnixMilli(), 10)
	b = strconv.AppendInt(append(b, `,"durationMs":`...), t.crowd.work.Milliseconds(), 10)
	b = hex.AppendEncode(append(b, `,"executed":true,"sha256":"`...), sum[:])
	return append(append(append(b, `","offerSha256":"`...), d.offer...), `"}`...)
}

func (t *terminal) hello(now time.Time) ([]byte, error) {
	t.seq++
	return protocol.Encode(protocol.Hello{Meta: protocol.Meta{ID: ulid.Make().String(), At: protocol.At(now), Seq: t.seq},
		AgentVersion: "crowd", Protocols: []int{1}, Jobs: []protocol.JobVersion{{Type: Job, Version: 1}}, Open: []protocol.OpenTask{},
		ClockMs: now.UnixMilli(), Instance: t.crowd.instance})
}

// member is the value of a member of a compact JSON object of which the values
// are texts without escapes, or numbers, true and false; nil when it is absent.
// No text can hold the pattern that is looked for: its quotes would be escaped.
func member(payload []byte, name string) []byte {
	var buf [32]byte
	pattern := append(append(append(buf[:0], '"'), name...), '"', ':')
	at := bytes.Index(payload, pattern)
	if at < 0 {
		return nil
	}
	value := payload[at+len(pattern):]
	if len(value) > 0 && value[0] == '"' {
		value = value[1:]
		if end := bytes.IndexByte(value, '"'); end >= 0 {
			return value[:end]
		}
		return nil
	}
	if end := bytes.IndexAny(value, ",}]"); end >= 0 {
		return value[:end]
	}
	return nil
}

// number is member, of a whole number; 0 when it is absent.
func number(payload []byte, name string) int {
	n, _ := strconv.Atoi(string(member(payload, name))) // absent is 0
	return n
}
