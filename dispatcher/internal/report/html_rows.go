package report

import (
	"bufio"
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
	// evidenceCells is how many cells of a row stand behind the job's columns.
	evidenceCells = 10
)

// pageRows writes the table of all stores. It does by hand what a template would
// do many times slower, and escapes as html/template does.
type pageRows struct {
	out   *bufio.Writer
	zone  *time.Location
	large bool
	full  int // rows with evidence so far
}

func (p *pageRows) row(row *protocol.StoreRow) {
	if p.large && (row.Outcome == task.OutcomeSucceeded || p.full >= fullShown) {
		p.short(row)
		return
	}
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
func (p *pageRows) short(row *protocol.StoreRow) {
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

func (p *pageRows) outcome(before string, row *protocol.StoreRow, english string) {
	said := outcomeWords(row.Outcome)
	p.cell(before, said.Zh)
	p.cell(` <span lang=`+english+`>`, said.En)
	p.write(`</span>`)
	if row.Late {
		p.write(` (补传 <span lang=` + english + `>late</span>)`)
	}
}

func (p *pageRows) cell(before, text string) {
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

func (p *pageRows) write(s string) { _, _ = p.out.WriteString(s) } // bufio keeps the first error

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
