package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"muster/tests/browser"
)

const root = "../.."

// TestThePageIsOfTheDocumentAsItIs: whoever changes the description, a schema or an example
// makes the page anew.
func TestThePageIsOfTheDocumentAsItIs(t *testing.T) {
	t.Parallel()
	want, err := render(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, target))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not of docs/protocol/asyncapi.yaml and schemas/ as they are: run make docs", target)
	}
}

// TestThePageShowsEveryTopicAndMessageAndAsksForNothing in a browser, on desk and phone.
func TestThePageShowsEveryTopicAndMessageAndAsksForNothing(t *testing.T) {
	t.Parallel()
	doc, err := readDocument(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	page, err := filepath.Abs(filepath.Join(root, target))
	if err != nil {
		t.Fatal(err)
	}
	b, axe := browser.Open(t), browser.Axe(t)
	const desk, phone = 1280, 390
	for _, width := range []int{desk, phone} {
		tab := b.Tab(page, width, 800, width == phone)
		if width == phone {
			for _, finding := range tab.Findings(axe) {
				t.Error(finding)
			}
		}
		tab.Eval(`document.querySelectorAll("details").forEach((d) => { d.open = true })`, nil)
		shows(t, tab, &doc)
		var wide int
		tab.Eval(`document.documentElement.scrollWidth`, &wide)
		if wide > width {
			t.Errorf("the page is %d wide on a screen of %d", wide, width)
		}
		if asked := tab.Requests(); len(asked) != 1 {
			t.Errorf("the page asks for %v", asked)
		}
		if faults := tab.Faults(); len(faults) != 0 {
			t.Errorf("the page complains: %v", faults)
		}
	}
}

// shows holds the page to each topic, message, member and example, as a person sees it, and
// to links that lead somewhere.
func shows(t *testing.T, tab *browser.Tab, doc *document) {
	t.Helper()
	wants := func(id string, texts ...string) {
		said := tab.Text("section:has(#" + id + ")")
		for _, text := range texts {
			if !strings.Contains(said, text) {
				t.Errorf("%s does not show %q", id, text)
			}
		}
	}
	for _, c := range doc.Channels {
		texts := append([]string{c.Address, c.About, c.From + " → " + c.To}, c.Messages...)
		for _, p := range c.Parameters {
			texts = append(texts, p.About)
		}
		wants("channel-"+c.ID, texts...)
	}
	for _, m := range append(doc.Messages, doc.Files...) {
		texts := []string{m.About, m.Body.About}
		var rows []string
		tab.Eval(`[...document.querySelectorAll("section:has(#message-`+m.ID+`) tbody tr")].map((row) => row.innerText)`, &rows)
		if len(rows) != len(m.Body.Fields) {
			t.Errorf("%s has %d rows for %d members", m.ID, len(rows), len(m.Body.Fields))
		}
		for i, row := range rows {
			f := m.Body.Fields[i]
			for _, part := range append([]string{f.Path, f.Type, f.About}, f.Rules...) {
				if !strings.Contains(row, part) {
					t.Errorf("%s: the row of %s does not show %q: %q", m.ID, f.Path, part, row)
				}
			}
		}
		for _, e := range m.Examples {
			texts = append(texts, e.Name, strings.Split(e.Text, "\n")[0], strings.Split(e.Refusal, "\n")[0])
		}
		wants("message-"+m.ID, append(texts, m.Body.Conditions...)...)
	}
	var lost []string
	tab.Eval(`[...document.querySelectorAll("a")].map((a) => a.getAttribute("href")).filter((h) => !document.querySelector(h))`, &lost)
	if len(lost) > 0 {
		t.Errorf("links lead nowhere: %v", lost)
	}
}

// TestNothingIsLeftOutInSilence: a keyword that the page cannot show, and what is not there.
func TestNothingIsLeftOutInSilence(t *testing.T) {
	t.Parallel()
	const described = "info: {title: T}\nchannels: {a: {address: a, messages: {m: {}}}}\ncomponents: {messages: {m: {payload: {$ref: ../../schemas/m.v1.schema.json}}}}\n"
	for name, c := range map[string]struct{ schema, want string }{
		"a keyword":   {`{"type":"object","properties":{"a":{"contains":{"const":1}}}}`, "it does not know the keyword contains"},
		"a reference": {`{"type":"object","properties":{"a":{"$ref":"#/definitions/id"}}}`, "#/definitions/id is not there"},
		"no object":   {`[]`, "it is no mapping"},
	} {
		_, err := render(fstest.MapFS{description: {Data: []byte(described)}, "schemas/m.v1.schema.json": {Data: []byte(c.schema)}})
		if !errors.Is(err, errForm) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "m.v1.schema.json") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAFieldSaysAllOfItsSchema: a path through lists and names, its type, range and meaning,
// and what depends on another member.
func TestAFieldSaysAllOfItsSchema(t *testing.T) {
	t.Parallel()
	schema, err := decode([]byte(`{"type":"object","required":["open"],"properties":{
		"open":{"type":"array","minItems":1,"items":{"$ref":"#/definitions/entry"}},
		"labels":{"type":"object","maxProperties":64,"additionalProperties":{"type":"string","maxLength":200}},
		"to":{"description":"Who.","default":"all","anyOf":[{"const":"all"},{"type":"array","items":{"type":"string","maxLength":63}},{"type":"null"}]}},
		"if":{"required":["to"],"properties":{"to":{"const":"all"}}},"then":{"required":["labels"]},"else":{"if":{"required":["to"]},"else":{"required":["open","labels"]}},
		"definitions":{"entry":{"type":"object","required":["n"],"properties":{"n":{"type":["integer","null"],"minimum":0,"maximum":9}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := readSchema(schema)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, f := range got.Fields {
		required := ""
		if f.Required {
			required = " required"
		}
		lines = append(lines, f.Path+": "+f.Type+required+" ["+strings.Join(f.Rules, "; ")+"] "+f.About)
	}
	want := `open: list of object required [at least 1 elements] 
open[].n: integer or null required [0 to 9] 
labels: object [at most 64 members] 
labels.*: string [at most 200 characters] 
to: "all" or list of string or null [each: at most 63 characters; if absent: "all"] Who.
if to is "all": needs labels
else if to is there: nothing more
else: needs open, labels`
	if said := strings.Join(append(lines, got.Conditions...), "\n"); said != want {
		t.Errorf("got\n%s\nwant\n%s", said, want)
	}
}
