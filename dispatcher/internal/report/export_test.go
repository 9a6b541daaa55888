package report

import (
	"encoding/json"

	"muster/dispatcher/internal/report/line"
	"muster/internal/protocol"
)

// TextCell, Harmless and Matches are seams for property tests.
var (
	TextCell = textCell
	Harmless = harmless
	Matches  = matches
)

// RowReader reads rows and says whether they were usual, and fit.
type RowReader struct{ in line.Reader }

// Read returns nil for a row that is none.
func (r *RowReader) Read(raw json.RawMessage) (row *protocol.StoreRow, usual, fit bool) {
	row, err := r.in.Read(raw)
	if err != nil {
		return nil, false, false
	}
	return row, r.in.Usual, r.in.Usual && fits(row)
}

// Validate asks the schema alone.
func (r *Reporter) Validate(raw json.RawMessage) error {
	var row protocol.StoreRow
	if err := json.Unmarshal(raw, &row); err != nil {
		return err
	}
	return r.validate(raw, &row)
}
