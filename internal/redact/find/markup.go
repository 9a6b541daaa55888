package find

import (
	"regexp"
	"strings"
	"sync"

	"muster/internal/redact/words"
)

// isElement reports whether the key is the name in an opening tag, with or without a prefix.
func (f *finder) isElement(k key) bool {
	i := k.start
	for i > 0 && (words.IsAlphanumeric(f.text[i-1]) || strings.IndexByte("_-.:", f.text[i-1]) >= 0) {
		i--
	}
	if i == 0 || f.text[i-1] != '<' || k.end >= len(f.text) {
		return false
	}
	return strings.IndexByte(" \t\n/>", f.text[k.end]) >= 0
}

// element notes what an element with a secret's name holds: its text, and the attributes that carry values.
func (f *finder) element(k key) {
	end := f.tagEnd(k.end)
	f.valueAttributes(k.end, end)
	if end > 0 && f.text[end-1] != '/' && end < len(f.text) {
		f.elementText(end+1, k.name)
	}
}

// tagEnd returns where the tag's ">" stands, quotes respected, or the end of the text.
func (f *finder) tagEnd(i int) int {
	t := f.text
	var open byte
	for ; i < len(t) && f.work >= 0; i++ {
		f.work--
		switch c := t[i]; {
		case open == 0 && c == '>':
			return i
		case open == 0 && (c == '"' || c == '\''):
			open = c
		case c == open:
			open = 0
		}
	}
	return i
}

// maxElementBytes bounds how far off an element's closing tag is looked for.
const maxElementBytes = 64 << 10

// indexClosing returns where the closing tag of a name ends in s, or -1. The case of letters is left out of account.
func (f *finder) indexClosing(s, name string) int {
	for i := 0; f.work >= 0; {
		at := strings.IndexByte(s[i:], '>')
		if at < 0 {
			f.work -= (len(s) - i) / 4
			return -1
		}
		f.work -= at + 1
		i += at
		if start := i - len(name); start >= 0 && strings.EqualFold(s[start:i], name) && isClosing(s[max(0, start-maxPrefixBytes):start]) {
			return start
		}
		i++
	}
	return -1
}

// maxPrefixBytes bounds the prefix of an element's name, with its sign.
const maxPrefixBytes = 64

// isClosing reports whether what stands before a name makes it that of a closing tag.
func isClosing(before string) bool {
	at := strings.LastIndexByte(before, '<')
	return at >= 0 && strings.HasPrefix(before[at:], "</") && !strings.ContainsAny(before[at:], " \t\n>")
}

// elementText notes the text up to the closing tag of the name; the tags in between stay.
func (f *finder) elementText(from int, name string) {
	t := f.text
	end := -1
	if at := f.indexClosing(t[from:min(len(t), from+maxElementBytes)], name); at >= 0 {
		end = from + strings.LastIndexByte(t[from:from+at], '<')
	}
	if end < from {
		// Without a closing tag the value is what stands on the line.
		end = from + len(f.line(from))
		if at := strings.IndexByte(t[from:end], '<'); at >= 0 && !strings.HasPrefix(t[from+at:], "<!") {
			end = from + at
		}
	}
	f.work -= max(0, end-from)
	for i := from; i < end && f.work >= 0; {
		switch {
		case strings.HasPrefix(t[i:end], "<![CDATA["):
			stop := end
			if at := strings.Index(t[i:], "]]>"); at >= 0 {
				stop = i + at
			}
			f.add(i+len("<![CDATA["), stop)
			i = stop + 3
			end = max(end, i)
		case t[i] == '<':
			i = f.tagEnd(i) + 1
		default:
			stop := end
			if at := strings.IndexByte(t[i:end], '<'); at >= 0 {
				stop = i + at
			}
			if !words.IsMeasure("", t[i:stop]) {
				f.add(i, stop)
			}
			i = stop
		}
	}
}

// valueAttributes notes the attributes between two offsets that carry a setting's value.
func (f *finder) valueAttributes(from, until int) {
	f.work -= 4 * max(0, until-from) // an expression is that much dearer
	if f.work < 0 {
		return
	}
	for _, at := range valueAttribute().FindAllStringIndex(f.text[from:until], -1) {
		if inner, end, ok := f.quotedAt(from + at[1] - 1); ok && !words.IsMeasure("", f.text[inner:end]) {
			f.add(inner, end)
		}
	}
}

var valueAttribute = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)[\s"'](?:value|val|default|content|data|text)\s*=\s*["']`)
})

