package find

import (
	"strings"

	"muster/internal/redact/words"
)

// table notes the cells below a head that names a secret: lines of values with the same sign between them, as in CSV
// and in the tables of notes.
func (f *finder) table(k key) {
	if k.line < f.tableEnd || k.start-k.line > maxColumnBytes {
		return
	}
	sign := f.cellSign(k)
	if sign == 0 {
		return
	}
	head := f.line(k.line)
	f.tableEnd = f.lineEnd
	if sign == '|' && !f.isRuled(f.lineEnd) || sign != '|' && indentation(head) > 0 {
		return
	}
	if f.work -= min(len(head), maxColumnBytes); len(head) > maxColumnBytes {
		return
	}
	cells := cellsOf(head, sign)
	secret := make([]bool, len(cells))
	for i, cell := range cells {
		name := strings.Trim(head[cell.Start:cell.End], " \t\r\"'\ufeff")
		if !isColumn(name) && (sign != '|' || name != "") {
			return
		}
		secret[i] = words.IsSecretKey(name)
	}
	f.rows(f.tableEnd, sign, secret)
}

// rows notes the cells of the lines from i on that have as many as the head.
func (f *finder) rows(i int, sign byte, secret []bool) {
	for i < len(f.text) && f.work >= 0 {
		start := i + 1
		line := f.line(start)
		if f.work -= len(line) + lineWork; line == "" {
			return
		}
		i = start + len(line)
		if sign == '|' && isRule(line) {
			f.tableEnd = i
			continue
		}
		cells := cellsOf(line, sign)
		cut := i == len(f.text) && len(cells) > 1 && len(cells) < len(secret)
		if len(cells) != len(secret) && !cut {
			return
		}
		f.tableEnd = i
		for at, cell := range cells {
			if secret[at] {
				f.cell(start+cell.Start, start+cell.End)
			}
		}
	}
}

// isRuled reports whether a line drawn of dashes follows: between bars alone, many things stand that are no table.
func (f *finder) isRuled(i int) bool { return i < len(f.text) && isRule(f.line(i+1)) }

func isRule(line string) bool {
	const longest = 4 * maxColumnBytes
	return len(line) <= longest && strings.Contains(line, "--") && strings.Trim(line, "|+-: \t\r") == ""
}

func (f *finder) cell(start, end int) {
	for end > start && strings.IndexByte(" \t\r", f.text[end-1]) >= 0 {
		end--
	}
	start = skipSpaces(f.text, start)
	if end-start > 1 && f.text[start] == '"' && f.text[end-1] == '"' {
		start, end = start+1, end-1
	}
	if start < end && !words.IsMeasure("", f.text[start:end]) {
		f.add(start, end)
	}
}

// cellSign returns the sign that stands beside a key and parts it from another name, or 0.
func (f *finder) cellSign(k key) byte {
	t := f.text
	before, after := k.start, k.end
	for before > k.line && strings.IndexByte(" \"'", t[before-1]) >= 0 {
		before--
		f.work--
	}
	for after < len(t) && strings.IndexByte(" \"'", t[after]) >= 0 {
		after++
		f.work--
	}
	const signs = ",;\t|"
	if before > k.line && strings.IndexByte(signs, t[before-1]) >= 0 {
		return t[before-1]
	}
	if before == k.line && after < len(t) && strings.IndexByte(signs, t[after]) >= 0 {
		return t[after]
	}
	return 0
}

// cellsOf parts a line at a sign, which between double quotes parts nothing.
func cellsOf(line string, sign byte) []Span {
	var cells []Span
	start, quoted := 0, false
	for i := range len(line) {
		switch c := line[i]; {
		case c == '"':
			quoted = !quoted
		case c == sign && !quoted:
			cells = append(cells, Span{start, i})
			start = i + 1
		}
	}
	return append(cells, Span{start, len(line)})
}

// isColumn reports whether a cell may be the name of a column: words and no more.
func isColumn(s string) bool {
	const most = 3
	if s == "" || words.IsDigit(s[0]) {
		return false
	}
	for range most {
		n := words.NameSize(s)
		if n == 0 {
			return false
		}
		if s = strings.TrimLeft(s[n:], " "); s == "" {
			return true
		}
		if strings.HasPrefix(s, "(") || strings.HasPrefix(s, "（") {
			return true
		}
	}
	return false
}
