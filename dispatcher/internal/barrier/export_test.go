package barrier

import (
	"encoding/json"
	"iter"

	"muster/dispatcher/internal/store"
)

// Post has the loop run f.
func (b *Barrier) Post(f func()) { b.post(f) }

// Shelf keeps so many bytes of what load yields.
func Shelf(load iter.Seq2[store.OutcomeRow, error], limit int) (rows iter.Seq2[json.RawMessage, error], missing func() []string) {
	s := &shelf{load: load, limit: limit}
	return s.rows, func() []string { return s.missing }
}
