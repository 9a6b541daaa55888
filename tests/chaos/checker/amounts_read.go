package checker

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/xuri/excelize/v2"

	"muster/internal/protocol"
)

// jsonAmounts reads the totals of a JSON report.
func jsonAmounts(head *protocol.ReportHead, zone *time.Location) (*amounts, error) {
	a := &amounts{bins: map[int][]bin{}}
	columns := typedColumns(head.Columns)
	if len(head.Totals) != len(columns) {
		return nil, fmt.Errorf("it has %d totals, %d columns have a type", len(head.Totals), len(columns))
	}
	for n, i := range columns {
		t, of := &head.Totals[n], head.Columns[i].Type
		if t.Column != head.Columns[i].Name {
			return nil, fmt.Errorf("it has the total of column %s where that of %s belongs", t.Column, head.Columns[i].Name)
		}
		text := func(raw json.RawMessage) string {
			if v, ok := canonical(of, raw, zone); ok {
				return v.text
			}
			return "not of the type: " + string(raw)
		}
		a.say(i, aboutCoverage, fmt.Sprintf("%d of %d", t.Stores, t.Of))
		if t.WrongType > 0 {
			a.say(i, aboutWrong, strconv.Itoa(t.WrongType))
		}
		for _, id := range t.WrongTypeIDs {
			a.say(i, aboutWrongID, id)
		}
		for _, fact := range []struct {
			about protocol.Aggregate
			value json.RawMessage
		}{{protocol.AggregateSum, t.Sum}, {protocol.AggregateMean, t.Mean}, {protocol.AggregateMin, t.Min}, {protocol.AggregateMax, t.Max},
			{protocol.AggregateP50, t.P50}, {protocol.AggregateP95, t.P95}} {
			switch {
			case fact.value == nil:
			case fact.about == protocol.AggregateMean: // that of integers is none
				a.say(i, string(fact.about), string(fact.value))
			default:
				a.say(i, string(fact.about), text(fact.value))
			}
		}
		if t.Distinct > 0 {
			a.say(i, string(protocol.AggregateDistinct), strconv.Itoa(t.Distinct))
		}
		for _, l := range t.Largest {
			a.say(i, aboutLargest+l.StoreID, text(l.Value))
		}
		for _, v := range t.Values {
			a.say(i, aboutValue+text(v.Value), strconv.Itoa(v.Stores))
		}
		if t.OtherValues > 0 {
			a.say(i, aboutOthers, fmt.Sprintf("%d, %d", t.OtherValues, t.OtherStores))
		}
		for _, s := range t.Histogram {
			a.bins[i] = append(a.bins[i], bin{string(s.From), string(s.To), s.Stores})
		}
	}
	return a, nil
}

// sheetTotals is where a workbook has the totals.
const sheetTotals = "合计 totals"

// factNames are the aggregates by the English words of the files.
var factNames = map[string]protocol.Aggregate{"sum": protocol.AggregateSum, "mean": protocol.AggregateMean, "least": protocol.AggregateMin, "earliest": protocol.AggregateMin,
	"median": protocol.AggregateP50, "95 % at most": protocol.AggregateP95, "most": protocol.AggregateMax, "latest": protocol.AggregateMax,
	"different values": protocol.AggregateDistinct}

// workbookAmounts reads the sheet of the totals.
func workbookAmounts(book *excelize.File, columns []protocol.Column) (*amounts, error) {
	typed := typedColumns(columns)
	if len(typed) == 0 {
		return nil, nil
	}
	lines, err := book.GetRows(sheetTotals, excelize.Options{RawCellValue: true})
	if err != nil {
		return nil, err
	}
	a, n := &amounts{bins: map[int][]bin{}}, -1
	var covered string
	for _, line := range lines[min(1, len(lines)):] {
		at := func(column byte) string {
			if i := int(column - 'A'); i < len(line) {
				return line[i]
			}
			return ""
		}
		about := english(at('B'))
		coverage := at('H') + " of " + at('I')
		if about == "with a value" {
			if n++; n >= len(typed) {
				return nil, errors.New("its totals are of more columns than have a type")
			}
			covered = coverage
			a.say(typed[n], aboutCoverage, at('G')+" of "+at('I'))
		}
		if n < 0 || coverage != covered || !strings.HasSuffix(at('A'), titled(&columns[typed[max(n, 0)]])) {
			return nil, fmt.Errorf("of column %s it says %q, %s", at('A'), about, coverage)
		}
		if about != "with a value" {
			if err := workbookLine(a, typed[n], &columns[typed[n]], about, at); err != nil {
				return nil, err
			}
		}
	}
	if n != len(typed)-1 {
		return nil, fmt.Errorf("its totals are of %d columns, %d have a type", n+1, len(typed))
	}
	return a, nil
}

