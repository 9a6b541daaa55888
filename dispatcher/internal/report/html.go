package report

import (
	"bufio"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"strings"
	"time"

	"muster/internal/protocol"
	"muster/internal/task"
)

const (
	htmlRules = "HTML, one file that loads nothing and runs no script; control characters and direction marks are shown as [U+202E], times in headquarters' zone. " +
		"Above 10,000 stores evidence stands only beside stores that did not succeed, and beside 10,000 of them at most; the other files have all"

	// groupShown bounds the stores named beside one cause; the table has all.
	groupShown = 50
	// changesShown bounds the changes on the page; the JSON file has all.
	changesShown = 1000
	// valueShown bounds one value in the table, in characters; the JSON file
	// has the whole.
	valueShown = 500
)

//go:embed page.css
var pageStyle string

//go:embed page.html.tmpl
var pageSource string

// page is the parsed page.
type page struct{ templates *template.Template }

func newPage() (*page, error) {
	style := strings.TrimSpace(pageStyle)
	sum := sha256.Sum256([]byte(style))
	source := strings.NewReplacer(
		"STYLE_HASH", base64.StdEncoding.EncodeToString(sum[:]),
		"STYLE_TEXT", style,
	).Replace(pageSource)
	templates, err := template.New("page").Parse(source)
	if err != nil {
		return nil, fmt.Errorf("cannot parse the report page: %w", err)
	}
	return &page{templates: templates}, nil
}

// HTML writes the report for reading. It reads the rows twice: what is missing
// stands before the table of all.
func (r *Reporter) HTML(w io.Writer, head protocol.ReportHead, rows Rows) error {
	groups, err := missing(rows)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	table := pageTable{templates: r.page.templates, head: headView(head, groups), out: out, zone: head.AsOf.Location(), large: head.Targets > largeAbove}
	if err := r.writePage(&table, rows); err != nil {
		return fmt.Errorf("cannot write a report as HTML: %w", err)
	}
	if err := out.Flush(); err != nil { // bufio keeps the first error
		return fmt.Errorf("cannot write a report as HTML: %w", err)
	}
	return nil
}

func (r *Reporter) writePage(table *pageTable, rows Rows) error {
	if err := errors.Join(table.template("head", table.head), table.begin()); err != nil {
		return err
	}
	var in rowReader
	for raw, err := range rows {
		if err != nil {
			return err
		}
		row, err := in.read(raw)
		if err != nil {
			return err
		}
		if err := table.row(row); err != nil {
			return err
		}
	}
	table.end()
	return table.template("tail", nil)
}

// group is every missing store of one cause.
type group struct {
	Outcome words
	Reason  words
	Code    task.Reason
	Count   int
	Stores  []named
	More    int
}

type named struct{ ID, Name string }

// missing groups the stores that did not succeed by cause, in the order of the
// outcomes and their reasons.
func missing(rows Rows) ([]*group, error) {
	type cause struct {
		outcome task.Outcome
		reason  task.Reason
	}
	found := map[cause]*group{}
	var in rowReader
	for raw, err := range rows {
		if err != nil {
			return nil, err
		}
		row, err := in.verdict(raw)
		if err != nil {
			return nil, err
		}
		if row.Outcome == task.OutcomeSucceeded {
			continue
		}
		g := found[cause{row.Outcome, row.Reason}]
		if g == nil {
			g = &group{Outcome: outcomeWords(row.Outcome), Reason: reasonWords(row.Reason), Code: row.Reason}
			found[cause{row.Outcome, row.Reason}] = g
		}
		g.Count++
		if len(g.Stores) < groupShown {
			g.Stores = append(g.Stores, named{visible(row.StoreID), visible(row.Name)})
		}
		g.More = g.Count - len(g.Stores)
	}
	var list []*group
	for _, outcome := range task.Outcomes() {
		for _, reason := range outcome.Reasons() {
			if g := found[cause{outcome, reason}]; g != nil {
				list = append(list, g)
			}
		}
	}
	return list, nil
}

type headModel struct {
	Head                                 protocol.ReportHead
	Buckets                              []bucketModel
	All, Succeeded, Answered, OfAnswered string
	Groups                               []*group
	Changes                              []changeModel
	MoreChanges                          int
	Before                               int
	Why                                  words
	RequestedBy, ApprovedBy              string
	Reason, Input                        string
	CreatedAt, BarrierAt, AsOf           string
	Columns                              []words
	FullShown                            int // rows with evidence on a large page, else 0
}

type bucketModel struct {
	Words words
	Count int
	Share string
}

type changeModel struct {
	StoreID              string
	From, To             words
	FromReason, ToReason task.Reason
}

func headView(head protocol.ReportHead, groups []*group) headModel {
	m := headModel{
		Head: head, Groups: groups, Before: head.Revision - 1, Why: whyWords(head.RevisionWhy),
		All:         percent(share(head.Counts.Sum(), head.Targets)),
		Succeeded:   percent(head.Rates.Succeeded),
		Answered:    percent(head.Rates.Answered),
		OfAnswered:  percent(head.Rates.SucceededOfAnswered),
		RequestedBy: visible(head.RequestedBy),
		ApprovedBy:  visible(head.ApprovedBy),
		Reason:      visible(head.Reason),
		Input:       visible(string(head.Input)),
		CreatedAt:   moment(head.CreatedAt, head.AsOf.Location()),
		BarrierAt:   moment(head.BarrierAt, head.AsOf.Location()),
		AsOf:        moment(head.AsOf, head.AsOf.Location()),
	}
	if head.Targets > largeAbove {
		m.FullShown = fullShown
	}
	for _, b := range buckets(head.Counts) {
		m.Buckets = append(m.Buckets, bucketModel{outcomeWords(b.Outcome), b.Count, percent(share(b.Count, head.Targets))})
	}
	for i, c := range head.Changes {
		if i == changesShown {
			m.MoreChanges = len(head.Changes) - changesShown
			break
		}
		m.Changes = append(m.Changes, changeModel{visible(c.StoreID), outcomeWords(c.From), outcomeWords(c.To), c.FromReason, c.ToReason})
	}
	for _, c := range head.Columns {
		unit := ""
		if c.Unit != "" {
			unit = " (" + c.Unit + ")"
		}
		m.Columns = append(m.Columns, words{visible(c.TitleZh + unit), visible(c.Title + unit)})
	}
	return m
}

func yesNo(b bool) string {
	if b {
		return "是 yes"
	}
	return "否 no"
}

// moment shows a time in headquarters' zone, and a dash for none.
func moment(t protocol.Time, zone *time.Location) string {
	if t.IsZero() {
		return "–"
	}
	return t.In(zone).Format("2006-01-02 15:04:05")
}

func shorten(s string) string {
	if len(s) <= valueShown {
		return s
	}
	runes := []rune(s)
	if len(runes) <= valueShown {
		return s
	}
	return string(runes[:valueShown]) + " … [" + strconv.Itoa(len(runes)) + "]"
}
