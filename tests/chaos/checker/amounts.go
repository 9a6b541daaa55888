package checker

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/internal/protocol"
)

// amount is one thing that a report says of the values of a column: what, and the value as
// people read it, moments as headquarters' wall clock.
type amount struct {
	column       int // which of the job's
	about, value string
}

// What a report says of a column, by the words of the workbook where there is one for all.
const (
	aboutCoverage = "stores with a value"
	aboutValue    = "stores with the value "
	aboutOthers   = "other values, stores"
	aboutLargest  = "most at "
	aboutWrong    = "of another type"
	aboutWrongID  = "of another type at"
)

// bin is a span of a histogram: stores with a value of at least from and less than to.
type bin struct {
	from, to string
	stores   int
}

// amounts are what a report says of all columns that have a type.
type amounts struct {
	said   []amount
	bins   map[int][]bin
	rounds bool // means have two decimals
}

func (a *amounts) say(column int, about, value string) {
	a.said = append(a.said, amount{column, about, value})
}

// typedColumns says which of the job's columns have a type, by their place.
func typedColumns(columns []protocol.Column) (list []int) {
	for i, c := range columns {
		if c.Type != "" {
			list = append(list, i)
		}
	}
	return list
}

// sum is what the rows of one column amount to.
type sum struct {
	column  protocol.Column
	zone    *time.Location
	targets int
	values  []columnValue // in order of value
	wrong   []string      // stores with a value of another type
}

// columnValue is a value of the type of its column.
type columnValue struct {
	store string
	text  string   // canonical
	n     *big.Rat // of numbers
}

func (v columnValue) compare(w columnValue) int {
	if v.n != nil && w.n != nil {
		return v.n.Cmp(w.n)
	}
	return cmp.Compare(v.text, w.text)
}

const (
	// decimals of a number count.
	decimals = 12
	// tooLarge is what no number of a column may reach.
	tooLarge = 1e18
)

// canonical is a value as people read it, and false for one of another type than its
// column's.
func canonical(of protocol.ColumnType, raw json.RawMessage, zone *time.Location) (columnValue, bool) {
	var text string
	quoted := json.Unmarshal(raw, &text) == nil
	if !quoted {
		text = string(raw)
	}
	switch {
	case of.Numeric():
		size, err := strconv.ParseFloat(text, 64)
		if quoted || err != nil || math.Abs(size) >= tooLarge { // whatever its exponent is
			return columnValue{}, false
		}
		exact, ok := new(big.Rat).SetString(text)
		if !ok || (of == protocol.ColumnInteger || of == protocol.ColumnBytes) && !exact.IsInt() || of == protocol.ColumnBytes && exact.Sign() < 0 {
			return columnValue{}, false
		}
		n, _ := new(big.Rat).SetString(exact.FloatString(decimals)) // which is a number
		return columnValue{text: plain(n, decimals), n: n}, true
	case of == protocol.ColumnBool:
		return columnValue{text: text}, !quoted && (text == "true" || text == "false")
	case of == protocol.ColumnDate:
		_, err := time.Parse(time.DateOnly, text)
		return columnValue{text: text}, quoted && err == nil
	case of == protocol.ColumnTime:
		at, err := time.Parse(time.RFC3339, text)
		return columnValue{text: at.In(zone).Format(wallClock)}, quoted && err == nil
	}
	return columnValue{text: text}, quoted
}

// wallClock is a moment by headquarters' clock.
const wallClock = "2006-01-02 15:04:05.000"

// plain writes a number with so many decimals at most.
func plain(n *big.Rat, decimals int) string {
	text := strings.TrimRight(n.FloatString(decimals), "0")
	if text = strings.TrimSuffix(text, "."); text == "-0" {
		return "0"
	}
	return text
}

// sums adds up the columns of a revision by itself.
func (b *book) sums(rev Revision, zone *time.Location) map[int]*sum {
	run, rows := b.runs[rev.RunID], b.judged(rev.RunID, rev.Revision)
	all := map[int]*sum{}
	for _, i := range typedColumns(run.Columns) {
		all[i] = &sum{column: run.Columns[i], zone: zone, targets: run.Targets}
	}
	if len(all) == 0 {
		return nil
	}
	for _, id := range sorted(rows) {
		row := rows[id].row()
		for i, s := range all {
			if i >= len(row.Columns) || string(row.Columns[i]) == "null" {
				continue
			}
			v, ok := canonical(s.column.Type, row.Columns[i], zone)
			if v.store = id; ok {
				s.values = append(s.values, v)
			} else {
				s.wrong = append(s.wrong, id)
			}
		}
	}
	for _, s := range all {
		slices.SortStableFunc(s.values, columnValue.compare)
	}
	return all
}

// How many of each a report names.
const (
	shownFrequent = 10
	shownCounted  = 50
	shownWrong    = 100
	shownLargest  = 10
)

// into says what the column amounts to, as far as the job asks for it.
func (s *sum) into(a *amounts, i int) {
	a.say(i, aboutCoverage, fmt.Sprintf("%d of %d", len(s.values), s.targets))
	if len(s.wrong) > 0 {
		a.say(i, aboutWrong, strconv.Itoa(len(s.wrong)))
	}
	for _, id := range s.wrong[:min(len(s.wrong), shownWrong)] {
		a.say(i, aboutWrongID, id)
	}
	if len(s.values) == 0 {
		return
	}
	total := new(big.Rat)
	for _, v := range s.values {
		if v.n != nil {
			total.Add(total, v.n)
		}
	}
	rank := func(percent int) string { return s.values[(len(s.values)*percent+99)/100-1].text }
	mean := new(big.Rat).Quo(total, big.NewRat(int64(len(s.values)), 1))
	for asked, value := range map[protocol.Aggregate]string{
		protocol.AggregateSum: plain(total, decimals), protocol.AggregateMean: plain(mean, decimals/2),
		protocol.AggregateMin: s.values[0].text, protocol.AggregateMax: s.values[len(s.values)-1].text,
		protocol.AggregateP50: rank(50), protocol.AggregateP95: rank(95),
	} {
		if slices.Contains(s.column.Aggregate, asked) {
			a.say(i, string(asked), value)
		}
	}
	s.spread(a, i)
}