// pairs finds the value of a setting whose name is itself a value: <add key="Password" value="…"/>,
// <entry key="password">…</entry>, <key>password</key><string>…</string>, {"name": "DB_PASSWORD", "value": "…"} and the
// same in YAML.
func (f *finder) pairs(k key) {
	t := f.text
	start, end := k.start, k.end
	for start > 0 && k.start-start < maxNameBytes && strings.IndexByte(" \t\r\n\"'\\,<>{}=:", t[start-1]) < 0 {
		start--
	}
	for end < len(t) && end-k.end < maxNameBytes && strings.IndexByte(" \t\r\n\"'\\,<>{}=:", t[end]) < 0 {
		end++
	}
	f.work -= end - start
	if start == 0 || !words.IsSecretName(t[start:end]) {
		return
	}
	from, until := max(0, start-maxLabelBytes), min(len(t), end+maxLabelBytes)
	before := t[from:start]
	if trimmed := strings.TrimRight(before, " \t\r\n"); strings.HasSuffix(trimmed, ">") {
		f.work -= until - from
		if at := nameElement().FindStringSubmatchIndex(t[from:until]); at != nil && from+at[2] == start {
			f.elementText(from+at[1], t[from+at[4]:from+at[5]])
		}
		return
	}
	if at := labelBefore(before); at >= 0 {
		for end < len(t) && strings.IndexByte("\\\"'", t[end]) >= 0 {
			end++
		}
		f.pair(from+at, end)
	}
}

// labelBefore returns where the label begins behind which a name stands as a value ("name: …", "key=…"), the character
// before it included, or -1.
func labelBefore(before string) int {
	label := strings.TrimRight(before, " \t\r\n\\\"'")
	if !strings.HasSuffix(label, "=") && !strings.HasSuffix(label, ":") {
		return -1
	}
	label = strings.TrimRight(label[:len(label)-1], " \t\r\n\\\"'")
	start := len(label)
	for start > 0 && len(label)-start <= len("property") && words.IsAlphanumeric(label[start-1]) {
		start--
	}
	if !words.IsLabel(label[start:]) || start > 0 && strings.IndexByte("\"' \t\r\n{,\\", label[start-1]) < 0 {
		return -1
	}
	return max(0, start-1)
}

const (
	// maxNameBytes bounds a secret's name.
	maxNameBytes = 200
	// maxLabelBytes bounds what stands between a name and what says that it is one.
	maxLabelBytes = 100
)

var nameElement = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)<(?:[\w.-]*:)?(?:key|name|id|[\w-]+-name)>\s*([^\s<>]+)\s*</[^<>]*>\s*<([\w.:-]+)[^<>]*>`)
})

// pair notes the value that stands beside the name between two offsets.
func (f *finder) pair(start, end int) {
	t := f.text
	back := max(0, start-reach)
	around := t[back:start]
	f.work -= (start - back) / 4
	open, closed := strings.LastIndexByte(t[back:start+1], '<'), strings.LastIndexByte(around, '>')
	if open >= 0 && open > closed && back+open+1 < len(t) && words.IsAlphanumeric(t[back+open+1]) {
		open += back
		tag := f.tagEnd(open)
		f.valueAttributes(open, tag)
		if tag < len(t) && t[tag-1] != '/' {
			f.elementText(tag+1, t[open+1:open+1+words.NameSize(t[open+1:])])
		}
		return
	}
	from, until := f.objectAround(start, end)
	f.work -= 4 * (until - from)
	if f.work < 0 {
		return
	}
	for _, at := range valueLabel().FindAllStringIndex(t[from:until], -1) {
		k := key{start: from + at[0], end: from + at[1], value: from + at[1], separator: ':'}
		k.line = max(0, k.start-reach)
		if at := strings.LastIndexByte(t[k.line:k.start], '\n'); at >= 0 {
			k.line += at + 1
		}
		// The whole of the line is the value where the label begins it, as in YAML.
		k.first = strings.Trim(t[k.line:k.start+1], " \t-\"'") == ""
		k.quoted = strings.ContainsAny(t[k.start:k.end], `"'`)
		f.value(k)
	}
}

var valueLabel = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(?:^|["'\s{,\\])(?:value|val|default|content|data)[\\"']*[ \t]*[:=][ \t]*`)
})

// reach bounds how far from a name its value is looked for.
const reach = 2000

// objectAround returns the bounds of the object that a name stands in: its braces, or YAML's lines of one item.
func (f *finder) objectAround(start, end int) (from, until int) {
	t := f.text
	from, until = max(0, start-reach), min(len(t), end+reach)
	f.work -= (until - from) / 4
	if at := strings.LastIndexAny(t[from:start+1], "{}"); at >= 0 {
		from += at
	}
	if at := strings.IndexAny(t[end:until], "{}"); at >= 0 {
		until = end + at
	}
	// A new item or an empty line ends an item of YAML; the dash of the item itself may stand before the name.
	if at := lastBoundary(t[from:start]); at >= 0 {
		from += at
	}
	if at := nextBoundary(t[end:until]); at >= 0 {
		until = end + at
	}
	return from, until
}

// isBoundary reports whether the line break at i is followed by an empty line or a new item of a list.
func isBoundary(s string, i int) bool {
	i = skipSpaces(s, i+1)
	return i < len(s) && (s[i] == '\n' || s[i] == '-' && i+1 < len(s) && (s[i+1] == ' ' || s[i+1] == '\t'))
}

func nextBoundary(s string) int {
	for i := 0; ; i++ {
		at := strings.IndexByte(s[i:], '\n')
		if at < 0 {
			return -1
		}
		if i += at; isBoundary(s, i) {
			return i
		}
	}
}

func lastBoundary(s string) int {
	for end := len(s); ; {
		at := strings.LastIndexByte(s[:end], '\n')
		if at < 0 || isBoundary(s, at) {
			return at
		}
		end = at
	}
}
