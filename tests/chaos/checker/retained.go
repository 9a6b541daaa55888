package checker

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"muster/internal/protocol"
	"muster/internal/task"
	"muster/tests/chaos/history"
)

// retained: what stands retained of a run is what the database says, goes on as
// the run does and never back, and is there for whoever subscribes.
func retained(b *book) {
	told, looks := b.told()
	b.weigh("tellings", len(told))
	b.weigh("looks", len(looks))
	b.toldTruly(told)
	b.toldForward(told)
	for _, l := range looks {
		b.toldAtOnce(l)
	}
}

// reader is one participant with one history, and place a topic as it sees it.
type (
	reader struct{ file, who string }
	place  struct {
		reader
		topic string
	}
)

// telling is a state or a summary of a run, as a reader got it.
type telling struct {
	history.Line
	reader
	index   int // in the history
	begin   begin
	id, run string
	kind    protocol.RunKind
	summary protocol.Summary
	state   protocol.RunStateReport
	how     progress
}

// begin is where in the history a reader subscribed to a topic, for the first time
// and before what is looked at: by its name or by a wildcard. A history without
// subscriptions has one that begins with it.
type begin struct{ first, last int }

// look is a subscription to the one topic, and the last that was got by it.
type look struct {
	history.Line
	run  string
	kind protocol.RunKind
	got  *telling // nil: nothing
}

// progress is how far a run has come; no part of it ever gets less. A summary
// tells of the revision alone, and up to which one all files are there.
type progress struct{ revision, whole, phase, succeeded, cancelled int }

func (p progress) behind(q progress) bool { return p.further(q) != p }

func (p progress) further(q progress) progress {
	return progress{max(p.revision, q.revision), max(p.whole, q.whole), max(p.phase, q.phase), max(p.succeeded, q.succeeded), max(p.cancelled, q.cancelled)}
}

func (p progress) text(kind protocol.RunKind) string {
	text := fmt.Sprintf("revision %d", p.revision)
	if kind == protocol.RunSummary {
		if p.whole < p.revision {
			text += " with its first file"
		}
		return text
	}
	return fmt.Sprintf("%s, %s, %d succeeded, %d cancelled", phases[max(p.phase, 0)], text, p.succeeded, p.cancelled)
}

var phases = []protocol.Phase{protocol.PhaseCollecting, protocol.PhaseMakeup, protocol.PhaseClosed}

// told are the tellings in the order of the history, but for those to terminals,
// which are I11's, and the looks.
func (b *book) told() (all []telling, looks []*look) {
	begins, open := map[place]begin{}, map[place]*look{}
	for i, l := range b.History {
		key := reader{fileOf(l), l.Who}
		whole := place{reader: key}
		if _, known := begins[whole]; !known {
			begins[whole] = begin{i, i}
		}
		if l.Act == history.ActSubscribed {
			to := place{key, l.Topic}
			if strings.ContainsAny(l.Topic, "+#") {
				to = whole
			}
			if _, again := begins[to]; !again {
				begins[to] = begin{i, i}
			}
			begins[to] = begin{begins[to].first, i}
		}
		addr, ok := b.topics.Parse(l.Topic)
		if !ok || l.Role == history.RoleAgent || addr.RunKind != protocol.RunSummary && addr.RunKind != protocol.RunState {
			continue
		}
		at := place{key, l.Topic}
		switch l.Act {
		case history.ActSubscribed:
			open[at] = &look{Line: l, run: addr.Run, kind: addr.RunKind}
			looks = append(looks, open[at])
		case history.ActGot:
			t := telling{Line: l, reader: key, index: i, begin: begins[whole], run: addr.Run, kind: addr.RunKind}
			if by, named := begins[at]; named {
				t.begin = by
			}
			if !t.read() {
				continue
			}
			all = append(all, t)
			if open[at] != nil {
				open[at].got = &t
			}
		default:
		}
	}
	return all, looks
}

func (t *telling) read() bool {
	if t.kind == protocol.RunSummary {
		err := protocol.Decode([]byte(t.Payload), protocol.MaxPayloadBytes, &t.summary)
		t.id, t.how = t.summary.ID, progress{revision: t.summary.Revision, whole: t.summary.Revision}
		if firstFile(t.summary) {
			t.how.whole--
		}
		return err == nil && t.summary.RunID == t.run
	}
	err := protocol.Decode([]byte(t.Payload), protocol.MaxPayloadBytes, &t.state)
	s := t.state
	t.id, t.how = s.ID, progress{revision: s.Revision, phase: slices.Index(phases, s.Phase), succeeded: s.Tasks[task.Succeeded], cancelled: s.Tasks[task.Cancelled]}
	return err == nil && s.RunID == t.run
}

// toldTruly compares with the database, once a message. What is younger than the
// copy may be ahead of it.
func (b *book) toldTruly(told []telling) {
	seen := map[string]bool{}
	for _, t := range told {
		run, known := b.runs[t.run]
		young := t.AtMs > b.Store.TakenAt
		switch {
		case seen[t.id] || !known && young:
		case !known:
			b.broken(Finding{Run: t.run, Line: t.Source}, "its %s was told and the store has no such run", t.kind)
		case t.kind == protocol.RunSummary:
			b.summaryTold(t, run)
		default:
			b.stateTold(t, run, young)
		}
		seen[t.id] = true
	}
}

