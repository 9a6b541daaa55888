package workbook

import (
	"encoding/json"

	"muster/dispatcher/internal/report/words"
	"muster/internal/protocol"
)

// totalLine is a line of the totals, each beside the column's name and unit and the stores
// that it speaks of. To put means one cell, written or left out.
type totalLine struct {
	about       words.Pair
	value, upTo func(*cells)
	store       string
	stores      *int64
}

// totalsSheet tells what the job's columns amount to.
func totalsSheet(head *protocol.ReportHead) sheet {
	s := sheet{name: "合计 totals", filter: true, columns: []sheetColumn{
		{title: words.Of("列", "Column"), width: wide}, {title: words.Of("项目", "Item"), width: wide}, {title: words.Of("值", "Value"), width: wide}, {title: words.Of("小于", "Less than"), width: narrow},
		{title: words.Of("单位", "Unit"), width: narrow}, {title: words.Of("门店编号", "Store"), width: middle}, {title: words.Of("门店数", "Stores"), width: narrow},
		{title: words.Of("有值的门店", "Stores with a value"), width: middle}, {title: words.Of("目标合计", "Targets"), width: narrow}}}
	var fill []func(*cells)
	for i := range head.Totals {
		t := &head.Totals[i]
		for j := range head.Columns {
			if c := &head.Columns[j]; c.Name == t.Column {
				for _, l := range totalLines(t, c) {
					fill = append(fill, func(out *cells) { l.put(out, t, c) })
				}
			}
		}
	}
	s.rows = len(fill)
	s.fill = func(c *cells) error {
		for i, put := range fill {
			c.begin(i + 2)
			put(c)
			c.end()
		}
		return nil
	}
	return s
}

func totalLines(t *protocol.Total, c *protocol.Column) []totalLine {
	have := int64(t.Stores)
	lines := []totalLine{{about: words.Of("有值", "with a value"), stores: &have}}
	value := func(raw json.RawMessage) func(*cells) { return func(out *cells) { out.typed(c.Type, raw) } }
	number := func(raw json.RawMessage) func(*cells) { return func(out *cells) { out.number(string(raw)) } }
	for _, f := range words.Facts(t, c) {
		put := value(f.Value)
		if f.Count {
			put = number(f.Value)
		}
		lines = append(lines, totalLine{about: f.About, value: put})
	}
	for _, v := range t.Values {
		lines = append(lines, totalLine{about: words.Of("各值的门店数", "stores by value"), value: value(v.Value), stores: whole(v.Stores)})
	}
	if t.OtherValues > 0 {
		lines = append(lines, totalLine{about: words.Of("其他的值", "other values"), value: func(out *cells) { out.integer(int64(t.OtherValues)) }, stores: whole(t.OtherStores)})
	}
	for _, s := range t.Largest {
		lines = append(lines, totalLine{about: words.Of("最大的门店", "stores with the most"), value: value(s.Value), store: s.StoreID})
	}
	for _, s := range t.Histogram {
		lines = append(lines, totalLine{about: words.Of("分布", "distribution"), value: number(s.From), upTo: number(s.To), stores: whole(s.Stores)})
	}
	if t.TooVaried {
		lines = append(lines, totalLine{about: words.Of("不同的值过多，未统计", "too many different values to count")})
	}
	if t.WrongType > 0 {
		lines = append(lines, totalLine{about: words.Of("类型不符", "of another type"), stores: whole(t.WrongType)})
	}
	for _, id := range t.WrongTypeIDs {
		lines = append(lines, totalLine{about: words.Of("类型不符的门店", "store with another type"), store: id})
	}
	return lines
}

func (l *totalLine) put(out *cells, t *protocol.Total, c *protocol.Column) {
	title := words.ColumnTitle(&protocol.Column{Title: c.Title, TitleZh: c.TitleZh})
	out.plain(both(title))
	out.plain(both(l.about))
	for _, put := range []func(*cells){l.value, l.upTo} {
		if put == nil {
			put = (*cells).none
		}
		put(out)
	}
	out.plain(unitOf(c))
	out.plain(l.store)
	if l.stores == nil {
		out.none()
	} else {
		out.integer(*l.stores)
	}
	out.integer(int64(t.Stores))
	out.integer(int64(t.Of))
}

func unitOf(c *protocol.Column) string {
	if c.Type == protocol.ColumnBytes {
		return "B"
	}
	if c.UnitZh == "" {
		return c.Unit
	}
	return both(words.Unit(c))
}
