package page

import (
	"bufio"
	"io"
)

// Cell writes a cell of the page.
func Cell(w io.Writer, before, text string) {
	t := table{out: bufio.NewWriter(w)}
	t.cell(before, text)
	_ = t.out.Flush()
}

// Skew is how the page says how far a clock is off.
var Skew = skewText
