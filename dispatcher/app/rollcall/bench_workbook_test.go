//go:build unix

package rollcall_test

import (
	"archive/zip"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"html"
	"io"
	"iter"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/xuri/excelize/v2"
)

// streamed is how long the library takes to stream the cells of a workbook into another
// one: setting the rows and writing the file, and no reading.
func streamed(b *testing.B, name string) (took spell) {
	b.Helper()
	archive, err := zip.OpenReader(name)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = archive.Close() }()
	file := excelize.NewFile()
	style, err := file.NewStyle(&excelize.Style{NumFmt: 49})
	if err != nil {
		b.Fatal(err)
	}
	runtime.GC()
	timed := func(do func() error) {
		began := begin()
		if err := do(); err != nil {
			b.Fatal(err)
		}
		spent := began.end()
		took.wall, took.cpu = took.wall+spent.wall, took.cpu+spent.cpu
	}
	for _, part := range archive.File {
		if !strings.HasPrefix(part.Name, "xl/worksheets/") {
			continue
		}
		sheet := strings.TrimSuffix(filepath.Base(part.Name), ".xml")
		var out *excelize.StreamWriter
		timed(func() (err error) {
			if _, err = file.NewSheet(sheet); err == nil {
				out, err = file.NewStreamWriter(sheet)
			}
			return err
		})
		for at, cells := range cellsOf(b, part, style) {
			timed(func() error { return out.SetRow(fmt.Sprintf("A%d", at+1), cells) })
		}
		timed(out.Flush)
	}
	timed(func() error { return file.Write(io.Discard) })
	timed(file.Close)
	return took
}

var cellPlace = regexp.MustCompile(`^([A-Z]+)`)

// cellsOf are the cells of a sheet, row by row, as the library takes them.
func cellsOf(b *testing.B, part *zip.File, style int) iter.Seq2[int, []any] {
	b.Helper()
	return func(yield func(int, []any) bool) {
		content, err := part.Open()
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = content.Close() }()
		lines := bufio.NewReaderSize(content, 1<<20)
		for at := 0; ; at++ {
			row, err := until(lines, "</row>")
			if err != nil {
				return
			}
			var cells []any
			for cell := range strings.SplitSeq(row, `<c r="`) {
				letters := cellPlace.FindString(cell)
				column, err := excelize.ColumnNameToNumber(letters)
				if letters == "" || err != nil {
					continue // what stands before the first
				}
				for len(cells) < column-1 {
					cells = append(cells, nil)
				}
				cells = append(cells, cellValue(cell, style))
			}
			if !yield(at, cells) {
				return
			}
		}
	}
}

// until reads up to and with an end; it fails where there is none.
func until(in *bufio.Reader, end string) (string, error) {
	var text []byte
	for {
		piece, err := in.ReadSlice('>')
		if text = append(text, piece...); err != nil && !errors.Is(err, bufio.ErrBufferFull) || bytes.HasSuffix(text, []byte(end)) {
			return string(text), err
		}
	}
}

func cellValue(cell string, style int) any {
	if _, text, ok := strings.Cut(cell, `preserve">`); ok {
		text, _, _ = strings.Cut(text, "</t>")
		return excelize.Cell{StyleID: style, Value: html.UnescapeString(text)}
	}
	_, number, _ := strings.Cut(cell, "<v>")
	number, _, _ = strings.Cut(number, "</v>")
	value, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return nil
	}
	if strings.Contains(cell, ` s="`) {
		return excelize.Cell{StyleID: style, Value: value}
	}
	return value
}
