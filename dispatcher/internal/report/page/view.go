package page

import (
	"fmt"
	"strings"
	"time"

	"muster/dispatcher/internal/report/line"
	"muster/dispatcher/internal/report/words"
	"muster/internal/protocol"
	"muster/internal/task"
)

// changesShown bounds the changes on the page; the JSON file has all.
const changesShown = 1000

// model is what the page shows above the rows.
type model struct {
	Head                                 protocol.ReportHead
	Verdict                              words.Pair
	Buckets                              []bucket
	All, Succeeded, Answered, OfAnswered string
	Quorum                               string
	Groups                               []missing
	Regions                              []*region
	Tiles                                bool
	Changes                              []change
	MoreChanges                          int
	Before                               int
	Why                                  words.Pair
	RequestedBy, ApprovedBy              string
	Reason, Input                        string
	CreatedAt, BarrierAt, AsOf           string
	Skew                                 words.Pair
	Previous                             words.Pair
	Chart                                chart
	Columns                              []column
	Totals                               []total
	FullShown                            int // rows with evidence on a large page, else 0
}

type bucket struct {
	Code  task.Outcome
	Words words.Pair
	Count int
	Share string
	segment
}

// segment is a part of a bar of 100.
type segment struct {
	Class    string
	From, To string
}

// column is one of the job's own.
type column struct {
	Title words.Pair
	Type  protocol.ColumnType
}

type missing struct {
	*group
	Words, Reason, Advice words.Pair
	More                  int
}

type change struct {
	StoreID              string
	From, To             task.Outcome
	FromWords, ToWords   words.Pair
	FromReason, ToReason words.Pair
}

func view(head *protocol.ReportHead, found *survey) model {
	zone := head.AsOf.Location()
	m := model{
		Head: *head, Verdict: words.Verdict(head.Verdict), Before: head.Revision - 1, Why: words.Why(head.RevisionWhy),
		All:         words.Percent(words.Share(head.Counts.Sum(), head.Targets)),
		Succeeded:   words.Percent(head.Rates.Succeeded),
		Answered:    words.Percent(head.Rates.Answered),
		OfAnswered:  words.Percent(head.Rates.SucceededOfAnswered),
		Quorum:      words.Percent(&head.Quorum),
		Regions:     found.regions,
		Tiles:       head.Targets <= tilesAbove,
		RequestedBy: words.Visible(head.RequestedBy),
		ApprovedBy:  words.Visible(head.ApprovedBy),
		Reason:      words.Visible(head.Reason),
		Input:       words.Visible(string(head.Input)),
		CreatedAt:   moment(head.CreatedAt, zone),
		BarrierAt:   moment(head.BarrierAt, zone),
		AsOf:        moment(head.AsOf, zone),
		Skew:        skewWords(found.skew),
		Previous:    previousWords(head, zone),
		Chart:       drawn(head, found.ms),
		Totals:      totalsOf(head),
	}
	if head.Targets > line.Many {
		m.FullShown = fullShown
	}
	done := 0
	for _, b := range words.Buckets(head.Counts) {
		m.Buckets = append(m.Buckets, bucket{b.Outcome, words.Outcome(b.Outcome), b.Count,
			words.Percent(words.Share(b.Count, head.Targets)), part100(b.Outcome, done, b.Count, head.Targets)})
		done += b.Count
	}
	for _, g := range found.groups {
		m.Groups = append(m.Groups, missing{g, words.Outcome(g.Outcome), words.Reason(g.Code), words.Advice(g.Code), g.Count - len(g.Stores)})
	}
	m.addChanges(head)
	for _, c := range head.Columns {
		title := words.ColumnTitle(&c)
		if c.Type == protocol.ColumnBytes { // its values stand there as plain numbers
			title = words.Of(title.Zh+" (B)", title.En+" (B)")
		}
		m.Columns = append(m.Columns, column{title, c.Type})
	}
	return m
}