// english is what stands behind the Chinese words.
func english(text string) string {
	last := strings.LastIndexFunc(text, func(r rune) bool { return unicode.Is(unicode.Han, r) })
	_, behind, _ := strings.Cut(text[max(last, 0):], " ")
	return behind
}

func titled(c *protocol.Column) string {
	if c.Unit != "" {
		return c.Title + " (" + c.Unit + ")"
	}
	return c.Title
}

func workbookLine(a *amounts, i int, c *protocol.Column, about string, at func(byte) string) error {
	value := people(c.Type, at('C'))
	switch about {
	case "stores by value":
		a.say(i, aboutValue+value, at('G'))
	case "other values":
		a.say(i, aboutOthers, at('C')+", "+at('G'))
	case "stores with the most":
		a.say(i, aboutLargest+at('F'), value)
	case "distribution":
		stores, err := strconv.Atoi(at('G'))
		if err != nil {
			return fmt.Errorf("its histogram of %s counts %q", c.Name, at('G'))
		}
		a.bins[i] = append(a.bins[i], bin{at('C'), at('D'), stores})
	case "of another type":
		a.say(i, aboutWrong, at('G'))
	case "store with another type":
		a.say(i, aboutWrongID, at('F'))
	default:
		name, known := factNames[about]
		if !known {
			return fmt.Errorf("of column %s it says %q", c.Name, about)
		}
		if name == protocol.AggregateDistinct {
			value = at('C')
		}
		a.say(i, string(name), value)
	}
	return nil
}

// people is a cell as people read it, by the type of its column.
func people(of protocol.ColumnType, cell string) string {
	switch of {
	case protocol.ColumnBool:
		return map[string]string{"1": "true", "0": "false"}[cell]
	case protocol.ColumnDate, protocol.ColumnTime:
		if at, ok := unserial(cell); ok && of == protocol.ColumnDate {
			return at.Format(time.DateOnly)
		} else if ok {
			return at.Format(wallClock)
		}
	case protocol.ColumnText, protocol.ColumnInteger, protocol.ColumnNumber, protocol.ColumnBytes, protocol.ColumnDuration:
	}
	return cell
}

// Spreadsheets count days since the end of 1899, as a day of 1900 that never was is one of theirs.
var (
	dayNought = time.Date(1899, time.December, 30, 0, 0, 0, 0, time.UTC)
	firstDay  = time.Date(1900, time.March, 1, 0, 0, 0, 0, time.UTC)
)

const dayMs = 24 * 60 * 60 * 1000

// unserial is the wall clock that a spreadsheet's number means.
func unserial(cell string) (time.Time, bool) {
	days, err := strconv.ParseFloat(cell, 64)
	if err != nil {
		return time.Time{}, false
	}
	return dayNought.Add(time.Duration(math.Round(days*dayMs)) * time.Millisecond), true
}

// cellOf is how a cell of the workbook holds the value of a column: dates and moments as
// the numbers of spreadsheets, true and false as 1 and 0, everything else as people read it.
func cellOf(of protocol.ColumnType, raw json.RawMessage, text string, zone *time.Location) string {
	v, ok := canonical(of, raw, zone)
	if !ok {
		return text
	}
	var at time.Time
	var err error
	switch of {
	case protocol.ColumnBool:
		return map[string]string{"true": "1", "false": "0"}[v.text]
	case protocol.ColumnDate:
		at, err = time.Parse(time.DateOnly, v.text)
	case protocol.ColumnTime:
		at, err = time.Parse(wallClock, v.text)
		if exact, failed := time.Parse(time.RFC3339, text); failed != nil || exact.Nanosecond()%int(time.Millisecond) != 0 {
			return text
		}
	default:
		return text
	}
	if err != nil || at.Before(firstDay) || at.Year() > 9999 {
		return text
	}
	return serial(at)
}

func serial(at time.Time) string {
	return strconv.FormatFloat(float64(at.UnixMilli()-dayNought.UnixMilli())/dayMs, 'f', -1, 64)
}

// toTheMs is a moment's number as this program writes it; the library cuts its digits.
func toTheMs(cell string) string {
	if at, ok := unserial(cell); ok {
		return serial(at)
	}
	return cell
}

