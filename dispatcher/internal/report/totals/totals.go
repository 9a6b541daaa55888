// Package totals adds up the values of a job's columns over the stores of a report.
//
// It is pure, and takes each row once. All that it says is exact. A run has at most 100,000
// stores, so that each value can be kept; of texts, which may be long, so many bytes a column
// are kept and beyond them it says that there are too many, and guesses nothing.
package totals

import (
	"encoding/json"
	"math/big"
	"slices"
	"strings"
	"time"

	"muster/internal/protocol"
)

const (
	// wrongShown bounds the stores named for a value of another type.
	wrongShown = 100
	// largestShown bounds the stores named for a large value.
	largestShown = 10
	// keptBytes bounds the different texts that are kept of one column.
	keptBytes = 16 << 20
)

// Totals adds up. Make it with New; it is for one goroutine at a time.
type Totals struct{ columns []*column }

// column adds up one column.
type column struct {
	protocol.Column
	index int
	zone  *time.Location // in which times are said

	ranks bool // names the stores with the largest values

	total   protocol.Total
	sum     big.Int // without what is in shorts
	shorts  int64
	min     value
	max     value
	largest []ranked
	seen    map[string]*seen // by value.key; nil: nothing asks for it, or they are too many
	short   map[int64]*seen  // short numbers
	bytes   int              // of its keys
}

// seen is a value and how many stores have it.
type seen struct {
	value
	stores int
}

// ranked is a store and its value.
type ranked struct {
	store string
	value
}

// New returns what adds up the columns of a report that have a type. It is nil when none
// has.
func New(head *protocol.ReportHead) *Totals {
	t := &Totals{}
	for i, c := range head.Columns {
		if c.Type == "" {
			continue
		}
		col := &column{Column: c, index: i, zone: head.AsOf.Location(),
			total: protocol.Total{Column: c.Name, Of: head.Targets, WrongTypeIDs: []string{}}}
		col.ranks = c.Type.Numeric() && col.asks(protocol.AggregateTop)
		if col.keeps() {
			col.seen, col.short = map[string]*seen{}, map[int64]*seen{}
		}
		t.columns = append(t.columns, col)
	}
	if len(t.columns) == 0 {
		return nil
	}
	return t
}

func (c *column) asks(one ...protocol.Aggregate) bool {
	return slices.ContainsFunc(c.Aggregate, func(a protocol.Aggregate) bool { return slices.Contains(one, a) })
}

// keeps reports whether each different value has to be kept.
func (c *column) keeps() bool {
	return c.asks(protocol.AggregateP50, protocol.AggregateP95, protocol.AggregateDistinct, protocol.AggregateCount, protocol.AggregateHistogram) ||
		c.asks(protocol.AggregateTop) && !c.Type.Numeric()
}

// Add takes the values of one row, which it does not keep.
func (t *Totals) Add(row *protocol.StoreRow) {
	for _, c := range t.columns {
		if c.index < len(row.Columns) {
			c.add(row.StoreID, row.Columns[c.index])
		}
	}
}

func (c *column) add(store string, raw json.RawMessage) {
	if len(raw) == 0 || string(raw) == "null" {
		return
	}
	v, ok := read(c.Type, raw)
	if !ok {
		c.total.WrongType++
		if len(c.total.WrongTypeIDs) < wrongShown {
			c.total.WrongTypeIDs = append(c.total.WrongTypeIDs, strings.Clone(store))
		}
		return
	}
	c.total.Stores++
	c.addUp(v)
	if c.total.Stores == 1 || v.less(c.min) {
		c.min = v
	}
	if c.total.Stores == 1 || c.max.less(v) {
		c.max = v
	}
	if c.ranks {
		c.rank(store, v)
	}
	c.keep(v)
}

func (c *column) addUp(v value) {
	const nearFull = 1 << 62 // one more short number, of 18 digits, still fits
	switch {
	case v.isShort:
		if c.shorts += v.short; c.shorts > nearFull || c.shorts < -nearFull {
			c.carry()
		}
	case v.n != nil:
		c.sum.Add(&c.sum, v.n)
	}
}

// carry moves the sum of the short numbers to that of all.
func (c *column) carry() {
	c.sum.Add(&c.sum, value{short: c.shorts, isShort: true}.units())
	c.shorts = 0
}

// rank keeps the stores with the largest values, of equal ones the first.
func (c *column) rank(store string, v value) {
	at := len(c.largest)
	for at > 0 && c.largest[at-1].less(v) {
		at--
	}
	if at == largestShown {
		return
	}
	c.largest = slices.Insert(c.largest, at, ranked{strings.Clone(store), v})
	c.largest = c.largest[:min(len(c.largest), largestShown)]
}

func (c *column) keep(v value) {
	if c.seen == nil {
		return
	}
	if v.isShort {
		if known := c.short[v.short]; known != nil {
			known.stores++
		} else {
			c.short[v.short] = &seen{v, 1}
		}
		return
	}
	if known := c.seen[v.key]; known != nil {
		known.stores++
		return
	}
	if c.bytes += len(v.key); c.bytes > keptBytes {
		c.seen, c.total.TooVaried = nil, true
		return
	}
	c.seen[v.key] = &seen{v, 1}
}
