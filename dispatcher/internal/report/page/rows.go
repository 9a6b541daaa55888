package page

import (
	"bufio"
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"

	"muster/dispatcher/internal/report/line"
	"muster/dispatcher/internal/report/words"
	"muster/internal/protocol"
)

const (
	// fullShown bounds the rows with evidence on a large page, which those get whose
	// attempts it unfolds: all would be too much for a browser. The other files have all.
	fullShown = 10_000
	// partRows is how many rows of a large page are folded into one.
	partRows = 1000
	// evidenceCells is how many cells of a row stand between the job's columns and the labels.
	evidenceCells = 13
	// detailShown bounds the end of an error's detail, in characters.
	detailShown = 500
	// valueShown bounds one value in the table, in characters; the JSON file has the
	// whole.
	valueShown = 500
)

// table writes the table of all stores. It does by hand what a template would
// do many times slower, and escapes as html/template does.
type table struct {
	templates *template.Template
	tail      string
	head      model
	out       *bufio.Writer
	zone      *time.Location
	large     bool // it has many stores
	full      int  // rows with evidence so far
	rows      int  // so far
	lean      bool
}

// part is a page of a large table: a browser lays it out when it is opened.
type part struct {
	Head     model
	From, To int
	ID       string // of its first store
}

func (t *table) begin() error {
	if !t.large {
		return t.template("table", t.head)
	}
	t.write("<div class=\"scroll\">\n<div id=\"stores\">\n")
	return nil
}

// turn begins the next page of a large table.
func (t *table) turn(row *protocol.StoreRow) error {
	if t.rows > 0 {
		t.write("</tbody>\n</table>\n</details>\n")
	}
	return t.template("part", part{t.head, t.rows + 1, min(t.rows+partRows, t.head.Head.Targets), words.Visible(row.StoreID)})
}

func (t *table) end() {
	t.write("</tbody>\n</table>\n")
	if t.large {
		t.write("</details>\n</div>\n")
	}
	t.write("</div>\n")
}

func (t *table) template(name string, model any) error {
	return t.templates.ExecuteTemplate(t.out, name, model)
}

func (t *table) row(row *protocol.StoreRow) (err error) {
	if t.large && t.rows%partRows == 0 {
		err = t.turn(row)
	}
	t.rows++
	if !line.Unfolds(t.head.Head.Targets, row) || t.large && t.full >= fullShown {
		t.short(row)
	} else {
		t.whole(row)
	}
	return err
}

func (t *table) whole(row *protocol.StoreRow) {
	t.full++
	t.lean = t.large
	defer func() { t.lean = false }()
	t.cell(`<tr><td><bdi>`, words.Visible(row.StoreID))
	t.cell(`</bdi></td><td><bdi>`, words.Visible(row.Name))
	t.outcome(`</bdi></td><td>`, row, `"en"`)
	t.cell(`</td><td>`, string(row.Reason))
	t.cell(`</td><td class="v"><bdi>`, errorText(row))
	t.write(`</bdi>`)
	t.detail(row)
	for _, raw := range row.Columns {
		before := `</td><td class="v"><bdi>`
		if isNumber(raw) {
			before = `</td><td class="v n"><bdi>`
		}
		t.cell(before, shownValue(raw))
		t.write(`</bdi>`)
	}
	e := &row.Evidence
	t.write(`</td><td>`)
	t.write(string(both(words.Outcome(row.AtBarrier))))
	t.write(`</td><td>`)
	t.write(string(both(words.YesNo(e.Online))))
	for _, at := range [...]protocol.Time{e.LastSeenAt, e.ClaimedAt, e.GrantedAt, e.StartedAt, e.LastSignAt, row.FinishedAt} {
		t.cell(`</td><td class="t">`, moment(at, t.zone))
	}
	t.cell(`</td><td class="n">`, strconv.Itoa(e.Attempts)+"/"+strconv.Itoa(e.AttemptsOf))
	t.cell(`</td><td><bdi>`, words.Visible(row.TerminalID))
	t.cell(`</bdi></td><td class="n">`, skewText(e.ClockSkewMs))
	t.cell(`</td><td>`, row.TaskID)
	t.write(`</td><td>`)
	t.tries(row)
	t.cell(`</td><td><bdi>`, words.Visible(line.Labels(row.Labels)))
	t.write("</bdi></td></tr>\n")
}

