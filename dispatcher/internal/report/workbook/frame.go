package workbook

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/xuri/excelize/v2"

	"muster/dispatcher/internal/report/words"
	"muster/internal/protocol"
	"muster/internal/task"
)

// sheet is one sheet of a workbook: a header and rows under it.
type sheet struct {
	name    string
	columns []sheetColumn
	rows    int  // under the header
	filter  bool // the header has filter buttons
	fill    func(*cells) error
}

// sheetColumn is a column's header and its width in characters.
type sheetColumn struct {
	title    words.Pair
	width    float64
	coloured bool // cells that say an outcome or a verdict have its colour
}

// styles are what the frame calls the looks of cells.
type styles struct{ header, text, wrapped, moment, share, date int }

// colour is that of cells with a certain text, which it only repeats.
type colour struct {
	text       words.Pair
	paper, ink string
}

func colours() []colour {
	return []colour{
		{words.Outcome(task.OutcomeSucceeded), "C6EFCE", "005200"}, {words.Outcome(task.OutcomeFailed), "FFC7CE", "8C0005"},
		{words.Outcome(task.OutcomeTimedOut), "FFEB9C", "6B4700"}, {words.Outcome(task.OutcomeOffline), "D9D9D9", "333333"},
		{words.Outcome(task.OutcomeCancelled), "DDEBF7", "1F3F66"},
		{words.Verdict(protocol.VerdictComplete), "C6EFCE", "005200"}, {words.Verdict(protocol.VerdictPartial), "FFEB9C", "6B4700"},
		{words.Verdict(protocol.VerdictBelowQuorum), "FFC7CE", "8C0005"},
	}
}

// frame is a workbook without rows: its parts, and each sheet before and after
// the place where its rows belong.
//
// The library lays it out. Rows do not go through the library: it would keep
// every sheet in memory and in files of its own until the end, and it puts
// streamed sheets into the archive in the order of a map.
type frame struct {
	parts         parts
	before, after [][]byte
	styles        styles
}

// rowsPlace is where the library writes the rows of a sheet that has none.
const rowsPlace = "<sheetData></sheetData>"

func frameOf(head *protocol.ReportHead, sheets []sheet) (frame, error) {
	f := frame{parts: parts{}}
	file := excelize.NewFile()
	file.SetZipWriter(func(io.Writer) excelize.ZipWriter { return f.parts })
	rules, err := colouring(file)
	err = errors.Join(err, properties(file, head), f.addStyles(file))
	for i := range sheets {
		err = errors.Join(err, addSheet(file, i, &sheets[i], rules))
	}
	err = errors.Join(err, file.Write(io.Discard), file.Close())
	if err != nil {
		return f, fmt.Errorf("cannot lay out the workbook: %w", err)
	}
	for i := range sheets {
		whole, ok := f.parts[partName(i)]
		if !ok {
			return f, fmt.Errorf("cannot lay out the workbook: it has no %s", partName(i))
		}
		before, after, ok := bytes.Cut(whole.Bytes(), []byte(rowsPlace))
		if !ok {
			return f, fmt.Errorf("cannot lay out the workbook: %s has no place for rows", partName(i))
		}
		f.before, f.after = append(f.before, before), append(f.after, after)
		delete(f.parts, partName(i))
	}
	return f, nil
}

// properties names the workbook's maker and its time, which is the report's:
// the library's own are somebody else's.
func properties(file *excelize.File, head *protocol.ReportHead) error {
	at := head.AsOf.UTC().Format(time.RFC3339)
	return errors.Join(
		file.SetDocProps(&excelize.DocProperties{Creator: "Muster", Created: at, Modified: at,
			Title: fmt.Sprintf("%s %s r%d", head.Job, head.RunID, head.Revision)}),
		file.SetAppProps(&excelize.AppProperties{Application: "Muster"}))
}

func (f *frame) addStyles(file *excelize.File) error {
	const asText = 49 // the built-in format @: what is typed over a text stays text
	moment, share, date := "yyyy-mm-dd hh:mm:ss.000", "0.0%", "yyyy-mm-dd"
	top := &excelize.Alignment{Vertical: "top"}
	wrapped := &excelize.Alignment{Vertical: "top", WrapText: true}
	var failures []error
	add := func(id *int, style excelize.Style) {
		var err error
		*id, err = file.NewStyle(&style)
		failures = append(failures, err)
	}
	add(&f.styles.header, excelize.Style{NumFmt: asText, Alignment: wrapped, Font: &excelize.Font{Bold: true},
		Fill: excelize.Fill{Type: "pattern", Pattern: 1, Color: []string{"E7ECF2"}}})
	add(&f.styles.text, excelize.Style{NumFmt: asText, Alignment: top})
	add(&f.styles.wrapped, excelize.Style{NumFmt: asText, Alignment: wrapped})
	add(&f.styles.moment, excelize.Style{CustomNumFmt: &moment, Alignment: top})
	add(&f.styles.share, excelize.Style{CustomNumFmt: &share, Alignment: top})
	add(&f.styles.date, excelize.Style{CustomNumFmt: &date, Alignment: top})
	return errors.Join(failures...)
}

// colouring is how the library is told of the colours. It compares with fixed texts, and
// computes nothing.
func colouring(file *excelize.File) (rules []excelize.ConditionalFormatOptions, err error) {
	for _, c := range colours() {
		style, failed := file.NewConditionalStyle(&excelize.Style{Font: &excelize.Font{Color: c.ink},
			Fill: excelize.Fill{Type: "pattern", Pattern: 1, Color: []string{c.paper}}})
		err = errors.Join(err, failed)
		rules = append(rules, excelize.ConditionalFormatOptions{Type: "cell", Criteria: "=", Format: &style, Value: `"` + both(c.text) + `"`})
	}
	return rules, err
}

func addSheet(file *excelize.File, index int, s *sheet, rules []excelize.ConditionalFormatOptions) error {
	var err error
	if index == 0 { // a new file has one sheet
		err = file.SetSheetName(file.GetSheetName(0), s.name)
	} else {
		_, err = file.NewSheet(s.name)
	}
	if err != nil {
		return err
	}
	last, err := excelize.CoordinatesToCellName(len(s.columns), 1+s.rows)
	if err != nil {
		return err
	}
	failures := []error{file.SetSheetDimension(s.name, "A1:"+last),
		file.SetPanes(s.name, &excelize.Panes{Freeze: true, YSplit: 1, TopLeftCell: "A2", ActivePane: "bottomLeft"})}
	for i, column := range s.columns {
		letters, err := excelize.ColumnNumberToName(i + 1)
		failures = append(failures, err, file.SetColWidth(s.name, letters, letters, column.width))
		if column.coloured && s.rows > 0 {
			place := fmt.Sprintf("%s2:%s%d", letters, letters, 1+s.rows)
			failures = append(failures, file.SetConditionalFormat(s.name, place, rules))
		}
	}
	if s.filter {
		failures = append(failures, file.AutoFilter(s.name, "A1:"+last, nil))
	}
	return errors.Join(failures...)
}

// parts keeps the parts of a workbook by name; the library takes it for an
// archive.
type parts map[string]*bytes.Buffer

// Create begins a part.
func (p parts) Create(name string) (io.Writer, error) {
	p[name] = new(bytes.Buffer)
	return p[name], nil
}

// AddFS is part of the library's interface, which it does not call.
func (p parts) AddFS(fs.FS) error { return errors.ErrUnsupported }

// Close does nothing.
func (p parts) Close() error { return nil }
