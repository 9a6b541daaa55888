package screen

import (
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/text/width"

	"muster/internal/machine"
)

const (
	// gap is between two columns.
	gap = 2
	// narrowest is the width that a column keeps however small the screen is: a
	// character and what says that there is more.
	narrowest = 8
)

// Table is rows under a heading, in columns as wide as their widest cell; wide
// characters, such as Chinese ones, count twice. On a screen that is narrower, the
// widest columns are cut, and cells that are cut end in "…". Call NewTable.
type Table struct {
	w     io.Writer
	most  int // characters of a line, 0: any number
	rows  [][]string
	rooms []int
}

// NewTable begins a table with its heading; none begins it with the first row.
func NewTable(w io.Writer, heading ...string) *Table {
	t := &Table{w: w}
	if file, ok := w.(*os.File); ok {
		t.most = machine.Columns(file)
	}
	if len(heading) > 0 {
		t.Row(heading...)
	}
	return t
}

// Within bounds the width of a line, for a screen that is no file.
func (t *Table) Within(characters int) *Table { t.most = characters; return t }

// Row adds a row. What people wrote cannot move the cursor.
func (t *Table) Row(cells ...string) {
	for i, cell := range cells {
		cells[i] = Plain(cell)
		if i == len(t.rooms) {
			t.rooms = append(t.rooms, 0)
		}
		t.rooms[i] = max(t.rooms[i], Width(cells[i]))
	}
	t.rows = append(t.rows, cells)
}

// Flush writes the table.
func (t *Table) Flush() {
	t.fit()
	var b strings.Builder
	for _, row := range t.rows {
		for i, cell := range row {
			cell = clip(cell, t.rooms[i])
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", t.rooms[i]-Width(cell)+gap))
			}
		}
		b.WriteByte('\n')
	}
	Say(t.w, "%s", b.String())
	t.rows = nil
}

// fit takes from the widest columns until a line fits, or none can give more.
func (t *Table) fit() {
	total := gap * max(len(t.rooms)-1, 0)
	for _, room := range t.rooms {
		total += room
	}
	for t.most > 0 && total > t.most {
		widest := 0
		for i, room := range t.rooms {
			if room > t.rooms[widest] {
				widest = i
			}
		}
		if t.rooms[widest] <= narrowest {
			return
		}
		t.rooms[widest]--
		total--
	}
}

// clip is a text within a room, with "…" for what does not fit.
func clip(text string, room int) string {
	if Width(text) <= room {
		return text
	}
	var b strings.Builder
	left := room - 1
	for _, r := range text {
		if left -= runeWidth(r); left < 0 {
			break
		}
		b.WriteRune(r)
	}
	return b.String() + "…"
}

// Width is how many columns of a screen a text takes.
func Width(text string) int {
	n := 0
	for _, r := range text {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case width.LookupRune(r).Kind() == width.EastAsianWide, width.LookupRune(r).Kind() == width.EastAsianFullwidth:
		return 2
	}
	return 1
}
