package page

import (
	"cmp"
	"encoding/json"
	"iter"
	"slices"
	"time"

	"muster/dispatcher/internal/report/line"
	"muster/dispatcher/internal/report/words"
	"muster/internal/protocol"
	"muster/internal/task"
)

const (
	// groupShown bounds the stores named beside one cause; the table has all.
	groupShown = 50
	// regionsShown bounds the regions; what is beyond is gathered in a last one.
	regionsShown = 60
	// tilesAbove is from how many stores on none has a tile of its own.
	tilesAbove = 600
)

// survey is what one look at all rows finds.
type survey struct {
	groups  []*group
	regions []*region
	arrivals
	skew skew
}

// group is every missing store of one cause.
type group struct {
	Outcome task.Outcome
	Code    task.Reason
	Count   int
	Stores  []named
}

type named struct{ ID, Name string }

// region is the stores that share the label.
type region struct {
	Name   string // "": without the label
	Counts protocol.Counts
	Rest   bool // gathers what is beyond regionsShown
	Tiles  []tile
}

type tile struct {
	ID, Name string
	Outcome  task.Outcome
}

// arrivals are when answers came, in milliseconds since the run was made.
type arrivals struct{ ms []int64 }

// skew is what was measured of the stores' clocks.
type skew struct {
	measured int
	off      int   // by more than skewNoted
	worst    int64 // ms
	store    string
}

// skewNoted is from which skew on a clock is worth a look: a store's own log then no
// longer fits headquarters' times.
const skewNoted = 5 * time.Second

type cause struct {
	outcome task.Outcome
	reason  task.Reason
}

func look(head *protocol.ReportHead, rows iter.Seq2[json.RawMessage, error]) (*survey, error) {
	s := &survey{}
	groups, regions := map[cause]*group{}, map[string]*region{}
	var in line.Reader
	for raw, err := range rows {
		if err != nil {
			return nil, err
		}
		row, err := in.Read(raw)
		if err != nil {
			return nil, err
		}
		if row.Outcome != task.OutcomeSucceeded {
			addMissing(groups, row)
		}
		addToRegion(regions, row, head.Targets <= tilesAbove)
		if answered := row.Outcome == task.OutcomeSucceeded || row.Outcome == task.OutcomeFailed; answered && !row.FinishedAt.IsZero() {
			s.ms = append(s.ms, row.FinishedAt.Sub(head.CreatedAt.Time).Milliseconds())
		}
		s.skew.add(row)
	}
	s.groups, s.regions = ordered(groups), byName(regions)
	slices.Sort(s.ms)
	return s, nil
}

func addMissing(groups map[cause]*group, row *protocol.StoreRow) {
	at := cause{clone(row.Outcome), clone(row.Reason)}
	g := groups[at]
	if g == nil {
		g = &group{Outcome: at.outcome, Code: at.reason}
		groups[at] = g
	}
	g.Count++
	if len(g.Stores) < groupShown {
		g.Stores = append(g.Stores, named{clone(words.Visible(row.StoreID)), clone(words.Visible(row.Name))})
	}
}

func addToRegion(regions map[string]*region, row *protocol.StoreRow, tiles bool) {
	name := words.Visible(row.Labels[words.RegionLabel])
	r := regions[name]
	if r == nil {
		if len(regions) >= regionsShown {
			name = rest
		} else {
			name = clone(name)
		}
		if r = regions[name]; r == nil {
			r = &region{Name: name, Rest: name == rest}
			regions[name] = r
		}
	}
	r.Counts.Add(row.Outcome)
	if tiles {
		r.Tiles = append(r.Tiles, tile{clone(words.Visible(row.StoreID)), clone(words.Visible(row.Name)), clone(row.Outcome)})
	}
}

// rest is the name of no region: a label that is shown never holds it.
const rest = "\x00"

func (s *skew) add(row *protocol.StoreRow) {
	ms := row.Evidence.ClockSkewMs
	if ms == nil {
		return
	}
	s.measured++
	if abs(*ms) > skewNoted.Milliseconds() {
		s.off++
	}
	if s.store == "" || abs(*ms) > abs(s.worst) {
		s.worst, s.store = *ms, clone(row.StoreID)
	}
}

func abs(n int64) int64 { return max(n, -n) }

// ordered is by the order of the outcomes and their reasons.
func ordered(groups map[cause]*group) (list []*group) {
	for _, outcome := range task.Outcomes() {
		for _, reason := range outcome.Reasons() {
			if g := groups[cause{outcome, reason}]; g != nil {
				list = append(list, g)
			}
		}
	}
	return list
}

// byName has the stores without the label, and the rest, last. It is empty when no
// store has the label.
func byName(regions map[string]*region) []*region {
	list := make([]*region, 0, len(regions))
	for _, r := range regions {
		list = append(list, r)
	}
	if len(list) == 1 && list[0].Name == "" {
		return nil
	}
	last := func(r *region) int {
		switch {
		case r.Rest:
			return 2
		case r.Name == "":
			return 1
		}
		return 0
	}
	slices.SortFunc(list, func(a, b *region) int { return cmp.Or(cmp.Compare(last(a), last(b)), cmp.Compare(a.Name, b.Name)) })
	return list
}
