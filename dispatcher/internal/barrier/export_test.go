package barrier

import (
	"encoding/json"
	"iter"
	"time"

	"muster/dispatcher/internal/store"
)

// EncodeRow is a seam for a property test.
var EncodeRow = encodeRow

// Post has the loop run f.
func (b *Barrier) Post(f func()) { b.post(f) }

// Spoil has the loop find a run whose place in the clock is not what it says.
func (b *Barrier) Spoil() {
	b.post(func() {
		r := newRun(&store.Run{RunID: "spoiled"})
		b.runs[r.id] = r
		b.arrange(r)
		r.index = 1000
	})
}

// Shelf keeps so many bytes of what load yields.
func Shelf(load iter.Seq2[store.OutcomeRow, error], limit int) (rows iter.Seq2[json.RawMessage, error], missing func() []string) {
	s := &shelf{load: load, limit: limit}
	return s.rows, func() []string { return s.missing }
}

// Row is the row of a target with this one task, in revision 1.
func Row(c store.Candidate, run *store.Run, now time.Time, zone *time.Location) (store.OutcomeRow, error) {
	return target{c}.row(run, now, zone, "")
}

// ForwardRows is forwardRows.
func ForwardRows(parent, retry iter.Seq2[store.OutcomeRow, error]) ([]store.OutcomeRow, error) {
	return forwardRows(parent, retry)
}
