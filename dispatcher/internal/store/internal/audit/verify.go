package audit

import (
	"context"
	"fmt"
	"time"

	"muster/dispatcher/internal/progress"
	"muster/dispatcher/internal/store/internal/sqlite"
)

// FaultKind tells what is wrong with a chain.
type FaultKind string

// The kinds of fault.
const (
	// FaultEdited: the entry is not what its hash was made of.
	FaultEdited FaultKind = "edited"
	// FaultRemoved: entries are missing in front of this one.
	FaultRemoved FaultKind = "removed"
	// FaultBroken: the entry does not hold the hash of the one before it.
	FaultBroken FaultKind = "broken"
	// FaultUnchained: the entry has no hash, and no seal covers it.
	FaultUnchained FaultKind = "unchained"
	// FaultRewritten: a head that was noted down names another hash or count, or
	// the chain was begun once more.
	FaultRewritten FaultKind = "rewritten"
	// FaultCut: entries are missing at the end.
	FaultCut FaultKind = "cut"
)

// Fault is one thing that is wrong. ID is the entry where it shows.
type Fault struct {
	Kind FaultKind
	ID   int64
	Text string
}

// maxFaults bounds the faults that a report lists: the first ones tell where
// somebody was at work, and a broken chain can have one an entry.
const maxFaults = 20

// Report says how a chain was found. It holds when Faults is empty.
type Report struct {
	Entries int64         // all, with those before the chain
	Sealed  int64         // of them older than the chain, covered by its first entry
	Head    Head          // where the chain ends
	Heads   int           // how many noted heads were compared
	Vouched int64         // up to which id one of them vouches
	Behind  time.Duration // from the first entry that none of them vouches for to the latest one
	Faults  []Fault
	Wrong   int64 // the number of faults, listed or not
}

// Verify walks the whole chain at the moment of q and compares it with heads
// that were noted down elsewhere.
func Verify(ctx context.Context, q sqlite.Querier, heads []Head) (Report, error) {
	v := verifier{heads: map[int64][]Head{}}
	for _, h := range heads {
		if h.ID > 0 {
			v.heads[h.ID] = append(v.heads[h.ID], h)
			v.report.Heads++
			v.report.Vouched = max(v.report.Vouched, h.ID)
		}
	}
	counted, err := sqlite.One(ctx, q, func(row sqlite.Row) (n int64, err error) {
		err = row.Scan(&n)
		return n, err
	}, `SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'audit'), 0)`)
	if err != nil {
		return Report{}, fmt.Errorf("cannot read the audit: %w", err)
	}
	for e, err := range sqlite.Stream(ctx, q, scanEntry, selectEntries) {
		progress.Say(ctx, "walks the audit", v.report.Entries, counted)
		if err == nil {
			err = v.take(e)
		}
		if err != nil {
			return Report{}, fmt.Errorf("cannot read the audit: %w", err)
		}
	}
	v.end(counted)
	return v.report, nil
}

type verifier struct {
	report Report
	heads  map[int64][]Head
	before older     // what has no hash in front of the chain
	began  bool      // the chain
	since  time.Time // of the first entry that no head vouches for
}

func (v *verifier) fault(kind FaultKind, id int64, format string, args ...any) {
	v.report.Wrong++
	if len(v.report.Faults) < maxFaults {
		v.report.Faults = append(v.report.Faults, Fault{kind, id, fmt.Sprintf(format, args...)})
	}
}

func (v *verifier) take(e chained) error {
	last := v.report.Head
	gap := e.ID != last.ID+1
	if gap {
		v.fault(FaultRemoved, e.ID, "%s missing before entry %d", span(last.ID+1, e.ID-1), e.ID)
	}
	v.report.Entries++
	v.report.Head = Head{ID: e.ID, Hash: e.hash, Count: v.report.Entries}
	v.date(e.Entry)
	err := v.check(e, last, gap)
	v.compare(v.report.Head) // also where there is no hash: a noted head has one
	return err
}

// check looks at one entry and the one before it.
func (v *verifier) check(e chained, last Head, gap bool) error {
	if e.hash == "" && e.prev == "" && !v.began {
		v.report.Sealed++
		return v.before.add(e.Entry)
	}
	hash, err := link(e.prev, e.Entry)
	if err != nil {
		return err
	}
	switch {
	case e.hash == "":
		v.fault(FaultUnchained, e.ID, "entry %d has no hash: it was put in by another hand, or its hash was taken away", e.ID)
	case e.hash != hash:
		v.fault(FaultEdited, e.ID, "entry %d was changed: its hash does not fit what it says", e.ID)
	case e.prev != last.Hash && !gap:
		v.fault(FaultBroken, e.ID, "entry %d does not follow entry %d: one of them was put in the other's place or written anew", e.ID, last.ID)
	case e.Action == sealing && (v.began || v.report.Sealed == 0):
		v.fault(FaultRewritten, e.ID, "entry %d begins the chain once more: only the first entry with a hash may, and only behind older ones", e.ID)
	case v.began || v.report.Sealed == 0:
	case e.Action != sealing:
		v.fault(FaultUnchained, e.ID, "entries 1 to %d have no hash, and entry %d does not seal them: their hashes were taken away", last.ID, e.ID)
	case e.Detail != v.before.sealed() || e.Actor != Headquarters:
		v.fault(FaultEdited, e.ID, "entries 1 to %d, which are older than the chain, are not those that entry %d sealed", last.ID, e.ID)
	}
	v.began = true
	return nil
}

// date measures what no head vouches for.
func (v *verifier) date(e Entry) {
	if e.ID <= v.report.Vouched {
		return
	}
	if v.since.IsZero() {
		v.since = e.At
	}
	v.report.Behind = max(v.report.Behind, e.At.Sub(v.since))
}

func (v *verifier) compare(at Head) {
	for _, noted := range v.heads[at.ID] {
		if noted != at {
			v.fault(FaultRewritten, at.ID, "entry %d is not the one that was noted down: the chain up to it was written anew", at.ID)
			return
		}
	}
}

// end looks behind the last entry.
func (v *verifier) end(counted int64) {
	last := v.report.Head.ID
	if !v.began && v.report.Sealed > 0 {
		v.fault(FaultUnchained, last, "none of the %d entries has a hash", v.report.Sealed)
	}
	switch {
	case v.report.Vouched > last:
		v.fault(FaultCut, v.report.Vouched, "%s missing at the end: entry %d was noted down, and the newest here is %d; "+
			"the end was cut off, or this is an older copy", span(last+1, v.report.Vouched), v.report.Vouched, last)
	case counted > last:
		v.fault(FaultCut, counted, "%s missing at the end: the database counted up to %d, and the newest here is %d", span(last+1, counted), counted, last)
	}
}

func span(from, to int64) string {
	if from >= to {
		return fmt.Sprintf("entry %d is", to)
	}
	return fmt.Sprintf("entries %d to %d are", from, to)
}

// List calls each with the entries since a time, of one actor unless that is
// empty, oldest first, until it returns an error.
func List(ctx context.Context, q sqlite.Querier, since int64, actor string, each func(Entry) error) error {
	for e, err := range sqlite.Stream(ctx, q, scanEntry, `SELECT `+entryColumns+` FROM audit WHERE at >= ? AND (? = '' OR actor = ?) ORDER BY id`, since, actor, actor) {
		if err == nil {
			err = each(e.Entry)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
