package report

import (
	"bufio"
	"encoding/json"
	"io"

	"muster/internal/protocol"
)

// TextCell, Visible and Shown are seams for property tests.
var (
	TextCell = textCell
	Visible  = visible
	Shown    = shown
	Harmless = harmless
	Matches  = matches
)

// RowReader reads rows and says whether they were usual, and fit.
type RowReader struct{ in rowReader }

// Read returns nil for a row that is none.
func (r *RowReader) Read(raw json.RawMessage) (row *protocol.StoreRow, usual, fit bool) {
	row, err := r.in.read(raw)
	if err != nil {
		return nil, false, false
	}
	return row, r.in.usual, r.in.usual && fits(row)
}

// Validate asks the schema alone.
func (r *Reporter) Validate(raw json.RawMessage) error {
	var row protocol.StoreRow
	if err := json.Unmarshal(raw, &row); err != nil {
		return err
	}
	return r.validate(raw, &row)
}

// Cell writes a cell of the page.
func Cell(w io.Writer, before, text string) {
	p := pageTable{out: bufio.NewWriter(w)}
	p.cell(before, text)
	_ = p.out.Flush()
}
