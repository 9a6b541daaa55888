package find

import "strings"

// quotedAt returns where the inside of a quoted value begins and ends. A quote may be escaped, as in JSON within JSON,
// and is then closed by one that is escaped as often. A quote that is never closed goes on to the end of its line.
func (f *finder) quotedAt(v int) (inner, end int, ok bool) {
	t, i := f.text, v
	for i < len(t) && i < v+8 && t[i] == '\\' {
		i++
	}
	escape := t[v:i]
	if i < len(t) && strings.IndexByte("@rbuf$LN", t[i]) >= 0 && i+1 < len(t) && (t[i+1] == '"' || t[i+1] == '\'') {
		i++
	}
	for _, quote := range [...]string{`"""`, `'''`, `"`, `'`, "`", "&quot;", "&apos;", "“", "‘"} {
		if !strings.HasPrefix(t[i:], quote) {
			continue
		}
		inner = i + len(quote)
		end = closing(t, inner, escape, quote)
		if end < 0 {
			f.work -= min(maxQuotedBytes, len(t)-inner)
			end = inner + len(f.line(inner))
		}
		f.work -= end - inner
		return inner, end, true
	}
	return 0, 0, false
}

// maxQuotedBytes bounds a quoted value: farther than this a quote was not meant to be closed.
const maxQuotedBytes = 64 << 10

// closing returns where the closing quote (with its escape) begins, or -1.
func closing(t string, from int, escape, quote string) int {
	switch quote {
	case "“":
		quote = "”"
	case "‘":
		quote = "’"
	}
	limit := min(len(t), from+maxQuotedBytes)
	for i := from; i < limit; i++ {
		if escape == "" && len(quote) == 1 && quote != "`" && t[i] == '\\' {
			i++
			continue
		}
		if !strings.HasPrefix(t[i:limit], escape+quote) {
			continue
		}
		// Twice the quote is one quote in the value: SQL, CSV, YAML.
		if escape == "" && len(quote) == 1 && strings.HasPrefix(t[i+1:limit], quote) {
			i++
			continue
		}
		if escape != "" && i > from && t[i-1] == '\\' {
			continue
		}
		return i
	}
	return -1
}