func (b *book) stateTold(t telling, run Run, young bool) {
	where := Finding{Run: t.run, Line: t.Source}
	tasks := 0
	for _, n := range t.state.Tasks {
		tasks += n
	}
	if t.state.Targets != run.Targets || tasks != len(b.ofRun[t.run]) || t.how.phase < 0 {
		b.broken(where, "its state speaks of %q, %d targets and %d tasks, the run has %d and %d",
			t.state.Phase, t.state.Targets, tasks, run.Targets, len(b.ofRun[t.run]))
		return
	}
	now := b.progressAt(run, math.MaxInt64)
	now.revision = run.Revision // whether it is published or not
	if now.behind(t.how) && !young {
		b.broken(where, "its state was %s, and the store has it later as %s", t.how.text(t.kind), now.text(t.kind))
	}
}

// progressAt is how far a run had come at a moment, by the database.
func (b *book) progressAt(run Run, at int64) (p progress) {
	was := func(moment int64) bool { return moment != 0 && moment <= at }
	switch {
	case was(run.EndedAt):
		p.phase = 2
	case was(run.ClosedAt):
		p.phase = 1
	}
	for _, rev := range b.Store.Revisions {
		if rev.RunID == run.RunID && was(rev.PublishedAt) {
			p.revision = max(p.revision, rev.Revision)
		}
	}
	for _, t := range b.ofRun[run.RunID] {
		switch {
		case !was(t.SettledAt):
		case t.Status == task.Succeeded:
			p.succeeded++
		case t.Status == task.Cancelled:
			p.cancelled++
		}
	}
	return p
}

// toldForward: what stands says no less than anybody had when it was subscribed to,
// and what is published then no less than the reader had. Only a retained message
// may be overtaken, by one that is published during the subscription. One finding
// a topic.
func (b *book) toldForward(told []telling) {
	type mark struct {
		index int
		progress
	}
	furthest := map[string][]mark{}                                              // topic
	own, seen, said := map[place]progress{}, map[place]bool{}, map[string]bool{} // seen: by id
	for _, t := range told {
		marks := furthest[t.Topic]
		before := func(begin int) (p progress) {
			if n := sort.Search(len(marks), func(i int) bool { return marks[i].index >= begin }); n > 0 {
				p = marks[n-1].progress
			}
			return p
		}
		at, it := place{t.reader, t.Topic}, place{t.reader, t.id}
		least := before(t.begin.last)
		if !t.Retained {
			least = own[at].further(before(t.begin.first))
		}
		if again := seen[it] && !t.Retained; !again && !said[t.Topic] && t.how.behind(least) {
			said[t.Topic] = true
			b.broken(Finding{Run: t.run, Line: t.Source}, "its %s went back to %s, after it was %s", t.kind, t.how.text(t.kind), least.text(t.kind))
		}
		own[at], seen[it] = own[at].further(t.how), true
		all := t.how
		if len(marks) > 0 {
			all = all.further(marks[len(marks)-1].progress)
		}
		furthest[t.Topic] = append(marks, mark{t.index, all})
	}
}

// toldAtOnce: who subscribes gets what was true Retained before.
func (b *book) toldAtOnce(l *look) {
	run, known := b.runs[l.run]
	before := l.AtMs - ms(b.limits.Retained)
	want := b.progressAt(run, before)
	if l.kind == protocol.RunSummary {
		want = progress{revision: want.revision, whole: want.revision}
	}
	where := Finding{Run: l.run, Line: l.Source}
	switch {
	case !known || run.CreatedAt > before || l.kind == protocol.RunSummary && want.revision == 0: // there need be nothing yet
	case l.got == nil && b.forgotten(run, l.kind, before):
	case l.got == nil:
		b.broken(where, "who subscribed to its %s at %s got nothing, and it was %s for %v or longer", l.kind, moment(l.AtMs), want.text(l.kind), b.limits.Retained)
	case l.got.how.behind(want):
		b.broken(where, "who subscribed to its %s at %s got %s, and it was %s for %v or longer", l.kind, moment(l.AtMs), l.got.how.text(l.kind), want.text(l.kind), b.limits.Retained)
	}
}

// forgotten: it was lost with the broker. Headquarters says again what is open and,
// within a bound, what is over: when it starts, and when it finds a broker that was
// away.
func (b *book) forgotten(run Run, kind protocol.RunKind, before int64) bool {
	last := run.EndedAt
	for _, rev := range b.Store.Revisions {
		if rev.RunID == run.RunID && rev.PublishedAt <= before && kind == protocol.RunSummary {
			last = max(last, rev.PublishedAt)
		}
	}
	return slices.ContainsFunc(b.faults, func(f fault) bool {
		if f.end == 0 {
			f.end = b.Store.TakenAt
		}
		return (f.name == faultDispatcher || f.name == faultBroker) && run.EndedAt != 0 && last <= f.end
	})
}