// short writes a row without evidence, and without the end tags that HTML can do
// without.
func (t *table) short(row *protocol.StoreRow) {
	t.cell(`<tr><td>`, words.Visible(row.StoreID))
	t.cell(`<td>`, words.Visible(row.Name))
	t.outcome(`<td>`, row, `en`)
	t.cell(`<td>`, string(row.Reason))
	t.cell(`<td>`, errorText(row))
	for _, raw := range row.Columns {
		before := `<td>`
		if isNumber(raw) {
			before = `<td class=n>`
		}
		t.cell(before, shownValue(raw))
	}
	t.cell(`<td colspan=`, strconv.Itoa(evidenceCells))
	t.cell(`><td>`, words.Visible(line.Labels(row.Labels)))
	t.write("\n")
}

// detail writes what the failed program said at its end, line by line.
func (t *table) detail(row *protocol.StoreRow) {
	if row.Error == nil {
		return
	}
	said := row.Error.Tail(detailShown)
	if said == "" {
		return
	}
	before := `<samp><bdi>`
	for text := range strings.SplitSeq(said, "\n") {
		t.cell(before, words.Visible(text))
		before = `</bdi><br/><bdi>`
	}
	t.write(`</bdi></samp>`)
}

func (t *table) outcome(before string, row *protocol.StoreRow, english string) {
	said := words.Outcome(row.Outcome)
	t.cell(before, said.Zh)
	t.cell(` <span lang=`+english+`>`, said.En)
	t.write(`</span>`)
	if row.Late {
		t.write(` (补传 <span lang=` + english + `>late</span>)`)
	}
}

func (t *table) cell(before, text string) {
	t.write(before)
	from := 0
	for i := range len(text) {
		if escape := escapes[text[i]]; escape != "" {
			t.write(text[from:i])
			t.write(escape)
			from = i + 1
		}
	}
	t.write(text[from:])
}

func (t *table) write(s string) {
	if t.lean {
		s = spared.Replace(s)
	}
	_, _ = t.out.WriteString(s) // bufio keeps the first error
}

// spared is what HTML can do without. No text has any of it: it is escaped.
var spared = strings.NewReplacer("</td>", "", "</tr>", "", "</li>", "", `lang="zh"`, "lang=zh", `lang="en"`, "lang=en", `class="v"`, "class=v", `class="t"`, "class=t", `class="n"`, "class=n")

// escapes are those of html/template for text between tags.
var escapes = [256]string{0: "\ufffd", '"': "&#34;", '&': "&amp;", '\'': "&#39;", '+': "&#43;", '<': "&lt;", '>': "&gt;"}

func errorText(row *protocol.StoreRow) string {
	if row.Error == nil {
		return ""
	}
	said := string(row.Error.Code) + " "
	if path := row.Error.Path; path != "" && !strings.HasPrefix(row.Error.Message, path+":") { // else it says where
		said += path + " "
	}
	return shorten(words.Visible(strings.TrimSpace(said + row.Error.Message)))
}

func shownValue(raw []byte) string {
	value, _ := line.Text(raw)
	if value == "" {
		return "–"
	}
	return shorten(words.Visible(value))
}

// isNumber reports whether a value of a column is a number, which stands at the right. A
// text of digits, such as 007, is none.
func isNumber(raw []byte) bool {
	return len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9')
}

// skewText is how far a store's clock is ahead of headquarters', in a unit in which it
// can be read.
func skewText(ms *int64) string {
	if ms == nil {
		return "–"
	}
	d := time.Duration(*ms) * time.Millisecond
	switch size := d.Abs(); {
	case size < 10*time.Second:
		return fmt.Sprintf("%+d ms", *ms)
	case size < 2*time.Minute:
		return fmt.Sprintf("%+.1f s", d.Seconds())
	case size < 2*time.Hour:
		return fmt.Sprintf("%+.1f min", d.Minutes())
	}
	return fmt.Sprintf("%+.1f h", d.Hours())
}

// moment shows a time in headquarters' zone, and a dash for none.
func moment(t protocol.Time, zone *time.Location) string {
	if t.IsZero() {
		return "–"
	}
	return t.In(zone).Format("2006-01-02 15:04:05")
}

func shorten(s string) string { return shortenTo(s, valueShown) }

func shortenTo(s string, most int) string {
	if len(s) <= most {
		return s
	}
	runes := []rune(s)
	if len(runes) <= most {
		return s
	}
	return string(runes[:most]) + " … [" + strconv.Itoa(len(runes)) + "]"
}
