package checker

import (
	"bytes"
	"errors"
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

// workbookClaim is what an XLSX file says: its counts, its stores, and that those
// that are missing stand on a sheet of their own.
func workbookClaim(content []byte) (claim, error) {
	book, err := excelize.OpenReader(bytes.NewReader(content))
	if err != nil {
		return claim{}, err
	}
	defer book.Close()
	c, err := workbookCounts(book)
	if err != nil {
		return claim{}, err
	}
	if c.rows, err = workbookRows(book, sheetStores); err != nil {
		return claim{}, err
	}
	missing, err := workbookRows(book, sheetMissing)
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

func workbookRows(book *excelize.File, sheet string) (map[string]claimRow, error) {
	table, err := book.GetRows(sheet)
	if err != nil {
		return nil, err
	}
	if len(table) == 0 {
		return nil, errors.New("a sheet has no header")
	}
	column := map[string]int{}
	for i, header := range table[0] {
		_, english, _ := strings.Cut(header, "\n")
		column[english] = i + 1
	}
	cell := func(line []string, name string) string {
		if i := column[name]; i > 0 && i <= len(line) {
			return line[i-1]
		}
		return ""
	}
	rows := map[string]claimRow{}
	for _, line := range table[1:] {
		id := cell(line, "Store")
		if _, twice := rows[id]; twice || id == "" {
			return nil, fmt.Errorf("store %q stands on sheet %s twice, or has no id", id, sheet)
		}
		rows[id] = claimRow{outcomeOf(cell(line, "Outcome")), task.Reason(cell(line, "Reason code")), outcomeOf(cell(line, "At the barrier"))}
	}
	return rows, nil
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
