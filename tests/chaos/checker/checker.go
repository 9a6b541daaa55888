// Package checker judges whether Muster kept its promises: from what the
// participants wrote down, the report files, a copy of the database and what
// `dispatcher audit verify` said.
//
// Each rule stands in the file of its name; uploads.go belongs to budgets.go,
// outcomes.go, formats.go and workbook.go to reports.go, summaries.go to retained.go.
// book.go sorts the evidence, rows.go reads the database, weights.go counts what was
// judged.
//
// It knows the documents, the database's tables and nothing inside a program. It
// starts nothing, asks no clock and opens no file by itself.
package checker

import (
	"cmp"
	"slices"
	"time"

	"muster/tests/chaos/history"
)

// Rule names a promise. README.md says what each one proves.
type Rule string

// The rules; I1 to I12 are the invariants of the design.
const (
	Receipts   Rule = "I1"
	Moves      Rule = "I2"
	Executions Rule = "I3"
	Targets    Rule = "I4"
	Reports    Rule = "I5"
	Budgets    Rule = "I6"
	Barrier    Rule = "I7"
	Once       Rule = "I8"
	Cancelled  Rule = "I9"
	Offers     Rule = "I10"
	Walls      Rule = "I11"
	Settled    Rule = "I12"
	Retained   Rule = "retained"
	Flat       Rule = "flat"
	Invented   Rule = "invented"
	AuditChain Rule = "audit"
)

// Evidence is all that is judged. The histories must hold every agent's
// messages: what is not in them counts as not sent.
type Evidence struct {
	Root    string // of the topics; "": protocol.DefaultRoot
	History []history.Line
	Store   Store
	Earlier *Store            // an older copy of the database; nil: none
	Reports map[string][]byte // by path with slashes below the report folder
	Audit   *Audit            // nil: not looked at
	Limits  Limits
}

// Audit is what `dispatcher audit verify --json` printed, and its exit code.
type Audit struct {
	Exit   int
	Output []byte
}

// Limits is what was promised, and how sharp the observation is. Zero values
// take the defaults that stand beside them.
type Limits struct {
	MaxRunning      int     // cap on RUNNING; 0: not judged
	GrantsPerSecond float64 // 0: not judged
	GrantBurst      int     // of the bucket

	UploadsInFlight      int           // cap on large results on their way in; 0: not judged
	UploadBytesPerSecond int           // 0: not judged
	UploadBurstBytes     int           // of the bucket
	Slack                time.Duration // 50 ms: between a moment that headquarters notes and the act
	Barrier              time.Duration // 1 s: how far from the deadline a barrier may close
	Reoffer              time.Duration // 10 s: from a subscription after a fault to the offers
	Retained             time.Duration // 5 s: from what a run has come to, to what stands retained of it
	Settle               time.Duration // 60 s: from the last fault to the end of everything
	LargeAbove           int           // 5,000: targets; the summary of a run of more comes before all its files
	WarmUp               float64       // 0.2: share of a process's samples that is not judged
	MemoryMore           int64         // 16 MiB: what a process may have more at the end, beside a tenth
}

func (l Limits) filled() Limits {
	l.Slack = cmp.Or(l.Slack, 50*time.Millisecond)
	l.Barrier = cmp.Or(l.Barrier, time.Second)
	l.Reoffer = cmp.Or(l.Reoffer, 10*time.Second)
	l.Retained = cmp.Or(l.Retained, 5*time.Second)
	l.Settle = cmp.Or(l.Settle, time.Minute)
	l.LargeAbove = cmp.Or(l.LargeAbove, 5000)
	l.WarmUp = cmp.Or(l.WarmUp, 0.2)
	l.MemoryMore = cmp.Or(l.MemoryMore, 16<<20)
	return l
}

// Rules lists every rule once, in the order in which Check applies them.
func Rules() []Rule {
	var names []Rule
	for _, r := range law() {
		names = append(names, r.name)
	}
	return names
}

type rule struct {
	name  Rule
	check func(*book)
}

func law() []rule {
	return []rule{
		{Receipts, receipts}, {Moves, moves}, {Executions, executions}, {Targets, targets}, {Reports, reports},
		{Budgets, budgets}, {Barrier, barriers}, {Once, once}, {Cancelled, cancelled}, {Offers, offers},
		{Walls, walls}, {Settled, settled}, {Retained, retained}, {Flat, flat}, {Invented, invented}, {AuditChain, audit},
	}
}

// Check is Judge for who asks only what is broken.
func Check(e Evidence) ([]Finding, error) {
	v, err := Judge(e)
	return v.Findings, err
}

// Judge applies every rule and returns what is broken, in the order of the rules,
// and how much each rule had to judge; the same evidence gives the same verdict.
// It fails when the evidence itself cannot be read.
func Judge(e Evidence) (Verdict, error) {
	b, err := open(e)
	if err != nil {
		return Verdict{}, err
	}
	for _, r := range law() {
		b.rule = r.name
		from := len(b.found)
		r.check(b)
		slices.SortStableFunc(b.found[from:], func(a, c Finding) int {
			return cmp.Or(cmp.Compare(a.Run, c.Run), cmp.Compare(a.Task, c.Task), cmp.Compare(a.Attempt, c.Attempt),
				cmp.Compare(a.File, c.File))
		})
	}
	return Verdict{b.found, b.weights}, nil
}