func (m *model) addChanges(head *protocol.ReportHead) {
	for i := range head.Changes {
		if i == changesShown {
			m.MoreChanges = len(head.Changes) - changesShown
			return
		}
		c := &head.Changes[i]
		m.Changes = append(m.Changes, change{words.Visible(c.StoreID), c.From, c.To, words.Outcome(c.From), words.Outcome(c.To),
			words.Reason(c.FromReason), words.Reason(c.ToReason)})
	}
}

// Segments are a region's share of each outcome.
func (r *region) Segments() (list []bucket) {
	done := 0
	for _, b := range words.Buckets(r.Counts) {
		list = append(list, bucket{Code: b.Outcome, Words: words.Outcome(b.Outcome), Count: b.Count,
			segment: part100(b.Outcome, done, b.Count, r.Counts.Sum())})
		done += b.Count
	}
	return list
}

// Share is how many of a region succeeded.
func (r *region) Share() string {
	return words.Percent(words.Share(r.Counts.Succeeded, r.Counts.Sum()))
}

// Title is what stands beside a region without a name of its own.
func (r *region) Title() words.Pair {
	if r.Rest {
		return words.Pair{Zh: "其余地区", En: "all other regions"}
	}
	return words.NoRegion()
}

// Say is what a tile tells.
func (t tile) Say() string {
	w := words.Outcome(t.Outcome)
	return strings.TrimSpace(t.ID+" "+t.Name) + " · " + w.Zh + " " + w.En
}

func part100(outcome task.Outcome, before, count, of int) segment {
	at := func(n int) string { return fmt.Sprintf("%.3g", 100*float64(n)/float64(max(of, 1))) }
	return segment{string(outcome), at(before), at(count)}
}

// previousWords says what became better and worse since the job's run before.
func previousWords(head *protocol.ReportHead, zone *time.Location) words.Pair {
	p := head.Previous
	if p == nil {
		return words.Pair{Zh: "此作业之前没有报告", En: "the job has no report before this one"}
	}
	was, at := words.Percent(words.Share(p.Counts.Succeeded, p.Targets)), moment(p.AsOf, zone)
	said := words.Pair{
		Zh: fmt.Sprintf("成功率 %s（%s，%s 家中 %s 家）→ %s；新缺席 %s 家，恢复 %s 家", was, at, words.Count(p.Targets), words.Count(p.Counts.Succeeded),
			words.Percent(head.Rates.Succeeded), words.Count(p.NewlyMissing), words.Count(p.Recovered)),
		En: fmt.Sprintf("%s succeeded (%s, %s of %s) → %s; %s newly missing, %s recovered", was, at, words.Count(p.Counts.Succeeded), words.Count(p.Targets),
			words.Percent(head.Rates.Succeeded), words.Count(p.NewlyMissing), words.Count(p.Recovered))}
	if p.Common != p.Targets || p.Common != head.Targets {
		said.Zh += fmt.Sprintf("（两批共有 %s 家）", words.Count(p.Common))
		said.En += fmt.Sprintf(" (of %s in both)", words.Stores(p.Common))
	}
	return said
}

func skewWords(s skew) words.Pair {
	if s.measured == 0 {
		return words.Pair{Zh: "未测得", En: "not measured"}
	}
	worst := skewText(&s.worst)
	limit := fmt.Sprintf("%.0f s", skewNoted.Seconds())
	if s.off == 0 {
		return words.Pair{Zh: fmt.Sprintf("%s 家均在 %s 以内（最大 %s，%s）", words.Count(s.measured), limit, worst, s.store),
			En: fmt.Sprintf("all %s within %s (largest %s, %s)", words.Count(s.measured), limit, worst, s.store)}
	}
	return words.Pair{Zh: fmt.Sprintf("%s 家中 %s 家超过 %s（最大 %s，%s）", words.Count(s.measured), words.Count(s.off), limit, worst, s.store),
		En: fmt.Sprintf("%s of %s off by more than %s (largest %s, %s)", words.Count(s.off), words.Count(s.measured), limit, worst, s.store)}
}

// clone is a word of a row on its own, which does not keep the whole row in memory.
func clone[T ~string](word T) T { return T(strings.Clone(string(word))) }
