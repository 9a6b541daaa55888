package barrier

import (
	"encoding/json"
	"iter"

	"muster/dispatcher/internal/store"
	"muster/internal/task"
)

// keptBytes bounds the rows of a revision that stay in memory while its files are
// made, for 100,000 stores some 70 MiB. One revision is written at a time.
const keptBytes = 256 << 20

// shelf holds the rows of one revision for those who look at them one after the
// other: they are read from the store once, unless they are too many to be kept,
// and the first look notes who is missing. It is for one goroutine.
type shelf struct {
	load  iter.Seq2[store.OutcomeRow, error]
	limit int // bytes to keep; 0: none

	kept    []json.RawMessage
	bytes   int
	whole   bool     // kept holds all of them
	missing []string // the first that did not succeed, once all were looked at

	before *before // the job's run before; nil: there is none, or nobody asks
}

// rows yields the JSON of each, by store id. It may be called again.
func (r *shelf) rows(yield func(json.RawMessage, error) bool) {
	if !r.whole {
		r.read(yield)
		return
	}
	for _, raw := range r.kept {
		if !yield(raw, nil) {
			return
		}
	}
}

func (r *shelf) read(yield func(json.RawMessage, error) bool) {
	r.kept, r.bytes = nil, 0
	missing := []string{}
	r.before.begin()
	for row, err := range r.load {
		if !yield(row.Row, err) || err != nil {
			return
		}
		if row.Outcome != task.OutcomeSucceeded && len(missing) < missingShown {
			missing = append(missing, row.StoreID)
		}
		r.before.meet(&row)
		if r.bytes += len(row.Row); r.bytes <= r.limit {
			r.kept = append(r.kept, row.Row)
			continue
		}
		r.kept = nil
	}
	r.whole, r.missing = r.bytes <= r.limit, missing
}
