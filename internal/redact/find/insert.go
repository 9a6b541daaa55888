package find

import (
	"strings"

	"muster/internal/redact/words"
)

// maxColumnBytes bounds the list of columns in a statement or at the head of a table.
const maxColumnBytes = 4096

// insert notes what SQL's INSERT gives to columns with a secret's name: INSERT INTO t (user, password) VALUES (…), (…).
func (f *finder) insert(end int) {
	t := f.text
	const farthest = 300 // a table's name and its owner's are shorter
	head := t[end:min(len(t), end+maxColumnBytes)]
	open := strings.IndexAny(head[:min(len(head), farthest)], "(;=")
	f.work -= farthest / 4
	if open < 0 || head[open] != '(' || !strings.Contains(strings.ToLower(head[:open]), "into") {
		return
	}
	size := strings.IndexByte(head[open:], ')')
	if f.work -= max(size, 0); size < 0 {
		return
	}
	var secret []bool
	some := false
	for column := range strings.SplitSeq(head[open+1:open+size], ",") {
		is := words.IsSecretKey(strings.Trim(column, " \t\r\n\\\"'`[]"))
		secret, some = append(secret, is), some || is
	}
	i := skipBlank(t, end+open+size+1)
	if !some || i+len("values") > len(t) || !strings.EqualFold(t[i:i+len("values")], "values") {
		return
	}
	for i = skipBlank(t, i+len("values")); i < len(t) && t[i] == '(' && f.work >= 0; {
		i = skipBlank(t, f.tuple(i+1, secret))
		if i == len(t) || t[i] != ',' {
			return
		}
		i = skipBlank(t, i+1)
	}
}

// tuple notes the secrets of the values from i on and returns where the bracket that closes them ends.
func (f *finder) tuple(i int, secret []bool) int {
	t := f.text
	depth, start, column := 0, i, 0
	for ; i < len(t) && f.work >= 0; f.work-- {
		switch c := t[i]; {
		case c == '\'' || c == '"':
			_, end, _ := f.quotedAt(i)
			i = max(min(end, len(t)-1), i)
		case c == '(':
			depth++
		case depth == 0 && (c == ',' || c == ')'):
			if column < len(secret) && secret[column] {
				f.argumentOf(start, i)
			}
			column, start = column+1, i+1
			if c == ')' {
				return i + 1
			}
		case c == ')':
			depth--
		}
		i++
	}
	if i >= len(t) && column < len(secret) && secret[column] { // the text was cut
		f.argumentOf(start, len(t))
	}
	return min(i, len(t))
}

// argumentOf notes one value of SQL, the inside of its quotes where it has some.
func (f *finder) argumentOf(start, end int) {
	start = skipBlank(f.text, start)
	if start >= end {
		return
	}
	if inner, until, ok := f.quotedAt(start); ok {
		start, end = inner, min(until, end)
	} else if strings.IndexByte("?$:@%", f.text[start]) >= 0 { // the place of a parameter
		return
	}
	if !words.IsMeasure("", f.text[start:end]) {
		f.add(start, end)
	}
}

func skipBlank(t string, i int) int {
	for i < len(t) && strings.IndexByte(" \t\r\n", t[i]) >= 0 {
		i++
	}
	return i
}
