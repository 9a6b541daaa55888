package page

import (
	"strings"

	"muster/dispatcher/internal/report/words"
	"muster/internal/protocol"
)

// total is the card of one column.
type total struct {
	Title, Coverage words.Pair
	Facts           []fact
	Lists           []list
	Total           *protocol.Total
	WrongIDs        string
}

type fact struct{ About, Value words.Pair }

// list is values beside numbers: the largest by store, the most frequent, or a histogram.
type list struct {
	About, Of words.Pair
	Bars      bool // drawn against the largest of them
	Lines     []listLine
	Rest      words.Pair // what is beyond; none when empty
}

type listLine struct {
	About, Value words.Pair
	segment
}

// Folded is how many lines stand open; what is behind them is folded.
func (list) Folded() int { return 12 }

// Beyond is how many lines are folded.
func (l list) Beyond() int { return max(len(l.Lines)-l.Folded(), 0) }

func totalsOf(head *protocol.ReportHead) (cards []total) {
	for i := range head.Totals {
		t := &head.Totals[i]
		for j := range head.Columns {
			if c := &head.Columns[j]; c.Name == t.Column {
				cards = append(cards, card(t, c))
			}
		}
	}
	return cards
}

func card(t *protocol.Total, c *protocol.Column) total {
	made := total{Title: words.ColumnTitle(c), Coverage: words.Coverage(t), Total: t, WrongIDs: words.Visible(strings.Join(t.WrongTypeIDs, ", "))}
	for _, f := range words.Facts(t, c) {
		value := words.Value(f.Value, c)
		switch {
		case f.Count:
			value = same(words.Grouped(string(f.Value)))
		case f.Mean:
			value = words.Value(words.Rounded(f.Value), c)
		}
		made.Facts = append(made.Facts, fact{f.About, value})
	}
	for _, l := range []list{frequent(t, c), largest(t, c), spans(t)} {
		if len(l.Lines) > 0 {
			made.Lists = append(made.Lists, l)
		}
	}
	return made
}

func largest(t *protocol.Total, c *protocol.Column) list {
	l := list{About: words.Of("最大的门店", "stores with the most"), Of: words.Of("值", "value")}
	for _, s := range t.Largest {
		l.Lines = append(l.Lines, listLine{About: same(words.Visible(s.StoreID)), Value: words.Value(s.Value, c)})
	}
	return l
}

func frequent(t *protocol.Total, c *protocol.Column) list {
	l := list{About: words.Of("各值的门店数", "stores by value"), Of: words.Of("门店", "stores"), Bars: true}
	most := 0
	for _, v := range t.Values {
		most = max(most, v.Stores)
	}
	for _, v := range t.Values {
		about := words.Value(v.Value, c)
		about.Zh, about.En = shorten(about.Zh), shorten(about.En)
		l.Lines = append(l.Lines, listLine{about, count(v.Stores), part100("value", 0, v.Stores, most)})
	}
	if t.OtherValues > 0 {
		l.Rest = words.OtherValues(t.OtherValues, t.OtherStores)
	}
	return l
}

func spans(t *protocol.Total) list {
	l := list{About: words.Of("分布", "distribution"), Of: words.Of("门店", "stores"), Bars: true}
	most := 0
	for _, s := range t.Histogram {
		most = max(most, s.Stores)
	}
	for _, s := range t.Histogram {
		about := words.Grouped(string(s.From)) + " ≤ x < " + words.Grouped(string(s.To))
		l.Lines = append(l.Lines, listLine{same(about), count(s.Stores), part100("value", 0, s.Stores, most)})
	}
	return l
}

func same(text string) words.Pair { return words.Of(text, text) }

func count(n int) words.Pair { return same(words.Count(n)) }