// spread says what needs all different values.
func (s *sum) spread(a *amounts, i int) {
	asks := func(g protocol.Aggregate) bool { return slices.Contains(s.column.Aggregate, g) }
	numeric := s.column.Type.Numeric()
	stores := map[string]int{}
	var different []columnValue
	for _, v := range s.values {
		if stores[v.text]++; stores[v.text] == 1 {
			different = append(different, v)
		}
	}
	if asks(protocol.AggregateDistinct) {
		a.say(i, string(protocol.AggregateDistinct), strconv.Itoa(len(different)))
	}
	if numeric && asks(protocol.AggregateTop) {
		largest := slices.Clone(s.values)
		slices.SortStableFunc(largest, func(v, w columnValue) int { return cmp.Or(w.compare(v), cmp.Compare(v.store, w.store)) })
		for _, v := range largest[:min(len(largest), shownLargest)] {
			a.say(i, aboutLargest+v.store, v.text)
		}
	}
	shown := 0
	if asks(protocol.AggregateCount) {
		shown = shownCounted
	} else if asks(protocol.AggregateTop) && !numeric {
		shown = shownFrequent
	}
	if shown == 0 {
		return
	}
	slices.SortStableFunc(different, func(v, w columnValue) int { return stores[w.text] - stores[v.text] })
	rest, of := 0, 0
	for n, v := range different {
		if n < shown {
			a.say(i, aboutValue+v.text, strconv.Itoa(stores[v.text]))
			continue
		}
		rest++
		of += stores[v.text]
	}
	if rest > 0 {
		a.say(i, aboutOthers, fmt.Sprintf("%d, %d", rest, of))
	}
}

// compareAmounts: what a file says of the job's columns is what the rows amount to.
func (b *book) compareAmounts(said *amounts, where Finding, sums map[int]*sum) {
	if said == nil || sums == nil {
		return
	}
	b.weigh("totals", 1)
	var want amounts
	for _, i := range slices.Sorted(maps.Keys(sums)) {
		sums[i].into(&want, i)
		b.compareBins(said.bins[i], where, sums[i])
	}
	if said.rounds {
		for i := range want.said {
			want.said[i].value = said.rounded(want.said[i])
		}
	}
	for _, extra := range without(said.said, want.said) {
		b.broken(where, "of column %s it says %s: %s, and the rows do not amount to that", sumName(sums, extra.column), clip(extra.about), clip(extra.value))
	}
	for _, lack := range without(want.said, said.said) {
		b.broken(where, "of column %s it lacks %s: %s", sumName(sums, lack.column), clip(lack.about), clip(lack.value))
	}
}

// rounded is a mean as the file says it, if that is the mean to two decimals.
func (a *amounts) rounded(mean amount) string {
	exact, err := strconv.ParseFloat(mean.value, 64)
	if mean.about != string(protocol.AggregateMean) || err != nil || math.Abs(exact) < 1 {
		return mean.value
	}
	const half = 0.005 + 1e-9
	for _, s := range a.said {
		near, err := strconv.ParseFloat(s.value, 64)
		_, fraction, _ := strings.Cut(s.value, ".")
		if s.column == mean.column && s.about == mean.about && err == nil && len(fraction) <= 2 && math.Abs(near-exact) <= half {
			return s.value
		}
	}
	return mean.value
}

func sumName(sums map[int]*sum, column int) string {
	if s := sums[column]; s != nil {
		return s.column.Name
	}
	return strconv.Itoa(column)
}

func without(list, others []amount) []amount {
	there := map[amount]int{}
	for _, o := range others {
		there[o]++
	}
	return slices.DeleteFunc(slices.Clone(list), func(a amount) bool {
		there[a]--
		return there[a] >= 0 || !shownAsItIs(a.about+a.value) || len(a.about+a.value) > shortened
	})
}

// shortened is how long a text may be for every format to show it whole.
const shortened = 400

// compareBins: the spans of a histogram follow each other, and count every value once.
func (b *book) compareBins(bins []bin, where Finding, s *sum) {
	asked := slices.Contains(s.column.Aggregate, protocol.AggregateHistogram) && len(s.values) > 0
	if !asked && len(bins) == 0 {
		return
	}
	counted, before := 0, ""
	for _, span := range bins {
		from, ok := new(big.Rat).SetString(span.from)
		to, ok2 := new(big.Rat).SetString(span.to)
		if !ok || !ok2 || before != "" && before != span.from {
			b.broken(where, "of column %s its histogram has a span from %q to %q after %q", s.column.Name, span.from, span.to, before)
			return
		}
		stores := 0
		for _, v := range s.values {
			if v.n.Cmp(from) >= 0 && v.n.Cmp(to) < 0 {
				stores++
			}
		}
		if stores != span.stores {
			b.broken(where, "of column %s its histogram has %d stores from %s to %s, the rows have %d", s.column.Name, span.stores, span.from, span.to, stores)
		}
		counted, before = counted+stores, span.to
	}
	if counted != len(s.values) {
		b.broken(where, "of column %s its histogram has %d of %d values", s.column.Name, counted, len(s.values))
	}
}
