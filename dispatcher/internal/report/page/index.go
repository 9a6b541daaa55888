package page

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"muster/dispatcher/internal/report/words"
	"muster/internal/protocol"
)

var (
	//go:embed index.html.tmpl
	indexSource string
	//go:embed index.js
	indexScript string
)

// indexModel is what index.html shows.
type indexModel struct {
	At       string
	Zone     string
	Runs     []indexRun
	Jobs     []string
	Verdicts []verdict
}

type verdict struct {
	Code  protocol.Verdict
	Words words.Pair
}

// indexRun is the newest revision of a run.
type indexRun struct {
	protocol.Listed
	Day, Clock          string
	Words               words.Pair
	RequestedBy, Reason string
	Segments            []bucket
	Page                string
	Files               []link
}

type link struct{ Name, Href string }

func newIndex(style string) (*template.Template, string, error) {
	script := strings.TrimSpace(indexScript)
	source := strings.NewReplacer("STYLE_HASH", hash(style), "SCRIPT_HASH", hash("\n"+script+"\n")).Replace(indexSource)
	templates, err := template.New("index").Funcs(functions(style)).Parse(source)
	if err != nil {
		return nil, "", fmt.Errorf("cannot parse the index page: %w", err)
	}
	return templates, "<script>\n" + script + "\n</script>\n</body>\n</html>\n", nil
}

// Index writes the page that lists the newest revision of each run, in the order in
// which they come, with links relative to the report folder.
func (p *Page) Index(w io.Writer, at time.Time, runs []protocol.Listed) error {
	m := indexModel{At: moment(protocol.At(at), at.Location()), Zone: at.Location().String()}
	for _, code := range []protocol.Verdict{protocol.VerdictComplete, protocol.VerdictPartial, protocol.VerdictBelowQuorum} {
		m.Verdicts = append(m.Verdicts, verdict{code, words.Verdict(code)})
	}
	for i := range runs {
		m.Runs = append(m.Runs, listed(&runs[i], at.Location()))
		if !slices.Contains(m.Jobs, runs[i].Head.Job) {
			m.Jobs = append(m.Jobs, runs[i].Head.Job)
		}
	}
	slices.Sort(m.Jobs)
	if err := p.index.Execute(w, m); err != nil {
		return fmt.Errorf("cannot write the index of reports: %w", err)
	}
	if _, err := io.WriteString(w, p.indexTail); err != nil {
		return fmt.Errorf("cannot write the index of reports: %w", err)
	}
	return nil
}

func listed(run *protocol.Listed, zone *time.Location) indexRun {
	created := run.Head.CreatedAt.In(zone)
	r := indexRun{Listed: *run, Day: created.Format("2006-01-02"), Clock: created.Format("15:04"), Words: words.Verdict(run.Head.Verdict),
		RequestedBy: words.Visible(run.Head.RequestedBy), Reason: shorten(words.Visible(run.Head.Reason)),
		Segments: (&region{Counts: run.Head.Counts}).Segments()}
	for _, file := range run.Manifest.Files {
		href := path.Join(run.Folder, file.Name)
		ext := strings.TrimPrefix(path.Ext(file.Name), ".")
		if ext == "html" {
			r.Page = href
			continue
		}
		r.Files = append(r.Files, link{strings.ToUpper(ext), href})
	}
	return r
}
