// Package report turns the rows of one revision into an honest roll-call: it
// counts them, says in a sentence what they amount to, checks them, and writes
// them as JSON, CSV, HTML and XLSX that all say the same.
//
// It is pure: it reads no file, no database and no clock, and the same rows
// make the same bytes. Rows come one by one and may be asked for again, so that
// a report of any size is written in little memory.
package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"muster/dispatcher/internal/report/line"
	"muster/dispatcher/internal/report/page"
	"muster/dispatcher/internal/report/totals"
	"muster/dispatcher/internal/report/words"
	"muster/dispatcher/internal/report/workbook"
	"muster/dispatcher/internal/schema"
	"muster/internal/protocol"
)

// Rows are the rows of one revision by store id, each the JSON of a
// protocol.StoreRow. They may be iterated more than once.
type Rows = iter.Seq2[json.RawMessage, error]

// Reporter builds, checks and writes reports. Create it with New; it is safe
// for concurrent use.
type Reporter struct {
	whole *schema.Schema
	row   *schema.Schema
	page  *page.Page
}

// New compiles the schema of report.v1, whose definitions must hold storeRow.
func New(reportSchema []byte) (*Reporter, error) {
	whole, err := schema.Compile("report.v1", reportSchema)
	if err != nil {
		return nil, err
	}
	alone, err := rowSchema(reportSchema)
	if err != nil {
		return nil, err
	}
	row, err := schema.Compile("report.v1#storeRow", alone)
	if err != nil {
		return nil, err
	}
	html, err := page.New()
	if err != nil {
		return nil, err
	}
	return &Reporter{whole: whole, row: row, page: html}, nil
}

// Formats lists the formats in the order in which they are to be written.
func (r *Reporter) Formats() []protocol.FileFormat {
	return []protocol.FileFormat{
		{Ext: "json", MediaType: "application/json", Rules: jsonRules},
		{Ext: "csv", MediaType: "text/csv; charset=utf-8", Rules: csvRules},
		{Ext: "html", MediaType: "text/html; charset=utf-8", Rules: page.Rules},
		{Ext: "xlsx", MediaType: "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", Rules: workbook.Rules},
	}
}

// Write writes the report in the format with the ending ext to w. It fails for
// an unknown format, an unreadable row, and whatever w fails with.
func (r *Reporter) Write(w io.Writer, ext string, head protocol.ReportHead, rows Rows) error {
	switch ext {
	case "json":
		return JSON(w, head, rows)
	case "csv":
		return CSV(w, head, rows)
	case "html":
		return r.page.Write(w, head, rows)
	case "xlsx":
		return workbook.Write(w, head, rows)
	}
	return fmt.Errorf("cannot write a report as %q: no such format", ext)
}

// WriteIndex writes the page that lists the newest revision of each run to w, in the
// order in which they come. at is the moment that it speaks of, in headquarters' zone.
func (r *Reporter) WriteIndex(w io.Writer, at time.Time, runs []protocol.Listed) error {
	return r.page.Index(w, at, runs)
}

// Build completes the head of a revision: head holds what the run and the
// revision know, and Build adds Schema, Supersedes, Counts, Rates, Verdict,
// Text, Totals and Changes. previous holds the rows of the revision before, nil for
// revision 1.
func (r *Reporter) Build(head protocol.ReportHead, rows, previous Rows) (protocol.ReportHead, error) {
	head.Schema = protocol.ReportSchema
	head.Supersedes = nil
	if head.Revision > 1 {
		before := head.Revision - 1
		head.Supersedes = &before
	}
	head.Counts = protocol.Counts{}
	head.Changes = []protocol.Change{}
	if head.Columns == nil {
		head.Columns = []protocol.Column{}
	}
	next, stop := pull(previous)
	defer stop()
	var now, old line.Reader
	read, sums := now.Verdict, totals.New(&head)
	if sums != nil {
		read = now.Read
	}
	for raw, err := range rows {
		if err != nil {
			return head, fmt.Errorf("cannot build report %s r%d: %w", head.RunID, head.Revision, err)
		}
		row, err := read(raw)
		var change *protocol.Change
		if err == nil && next != nil {
			change, err = compare(raw, row, &old, next)
		}
		if err != nil {
			return head, fmt.Errorf("cannot build report %s r%d: %w", head.RunID, head.Revision, err)
		}
		head.Counts.Add(row.Outcome)
		if sums != nil {
			sums.Add(row)
		}
		if change != nil {
			head.Changes = append(head.Changes, *change)
		}
	}
	head.Totals = sums.All()
	head.Rates = ratesOf(head.Counts, head.Targets)
	head.Verdict = verdictOf(head.Counts, head.Targets, head.Quorum)
	head.Text, head.TextZh = words.Sentence(head)
	return head, nil
}

func pull(rows Rows) (next func() (json.RawMessage, error, bool), stop func()) {
	if rows == nil {
		return nil, func() {}
	}
	return iter.Pull2(rows)
}

// compare looks at the row in the same place of the revision before: targets are
// frozen, so both hold the same stores in the same order. It returns nil when both
// say the same.
func compare(raw json.RawMessage, row *protocol.StoreRow, old *line.Reader, next func() (json.RawMessage, error, bool)) (*protocol.Change, error) {
	before, err, ok := next()
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot read the revision before: %w", err)
	case !ok:
		return nil, fmt.Errorf("store %s is not in the revision before", row.StoreID)
	case bytes.Equal(raw, before):
		return nil, nil
	}
	was, err := old.Verdict(before)
	if err != nil {
		return nil, fmt.Errorf("cannot read the revision before: %w", err)
	}
	if was.StoreID != row.StoreID {
		return nil, fmt.Errorf("store %s stands where the revision before has %s", row.StoreID, was.StoreID)
	}
	return &protocol.Change{StoreID: kept(row.StoreID), From: kept(was.Outcome), FromReason: kept(was.Reason),
		To: kept(row.Outcome), ToReason: kept(row.Reason)}, nil
}

// kept is a word of a row on its own, which does not keep the whole row in memory.
func kept[T ~string](word T) T { return T(strings.Clone(string(word))) }

func ratesOf(c protocol.Counts, targets int) protocol.Rates {
	answered := c.Succeeded + c.Failed
	return protocol.Rates{
		Succeeded:           words.Share(c.Succeeded, targets),
		Answered:            words.Share(answered, targets),
		SucceededOfAnswered: words.Share(c.Succeeded, answered),
	}
}

func verdictOf(c protocol.Counts, targets int, quorum float64) protocol.Verdict {
	switch {
	case c.Succeeded == targets:
		return protocol.VerdictComplete
	case float64(c.Succeeded) < quorum*float64(targets):
		return protocol.VerdictBelowQuorum
	}
	return protocol.VerdictPartial
}
