// Package workbook writes a report for spreadsheets. It lays cells out by itself, and lets the
// library make the rest of the workbook.
//
// It is pure, and writes while it reads: rows come once a sheet, and once before.
package workbook

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"

	"muster/internal/protocol"
)

// Rules stands in every manifest beside the workbook.
const Rules = "Office Open XML workbook (ISO/IEC 29500) in which nothing runs and nothing points elsewhere. Sheets: summary, stores, missing, attempts (of a report of more than 10,000 stores, of those that did not succeed at the first one), revisions, regions, metadata and, where the job has columns with a type, totals. " +
	"Every text is a string cell, ids too (007, 1E5); control characters other than line break and tab, and direction marks, are shown as ␀ or [U+202E]. " +
	"Times are dates in headquarters' zone, and so are values of the job's columns of dates and moments. A number of the terminal stands as a number where a spreadsheet keeps its value, with more than 15 digits as text. " +
	"Text over 32,767 UTF-16 units is cut, ends in … [已截断 cut: and its length], and is counted on the first sheet."

// rowSeq are the rows of a report, each the JSON of a protocol.StoreRow, by store id.
type rowSeq = iter.Seq2[json.RawMessage, error]

// Write writes the report for spreadsheets: what it amounts to, every store, those that did
// not succeed, their attempts one by one, those whose row is another one than at the barrier, the regions, what the
// job's columns amount to, and of what run all of that is. Rows go straight through to w,
// and are the JSON of one protocol.StoreRow each, by store id. It fails for a row that cannot
// be read, and with what w fails with.
func Write(w io.Writer, head protocol.ReportHead, rows iter.Seq2[json.RawMessage, error]) error {
	found, err := look(&head, rows)
	if err != nil {
		return err
	}
	cut := 0 // cells, in all sheets
	sheets := []sheet{summarySheet(&head, &cut), storesSheet(&head, rows), missingSheet(&head, rows),
		attemptsSheet(&head, rows, found.tries), revisionsSheet(&head, rows, found.moved), regionsSheet(found.regions)}
	if len(head.Totals) > 0 {
		sheets = append(sheets, totalsSheet(&head))
	}
	sheets = append(sheets, metadataSheet(&head))
	frame, err := frameOf(&head, sheets)
	if err != nil {
		return fmt.Errorf("cannot write a report as XLSX: %w", err)
	}
	out := zip.NewWriter(w)
	// The order of the parts is ours, and they carry no time: the same rows
	// make the same bytes.
	for _, name := range slices.Sorted(maps.Keys(frame.parts)) {
		if err := writePart(out, name, func(part io.Writer) error {
			_, err := part.Write(frame.parts[name].Bytes())
			return err
		}); err != nil {
			return err
		}
	}
	// The summary is written last: it tells how many cells were cut.
	for i, s := range slices.Backward(sheets) {
		if err := writePart(out, partName(i), func(part io.Writer) error {
			cells := newCells(part, head.AsOf.Location(), frame.styles)
			err := cells.sheet(frame.before[i], s, frame.after[i])
			cut += cells.cut
			return err
		}); err != nil {
			return err
		}
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("cannot write a report as XLSX: %w", err)
	}
	return nil
}

func writePart(out *zip.Writer, name string, write func(io.Writer) error) error {
	part, err := out.Create(name)
	if err == nil {
		err = write(part)
	}
	if err != nil {
		return fmt.Errorf("cannot write %s of a report as XLSX: %w", name, err)
	}
	return nil
}

// partName is where the sheet with that index lies in the workbook.
func partName(index int) string { return fmt.Sprintf("xl/worksheets/sheet%d.xml", index+1) }
