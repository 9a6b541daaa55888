// Package stamp makes the id, time and sequence number that stand in every
// payload of this terminal.
//
// It sends nothing, and keeps on the disk how far the numbers have come.
package stamp

import (
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"muster/internal/protocol"
)

// Maker makes stamps. Safe for concurrent use; call New.
type Maker struct {
	now  func() time.Time
	seq  atomic.Int64
	kept *kept // nil: nothing is kept
}

// slack is more messages than a terminal sends between two journal entries, in
// sequence numbers (microseconds): the journal's last entry plus it lies above
// every number used before a restart, even when the clock was set back.
const slack = int64(time.Second / time.Microsecond)

// New returns a maker whose sequence numbers lie above those of an earlier
// process that last wrote its journal at lastWrite (zero: there was none).
func New(now func() time.Time, lastWrite time.Time) *Maker {
	m := &Maker{now: now}
	m.seq.Store(max(0, now().UnixMicro(), lastWrite.UnixMicro()+slack))
	return m
}

// Advance lets the numbers go on from the clock, if that is ahead of them. Call it
// with each connection, and before a hello that follows one without an answer: of
// two machines with one identity the one that connects later is then heard, as long
// as their clocks agree, and headquarters learns of both; and one that is taken for
// an echo of the other, whose numbers had run ahead, is heard again once the clock
// is past them. Not with each message: one that overtakes another would be so far
// above it that headquarters takes that for an old one.
func (m *Maker) Advance() {
	ahead := m.now().UnixMicro()
	for {
		seq := m.seq.Load()
		if seq >= ahead || m.seq.CompareAndSwap(seq, ahead) {
			return
		}
	}
}

// Meta returns the next stamp.
func (m *Maker) Meta() protocol.Meta {
	now, seq := m.now(), m.seq.Add(1)
	m.kept.reserve(seq)
	return protocol.Meta{
		ID:  ID(now),
		At:  protocol.At(now),
		Seq: seq,
	}
}

// ID names something that came about at now. A clock that stands before 1970
// counts as 1970: an id has no room for less.
func ID(now time.Time) string {
	if now.Before(time.UnixMilli(0)) {
		now = time.UnixMilli(0)
	}
	return ulid.MustNewDefault(now).String()
}
