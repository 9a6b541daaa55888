package report_test

import (
	"archive/zip"
	"encoding/xml"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// book is a workbook as it lies in its archive, read without the library.
type book struct {
	parts  map[string]string
	order  []string
	sheets [][]xlsxRow // in their order; the first row is the header
}

type xlsxRow struct {
	Cells []xlsxCell `xml:"c"`
}

type xlsxCell struct {
	Ref     string  `xml:"r,attr"`
	Type    string  `xml:"t,attr"`
	Style   int     `xml:"s,attr"`
	Formula *string `xml:"f"`
	Number  string  `xml:"v"`
	Text    *string `xml:"is>t"`
}

// show is a cell in one line: a string in quotes, a number as it is.
func (c xlsxCell) show() string {
	if c.Type == "inlineStr" && c.Text != nil {
		return strconv.Quote(unescaped(*c.Text))
	}
	return c.Type + c.Number
}

// cell is the cell in that column, empty if there is none.
func (r xlsxRow) cell(column string) xlsxCell {
	for _, c := range r.Cells {
		if strings.TrimRight(c.Ref, "0123456789") == column {
			return c
		}
	}
	return xlsxCell{}
}

// under is the cell under a header that has the English words.
func (b book) under(sheet int, english string, row int) xlsxCell {
	for _, c := range b.sheets[sheet][0].Cells {
		if strings.HasSuffix(c.show(), `\n`+english+`"`) {
			return b.sheets[sheet][row].cell(strings.TrimRight(c.Ref, "0123456789"))
		}
	}
	return xlsxCell{Number: "no column " + english}
}

// summary is the value of a line of the summary.
func (b book) summary(about string) string {
	for _, row := range b.sheets[0] {
		if strings.HasSuffix(row.cell("A").show(), " "+about+`"`) {
			return row.cell("B").show()
		}
	}
	return "no line " + about
}

func readXLSX(t tb, file string) book {
	t.Helper()
	b := unzipped(t, file)
	for number := 1; b.parts[sheetPart(number)] != ""; number++ {
		b.sheets = append(b.sheets, b.rows(t, number))
	}
	return b
}

// unzipped is a workbook of which no sheet is read yet.
func unzipped(t tb, file string) book {
	t.Helper()
	archive, err := zip.NewReader(strings.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatalf("not an archive: %v", err)
	}
	b := book{parts: map[string]string{}}
	for _, f := range archive.File {
		part, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(part)
		if err != nil {
			t.Fatal(err)
		}
		b.parts[f.Name] = string(text)
		b.order = append(b.order, f.Name)
	}
	return b
}

// sheetPart is where a sheet lies, counted from 1.
func sheetPart(number int) string { return fmt.Sprintf("xl/worksheets/sheet%d.xml", number) }

func (b book) rows(t tb, number int) []xlsxRow {
	t.Helper()
	var sheet struct {
		Rows []xlsxRow `xml:"sheetData>row"`
	}
	name := sheetPart(number)
	if err := xml.Unmarshal([]byte(b.parts[name]), &sheet); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return sheet.Rows
}

// unescaped reads _x0041_ as spreadsheets do.
func unescaped(text string) string {
	return regexp.MustCompile(`_x[0-9A-Fa-f]{4}_`).ReplaceAllStringFunc(text, func(escape string) string {
		n, err := strconv.ParseUint(escape[2:6], 16, 16)
		if err != nil {
			return escape
		}
		return string(rune(n))
	})
}

// dump is a workbook as text: its parts, what surrounds the rows, and each cell.
func (b book) dump() string {
	var out strings.Builder
	for _, name := range b.order {
		fmt.Fprintf(&out, "== %s\n", name)
		before, rest, ok := strings.Cut(b.parts[name], "<sheetData>")
		switch {
		case name == "xl/theme/theme1.xml": // the library's, always the same
		case ok:
			_, after, _ := strings.Cut(rest, "</sheetData>")
			fmt.Fprintf(&out, "%s\n", before)
			for _, row := range b.sheets[int(name[len("xl/worksheets/sheet")]-'1')] {
				for _, c := range row.Cells {
					fmt.Fprintf(&out, "%s\ts%d\t%s\n", c.Ref, c.Style, c.show())
				}
			}
			fmt.Fprintf(&out, "%s\n", after)
		default:
			fmt.Fprintf(&out, "%s\n", b.parts[name])
		}
	}
	return out.String()
}