// The cards of a page's totals, as the page has them line by line.
var (
	htmlCards   = regexp.MustCompile(`(?s)<ul class="totals">\n(.*?)</ul>\n</section>`)
	htmlTitle   = regexp.MustCompile(`^<h3><bdi>[^\n]*<span lang="en">([^<]*)</span></bdi></h3>\n<p class="soft">[^\n]*<span lang="en">([\d,]+) of ([\d,]+) stores?</span></p>\n`)
	htmlFact    = regexp.MustCompile(`<dt>[^\n]*?<span lang="en">([^<]*)</span></dt><dd>[^\n]*?<span lang="en">([^<]*)</span> <small class="soft">[^\n]*?<span lang="en">([\d,]+) of ([\d,]+) stores?</span></small></dd>`)
	htmlWrong   = regexp.MustCompile(`<span lang="en">([\d,]+) with a value of another type, in no total</span></summary><p><bdi>([^<]*)</bdi>`)
	htmlList    = regexp.MustCompile(`^<tr><th scope="col">[^\n]*?<span lang="en">([^<]*)</span></th>`)
	htmlListRow = regexp.MustCompile(`<th scope="row"><bdi>[^\n]*?<span lang="en">([^<]*)</span></bdi></th>[^\n]*<td class="n">[^\n]*?<span lang="en">([^<]*)</span></td></tr>`)
	htmlRest    = regexp.MustCompile(`<span lang="en">([\d,]+) other values? at ([\d,]+) stores?</span>`)
	htmlSpan    = regexp.MustCompile(`^(\S+) ≤ x < (\S+)$`)
)

// htmlAmounts reads the cards of a page.
func htmlAmounts(content []byte, columns []protocol.Column) (*amounts, error) {
	typed := typedColumns(columns)
	if len(typed) == 0 {
		return nil, nil
	}
	section := htmlCards.FindSubmatch(content)
	if section == nil {
		return nil, errors.New("it has no totals")
	}
	cards := strings.Split(string(section[1]), "<li>\n")[1:]
	if len(cards) != len(typed) {
		return nil, fmt.Errorf("it has the totals of %d columns, %d have a type", len(cards), len(typed))
	}
	a := &amounts{bins: map[int][]bin{}, rounds: true}
	for n, card := range cards {
		if err := htmlCard(a, typed[n], &columns[typed[n]], card); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func htmlCard(a *amounts, i int, c *protocol.Column, card string) error {
	title := htmlTitle.FindStringSubmatch(card)
	if title == nil || html.UnescapeString(title[1]) != titled(c) {
		return fmt.Errorf("it has no totals of column %s in their place", c.Name)
	}
	a.say(i, aboutCoverage, bare(title[2])+" of "+bare(title[3]))
	if wrong := htmlWrong.FindStringSubmatch(card); wrong != nil {
		a.say(i, aboutWrong, bare(wrong[1]))
		for id := range strings.SplitSeq(wrong[2], ", ") {
			a.say(i, aboutWrongID, id)
		}
	}
	for _, fact := range htmlFact.FindAllStringSubmatch(card, -1) {
		name, known := factNames[fact[1]]
		if !known || fact[3] != title[2] || fact[4] != title[3] {
			return fmt.Errorf("of column %s it says %q of %s of %s stores", c.Name, fact[1], fact[3], fact[4])
		}
		value := pageValue(c.Type, fact[2])
		if name == protocol.AggregateDistinct {
			value = bare(fact[2])
		}
		a.say(i, string(name), value)
	}
	for _, text := range strings.Split(card, "<thead>")[1:] { // some lines may be folded
		list := htmlList.FindStringSubmatch(text)
		if list == nil {
			return fmt.Errorf("of column %s it has a list without a name", c.Name)
		}
		for _, row := range htmlListRow.FindAllStringSubmatch(text, -1) {
			switch list[1] {
			case "stores by value":
				a.say(i, aboutValue+pageValue(c.Type, row[1]), bare(row[2]))
			case "stores with the most":
				a.say(i, aboutLargest+row[1], pageValue(c.Type, row[2]))
			case "distribution":
				edges := htmlSpan.FindStringSubmatch(html.UnescapeString(row[1]))
				stores, err := strconv.Atoi(bare(row[2]))
				if edges == nil || err != nil {
					return fmt.Errorf("its histogram of %s has %q", c.Name, row[0])
				}
				a.bins[i] = append(a.bins[i], bin{bare(edges[1]), bare(edges[2]), stores})
			default:
				return fmt.Errorf("of column %s it has a list of %q", c.Name, list[1])
			}
		}
	}
	if rest := htmlRest.FindStringSubmatch(card); rest != nil {
		a.say(i, aboutOthers, bare(rest[1])+", "+bare(rest[2]))
	}
	return nil
}

func bare(number string) string { return strings.ReplaceAll(number, ",", "") }

// pageValue is what a page shows of a value: numbers in groups and with their unit, yes and
// no, moments with their offset.
func pageValue(of protocol.ColumnType, text string) string {
	text = html.UnescapeString(text)
	switch {
	case of.Numeric():
		number, _, _ := strings.Cut(text, " ")
		return bare(number)
	case of == protocol.ColumnBool:
		return map[string]string{"yes": "true", "no": "false"}[text]
	case of == protocol.ColumnTime && len(text) > len(wallClock):
		return text[:len(wallClock)]
	}
	return text
}
