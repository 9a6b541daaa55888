package report

import (
	"bufio"
	"html/template"
	"strconv"
	"strings"
	"time"

	"muster/internal/protocol"
	"muster/internal/task"
)

const (
	// largeAbove is from how many stores on a page is large. All rows in full would
	// make one of 100,000 stores too much for a browser.
	largeAbove = 10_000
	// fullShown bounds the rows with evidence on a large page, which those get that
	// did not succeed. The other files have all.
	fullShown = 10_000
	// partRows is how many rows of a large page are folded into one.
	partRows = 1000
	// evidenceCells is how many cells of a row stand behind the job's columns.
	evidenceCells = 10
)

// pageTable writes the table of all stores. It does by hand what a template would
// do many times slower, and escapes as html/template does.
type pageTable struct {
	templates *template.Template
	head      headModel
	out       *bufio.Writer
	zone      *time.Location
	large     bool
	full      int // rows with evidence so far
	rows      int // so far
}

// part is a page of a large table: a browser lays it out when it is opened.
type part struct {
	Head     headModel
	From, To int
	ID       string // of its first store
}

func (p *pageTable) begin() error {
	if !p.large {
		return p.template("table", p.head)
	}
	p.write("<div class=\"scroll\">\n<div id=\"stores\">\n")
	return nil
}

// turn begins the next page of a large table.
func (p *pageTable) turn(row *protocol.StoreRow) error {
	if p.rows > 0 {
		p.write("</tbody>\n</table>\n</details>\n")
	}
	return p.template("part", part{p.head, p.rows + 1, min(p.rows+partRows, p.head.Head.Targets), visible(row.StoreID)})
}

func (p *pageTable) end() {
	p.write("</tbody>\n</table>\n")
	if p.large {
		p.write("</details>\n</div>\n")
	}
	p.write("</div>\n")
}

func (p *pageTable) template(name string, model any) error {
	return p.templates.ExecuteTemplate(p.out, name, model)
}

func (p *pageTable) row(row *protocol.StoreRow) (err error) {
	if p.large && p.rows%partRows == 0 {
		err = p.turn(row)
	}
	p.rows++
	if p.large && (row.Outcome == task.OutcomeSucceeded || p.full >= fullShown) {
		p.short(row)
	} else {
		p.whole(row)
	}
	return err
}

func (p *pageTable) whole(row *protocol.StoreRow) {
	p.full++
	p.cell(`<tr><td><bdi>`, visible(row.StoreID))
	p.cell(`</bdi></td><td><bdi>`, visible(row.Name))
	p.outcome(`</bdi></td><td>`, row, `"en"`)
	p.cell(`</td><td>`, string(row.Reason))
	p.cell(`</td><td class="v"><bdi>`, errorText(row))
	for _, raw := range row.Columns {
		p.cell(`</bdi></td><td class="v"><bdi>`, shownValue(raw))
	}
	p.cell(`</bdi></td><td>`, outcomeWords(row.AtBarrier).Zh)
	e := &row.Evidence
	p.cell(`</td><td>`, yesNo(e.Online))
	for _, at := range [...]protocol.Time{e.LastSeenAt, e.ClaimedAt, e.GrantedAt, e.StartedAt, e.LastSignAt, row.FinishedAt} {
		p.cell(`</td><td class="t">`, moment(at, p.zone))
	}
	p.cell(`</td><td class="n">`, strconv.Itoa(e.Attempts)+"/"+strconv.Itoa(e.AttemptsOf))
	p.cell(`</td><td><bdi>`, visible(row.TerminalID))
	p.write("</bdi></td></tr>\n")
}

// short writes a row without evidence, and without the end tags that HTML can do
// without.
func (p *pageTable) short(row *protocol.StoreRow) {
	p.cell(`<tr><td>`, visible(row.StoreID))
	p.cell(`<td>`, visible(row.Name))
	p.outcome(`<td>`, row, `en`)
	p.cell(`<td>`, string(row.Reason))
	p.cell(`<td>`, errorText(row))
	for _, raw := range row.Columns {
		p.cell(`<td>`, shownValue(raw))
	}
	p.cell(`<td colspan=`, strconv.Itoa(evidenceCells))
	p.write(">\n")
}

func (p *pageTable) outcome(before string, row *protocol.StoreRow, english string) {
	said := outcomeWords(row.Outcome)
	p.cell(before, said.Zh)
	p.cell(` <span lang=`+english+`>`, said.En)
	p.write(`</span>`)
	if row.Late {
		p.write(` (补传 <span lang=` + english + `>late</span>)`)
	}
}

func (p *pageTable) cell(before, text string) {
	p.write(before)
	from := 0
	for i := range len(text) {
		if escape := escapes[text[i]]; escape != "" {
			p.write(text[from:i])
			p.write(escape)
			from = i + 1
		}
	}
	p.write(text[from:])
}

func (p *pageTable) write(s string) { _, _ = p.out.WriteString(s) } // bufio keeps the first error

// escapes are those of html/template for text between tags.
var escapes = [256]string{0: "\ufffd", '"': "&#34;", '&': "&amp;", '\'': "&#39;", '+': "&#43;", '<': "&lt;", '>': "&gt;"}

func errorText(row *protocol.StoreRow) string {
	if row.Error == nil {
		return ""
	}
	return shorten(visible(strings.TrimSpace(string(row.Error.Code) + " " + row.Error.Path + " " + row.Error.Message)))
}

func shownValue(raw []byte) string {
	value, _ := valueText(raw)
	if value == "" {
		return "–"
	}
	return shorten(visible(value))
}
