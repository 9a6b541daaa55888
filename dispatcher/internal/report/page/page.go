// Package page writes a report as one page for a browser, and the index of all: a page loads nothing, holds all
// that it shows, and says everything in Chinese and in English.
//
// It is pure, and writes while it reads: rows come twice, once to be surveyed and once
// to be written. Without its script the page shows the same rows in one table.
package page

import (
	"bufio"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"iter"
	"strings"

	"muster/dispatcher/internal/report/line"
	"muster/dispatcher/internal/report/words"
	"muster/internal/protocol"
	"muster/internal/task"
)

// Rules stands in every manifest beside the page.
const Rules = "HTML, one file that loads nothing; its only script, which its policy names by hash, filters the rows that stand in the file; " +
	"control characters and direction marks are shown as [U+202E], times in headquarters' zone; " +
	"an error's detail has its last 500 characters. " +
	"Above 10,000 stores evidence and detail stand only beside stores that did not succeed at the first attempt, and beside 10,000 of them at most; the other files have all"

var (
	//go:embed page.css
	style string
	//go:embed page.js
	script string
	//go:embed page.html.tmpl
	source string
	//go:embed tail.html
	tail string
	//go:embed signs.html
	signs string
)

// Page is the parsed page. Create it with New; it is safe for concurrent use.
type Page struct {
	templates *template.Template
	tail      string
	index     *template.Template
	indexTail string
}

// New parses the page.
func New() (*Page, error) {
	style, script := strings.TrimSpace(style), strings.TrimSpace(script)
	vocabulary, err := vocabulary()
	if err != nil {
		return nil, err
	}
	source := strings.NewReplacer("STYLE_HASH", hash(style), "SCRIPT_HASH", hash("\n"+script+"\n")).Replace(source)
	templates, err := template.New("page").Funcs(functions(style)).Parse(source)
	if err != nil {
		return nil, fmt.Errorf("cannot parse the report page: %w", err)
	}
	index, indexTail, err := newIndex(style)
	if err != nil {
		return nil, err
	}
	return &Page{templates: templates, index: index, indexTail: indexTail, tail: strings.NewReplacer("SCRIPT_TEXT", script, "VOCABULARY", vocabulary).Replace(tail)}, nil
}

func functions(style string) template.FuncMap {
	return template.FuncMap{"both": both, "icon": icon, "n": words.Count, "unapproved": words.NoApproval,
		"style": func() template.CSS { return template.CSS(style) },   //nolint:gosec // both are the program's own
		"signs": func() template.HTML { return template.HTML(signs) }, //nolint:gosec // likewise
	}
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// vocabulary is what the script says of the codes in the rows.
func vocabulary() (string, error) {
	type said struct {
		Outcomes map[task.Outcome]words.Pair `json:"outcomes"`
		Reasons  map[task.Reason]words.Pair  `json:"reasons"`
	}
	all := said{map[task.Outcome]words.Pair{}, map[task.Reason]words.Pair{}}
	for _, outcome := range task.Outcomes() {
		all.Outcomes[outcome] = words.Outcome(outcome)
		for _, reason := range outcome.Reasons() {
			all.Reasons[reason] = words.Reason(reason)
		}
	}
	doc, err := json.Marshal(all) // it escapes what would end a script
	return string(doc), err
}

// both says a thing in both languages, of which the reader picks one.
func both(w words.Pair) template.HTML {
	if w.Zh == "" {
		w.Zh = w.En
	}
	return template.HTML(`<span lang="zh">` + template.HTMLEscapeString(w.Zh) + //nolint:gosec // both are escaped
		`</span> <span lang="en">` + template.HTMLEscapeString(w.En) + `</span>`)
}

// icon is the sign of an outcome or a verdict: colour alone carries no meaning.
func icon(code any) template.HTML {
	name := template.HTMLEscapeString(fmt.Sprint(code))
	return template.HTML(`<svg class="i ` + name + `" aria-hidden="true"><use href="#i-` + name + `"/></svg>`) //nolint:gosec // it is escaped
}

// Write writes the page. Rows are the JSON of one protocol.StoreRow each, by store id,
// and are iterated twice. It fails for a row that cannot be read, and with what w fails
// with.
func (p *Page) Write(w io.Writer, head protocol.ReportHead, rows iter.Seq2[json.RawMessage, error]) error {
	found, err := look(&head, rows)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	t := table{templates: p.templates, tail: p.tail, head: view(&head, found), out: out, zone: head.AsOf.Location(), large: head.Targets > line.Many}
	if err := t.page(rows); err != nil {
		return fmt.Errorf("cannot write a report as HTML: %w", err)
	}
	if err := out.Flush(); err != nil { // bufio keeps the first error
		return fmt.Errorf("cannot write a report as HTML: %w", err)
	}
	return nil
}

func (t *table) page(rows iter.Seq2[json.RawMessage, error]) error {
	if err := errors.Join(t.template("head", t.head), t.begin()); err != nil {
		return err
	}
	var in line.Reader
	for raw, err := range rows {
		if err != nil {
			return err
		}
		row, err := in.Read(raw)
		if err != nil {
			return err
		}
		if err := t.row(row); err != nil {
			return err
		}
	}
	t.end()
	t.write(t.tail)
	return nil
}
