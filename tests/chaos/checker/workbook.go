package checker

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/xuri/excelize/v2"

	"muster/internal/protocol"
	"muster/internal/task"
)

// The sheets of a workbook, and the English half of the headers, as
// docs/protocol/report.md promises them.
const (
	sheetSummary = "汇总 summary"
	sheetStores  = "门店 stores"
	sheetMissing = "未成功 missing"
)

var outcomeNames = []task.Outcome{task.OutcomeSucceeded, task.OutcomeFailed, task.OutcomeTimedOut, task.OutcomeOffline, task.OutcomeCancelled}

// workbookClaim is what an XLSX file says: its counts, its stores with the job's
// columns, what these amount to, their attempts, and that those that are missing stand on a sheet of their own.
func workbookClaim(content []byte, columns []protocol.Column) (claim, error) {
	book, err := excelize.OpenReader(bytes.NewReader(content))
	if err != nil {
		return claim{}, err
	}
	defer book.Close()
	c, err := workbookCounts(book)
	if err != nil {
		return claim{}, err
	}
	c.cells = true
	if c.amounts, err = workbookAmounts(book, columns); err != nil {
		return claim{}, err
	}
	if c.rows, err = workbookRows(book, sheetStores, columns); err != nil {
		return claim{}, err
	}
	if err := workbookTries(book, c.rows); err != nil {
		return claim{}, err
	}
	missing, err := workbookRows(book, sheetMissing, nil)
	if err != nil {
		return claim{}, err
	}
	for id, row := range c.rows {
		again, there := missing[id]
		if there != (row.outcome != task.OutcomeSucceeded) {
			return claim{}, fmt.Errorf("store %s is %s, and on the sheet of the missing: %t", id, row.outcome, there)
		}
		if there && again.reason != row.reason {
			return claim{}, fmt.Errorf("store %s is missing for %q and for %q", id, row.reason, again.reason)
		}
		delete(missing, id)
	}
	for id := range missing {
		return claim{}, fmt.Errorf("store %s is on the sheet of the missing alone", id)
	}
	return c, nil
}

func workbookCounts(book *excelize.File) (claim, error) {
	lines, err := book.GetRows(sheetSummary)
	if err != nil {
		return claim{}, err
	}
	c := claim{counts: &protocol.Counts{}}
	buckets := map[string]*int{"succeeded": &c.counts.Succeeded, "failed": &c.counts.Failed, "timed out": &c.counts.TimedOut,
		"offline": &c.counts.Offline, "cancelled": &c.counts.Cancelled, "targets": &c.targets}
	for _, line := range lines {
		if len(line) < 2 {
			continue
		}
		_, english, _ := strings.Cut(line[0], " ")
		into, known := buckets[english]
		if !known {
			continue
		}
		if *into, err = strconv.Atoi(line[1]); err != nil {
			return claim{}, fmt.Errorf("it counts %q", line)
		}
		delete(buckets, english)
	}
	if len(buckets) > 0 {
		return claim{}, fmt.Errorf("it lacks %d of the counts", len(buckets))
	}
	return c, nil
}

// lastBefore is the column before the job's own.
const lastBefore = "Error detail"

// workbookRows reads a sheet row by row. A number is read with the digits that the
// file has.
func workbookRows(book *excelize.File, sheet string, columns []protocol.Column) (map[string]claimRow, error) {
	table, err := book.Rows(sheet)
	if err != nil {
		return nil, err
	}
	defer table.Close()
	var header map[string]int
	rows := map[string]claimRow{}
	for table.Next() {
		line, err := table.Columns(excelize.Options{RawCellValue: true})
		if err != nil {
			return nil, err
		}
		if header == nil {
			if header, err = workbookHeader(line, columns); err != nil {
				return nil, fmt.Errorf("on sheet %s %w", sheet, err)
			}
			continue
		}
		at := func(i int) string {
			if i < len(line) {
				return line[i]
			}
			return ""
		}
		cell := func(name string) string {
			if i, there := header[name]; there {
				return at(i)
			}
			return ""
		}
		id := cell("Store")
		if _, twice := rows[id]; twice || id == "" {
			return nil, fmt.Errorf("store %q stands on sheet %s twice, or has no id", id, sheet)
		}
		row := claimRow{outcomeOf(cell("Outcome")), task.Reason(cell("Reason code")), outcomeOf(cell("At the barrier")), make([]string, len(columns)), nil}
		for i := range columns {
			if row.values[i] = at(header[lastBefore] + 1 + i); columns[i].Type == protocol.ColumnTime {
				row.values[i] = toTheMs(row.values[i])
			}
		}
		rows[id] = row
	}
	return rows, table.Error()
}

// workbookHeader finds the columns by the English half of their headers, and that
// the job's own stand where they belong. They may have any name, that of another
// column too.
func workbookHeader(line []string, columns []protocol.Column) (map[string]int, error) {
	header := map[string]int{}
	for i, text := range line {
		_, english, _ := strings.Cut(text, "\n")
		if job := i - header[lastBefore] - 1; header[lastBefore] > 0 && job >= 0 && job < len(columns) {
			if english != columns[job].Title && english != columns[job].Title+" ("+columns[job].Unit+")" {
				return nil, fmt.Errorf("column %q stands where %q belongs", english, columns[job].Title)
			}
			continue
		}
		header[english] = i
	}
	if _, there := header[lastBefore]; !there && len(columns) > 0 {
		return nil, fmt.Errorf("there is no column %q", lastBefore)
	}
	return header, nil
}

// outcomeOf reads "超时 timed out"; "" when it is no outcome.
func outcomeOf(words string) task.Outcome {
	_, english, _ := strings.Cut(words, " ")
	for _, o := range outcomeNames {
		if english == strings.ReplaceAll(string(o), "_", " ") {
			return o
		}
	}
	return ""
}
