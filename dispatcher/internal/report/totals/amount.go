package totals

import (
	"cmp"
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"time"

	"muster/internal/protocol"
)

const (
	// topShown and countShown bound the values that are listed.
	topShown   = 10
	countShown = 50
	// spansShown bounds the spans of a histogram.
	spansShown = 10
	// meanDropped is how many of the decimals a mean does without.
	meanDropped = 6
)

// All is what the rows amounted to, one total a column with a type.
func (t *Totals) All() []protocol.Total {
	if t == nil {
		return nil
	}
	list := make([]protocol.Total, 0, len(t.columns))
	for _, c := range t.columns {
		list = append(list, c.amount())
	}
	return list
}

func (c *column) amount() protocol.Total {
	total := c.total
	c.carry()
	if total.Stores == 0 {
		return total
	}
	if c.asks(protocol.AggregateSum) {
		total.Sum = said(&c.sum)
	}
	if c.asks(protocol.AggregateMean) {
		coarse := new(big.Int).Exp(big.NewInt(10), big.NewInt(meanDropped), nil)
		mean := rounded(&c.sum, new(big.Int).Mul(coarse, big.NewInt(int64(total.Stores))))
		total.Mean = said(mean.Mul(mean, coarse))
	}
	if c.asks(protocol.AggregateMin) {
		total.Min = c.say(c.min)
	}
	if c.asks(protocol.AggregateMax) {
		total.Max = c.say(c.max)
	}
	for _, r := range c.largest {
		total.Largest = append(total.Largest, protocol.StoreValue{StoreID: r.store, Value: c.say(r.value)})
	}
	if c.seen != nil {
		c.spread(&total)
	}
	return total
}

// spread tells what needs all different values.
func (c *column) spread(total *protocol.Total) {
	all := slices.AppendSeq(slices.Collect(maps.Values(c.seen)), maps.Values(c.short))
	slices.SortFunc(all, func(a, b *seen) int { return a.compare(b.value) })
	if c.asks(protocol.AggregateP50) {
		total.P50 = c.say(ranking(all, total.Stores, 50))
	}
	if c.asks(protocol.AggregateP95) {
		total.P95 = c.say(ranking(all, total.Stores, 95))
	}
	if c.asks(protocol.AggregateHistogram) {
		total.Histogram = histogram(all, c.Type != protocol.ColumnNumber && c.Type != protocol.ColumnDuration)
	}
	if c.asks(protocol.AggregateDistinct) {
		total.Distinct = len(all)
	}
	shown := topShown
	if c.asks(protocol.AggregateCount) {
		shown = countShown
	} else if !c.asks(protocol.AggregateTop) || c.Type.Numeric() {
		return
	}
	slices.SortStableFunc(all, func(a, b *seen) int { return cmp.Compare(b.stores, a.stores) })
	for i, s := range all {
		if i < shown {
			total.Values = append(total.Values, protocol.ValueCount{Value: c.say(s.value), Stores: s.stores})
			continue
		}
		total.OtherValues++
		total.OtherStores += s.stores
	}
}

// ranking is the value that so many per cent of the stores do not exceed (nearest rank).
func ranking(all []*seen, stores, percent int) value {
	const whole = 100
	rank := (stores*percent + whole - 1) / whole
	for _, s := range all {
		if rank -= s.stores; rank <= 0 {
			return s.value
		}
	}
	return all[len(all)-1].value
}

// histogram parts the values, which are in their order, at multiples of 1, 2 or 5 times a
// power of ten, of integers at integers.
func histogram(all []*seen, whole bool) []protocol.Bin {
	first, last := all[0].units(), all[len(all)-1].units()
	step := big.NewInt(1)
	if whole || first.Cmp(last) == 0 {
		step = units
	}
	place := func(n *big.Int) *big.Int { return new(big.Int).Div(n, step) } // rounds down, as step > 0
	for next := 0; place(last).Cmp(new(big.Int).Add(place(first), big.NewInt(spansShown))) >= 0; next++ {
		ratio := [...][2]int64{{2, 1}, {5, 2}, {2, 1}}[next%3] // 1, 2, 5, 10
		step = new(big.Int).Quo(new(big.Int).Mul(step, big.NewInt(ratio[0])), big.NewInt(ratio[1]))
	}
	from := place(first)
	index := func(n *big.Int) int64 { return new(big.Int).Sub(place(n), from).Int64() }
	spans := make([]protocol.Bin, index(last)+1)
	for i := range spans {
		edge := new(big.Int).Add(from, big.NewInt(int64(i)))
		edge.Mul(edge, step)
		spans[i].From, spans[i].To = said(edge), said(new(big.Int).Add(edge, step))
	}
	for _, s := range all {
		spans[index(s.units())].Stores += s.stores
	}
	return spans
}

func said(n *big.Int) json.RawMessage { return json.RawMessage(decimal(n)) }

// say is a value as JSON.
func (c *column) say(v value) json.RawMessage {
	if v.numeric() || c.Type == protocol.ColumnBool {
		return json.RawMessage(v.said())
	}
	var text any = v.key
	if at, err := time.Parse(instant, v.key); err == nil && c.Type == protocol.ColumnTime {
		text = protocol.At(at.In(c.zone))
	}
	doc, err := protocol.Encode(text)
	if err != nil {
		return json.RawMessage("null")
	}
	return doc
}
