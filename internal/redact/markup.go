package redact

import (
	"regexp"
	"strings"
	"sync"
)

// isElement reports whether the key is the name in an opening tag, with or without a prefix.
func (f *finder) isElement(k key) bool {
	i := k.start
	for i > 0 && (isAlphanumeric(f.text[i-1]) || strings.IndexByte("_-.:", f.text[i-1]) >= 0) {
		i--
	}
	if i == 0 || f.text[i-1] != '<' || k.end >= len(f.text) {
		return false
	}
	return strings.IndexByte(" \t\n/>", f.text[k.end]) >= 0
}

// element notes what an element with a secret's name holds: its text, and the attributes that carry values.
func (f *finder) element(k key) {
	end := tagEnd(f.text, k.end)
	f.valueAttributes(k.end, end)
	if end > 0 && f.text[end-1] != '/' && end < len(f.text) {
		f.elementText(end+1, k.name)
	}
}

// tagEnd returns where the tag's ">" stands, quotes respected, or the end of the text.
func tagEnd(t string, i int) int {
	var open byte
	for ; i < len(t); i++ {
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

// indexFold is strings.Index with the case of ASCII letters left out of account.
func indexFold(s, part string) int {
	for i := 0; i+len(part) <= len(s); i++ {
		if strings.EqualFold(s[i:i+len(part)], part) {
			return i
		}
	}
	return -1
}

// elementText notes the text up to the closing tag of the name; the tags in between stay.
func (f *finder) elementText(from int, name string) {
	t := f.text
	end := -1
	if at := indexFold(t[from:min(len(t), from+maxElementBytes)], name+">"); at >= 0 {
		end = from + strings.LastIndexByte(t[from:from+at], '<')
	}
	if end < from {
		// Without a closing tag the value is what stands on the line.
		end = from + len(lineAt(t, from))
		if at := strings.IndexByte(t[from:end], '<'); at >= 0 && !strings.HasPrefix(t[from+at:], "<!") {
			end = from + at
		}
	}
	for i := from; i < end; {
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
			i = tagEnd(t, i) + 1
		default:
			stop := end
			if at := strings.IndexByte(t[i:end], '<'); at >= 0 {
				stop = i + at
			}
			if !isMeasure("", t[i:stop]) {
				f.add(i, stop)
			}
			i = stop
		}
	}
}

// valueAttributes notes the attributes between two offsets that carry a setting's value.
func (f *finder) valueAttributes(from, until int) {
	for _, at := range valueAttribute().FindAllStringIndex(f.text[from:until], -1) {
		if inner, end, ok := quotedAt(f.text, from+at[1]-1); ok && !isMeasure("", f.text[inner:end]) {
			f.add(inner, end)
		}
	}
}

var valueAttribute = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)[\s"'](?:value|val|default|content|data|text)\s*=\s*["']`)
})

// pairs finds settings whose name is itself a value: <add key="Password" value="…"/>, <entry key="password">…</entry>,
// <key>password</key><string>…</string>, {"name": "DB_PASSWORD", "value": "…"} and the same in YAML.
func (f *finder) pairs() {
	for _, at := range nameAttribute().FindAllStringSubmatchIndex(f.text, -1) {
		if isSecretName(f.text[at[2]:at[3]]) {
			f.pair(at[0], at[1])
		}
	}
	for _, at := range nameElement().FindAllStringSubmatchIndex(f.text, -1) {
		if isSecretName(f.text[at[2]:at[3]]) {
			f.elementText(at[1], f.text[at[4]:at[5]])
		}
	}
}

var nameAttribute = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)["'\s{,\\](?:key|name|id|property|param|field|setting|option|variable|header|label|item)` +
		`[\\"']*\s*[:=]\s*[\\"']*([^\s"'\\,<>{}=:]+)[\\"']*`)
})

var nameElement = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)<(?:[\w.-]*:)?(?:key|name|id|[\w-]+-name)>\s*([^\s<>]+)\s*</[^<>]*>\s*<([\w.:-]+)[^<>]*>`)
})

// pair notes the value that stands beside the name between two offsets.
func (f *finder) pair(start, end int) {
	t := f.text
	open, closed := strings.LastIndexByte(t[:start+1], '<'), strings.LastIndexByte(t[:start], '>')
	if open >= 0 && open > closed && open+1 < len(t) && isAlphanumeric(t[open+1]) {
		tag := tagEnd(t, open)
		f.valueAttributes(open, tag)
		if tag < len(t) && t[tag-1] != '/' {
			f.elementText(tag+1, t[open+1:open+1+nameSize(t[open+1:])])
		}
		return
	}
	from, until := objectAround(t, start, end)
	for _, at := range valueLabel().FindAllStringIndex(t[from:until], -1) {
		k := key{start: from + at[0], end: from + at[1], value: from + at[1], separator: ':'}
		k.line = strings.LastIndexByte(t[:k.start], '\n') + 1
		// The whole of the line is the value where the label begins it, as in YAML.
		k.first = strings.Trim(t[k.line:k.start+1], " \t-\"'") == ""
		k.quoted = strings.ContainsAny(t[k.start:k.end], `"'`)
		f.value(k)
	}
}

var valueLabel = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(?:^|["'\s{,\\])(?:value|val|default|content|data)[\\"']*[ \t]*[:=][ \t]*`)
})

// objectAround returns the bounds of the object that a name stands in: its braces, or YAML's lines of one item.
func objectAround(t string, start, end int) (from, until int) {
	const reach = 2000
	from, until = max(0, start-reach), min(len(t), end+reach)
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
	if at := itemBoundary().FindStringIndex(t[end:until]); at != nil {
		until = end + at[0]
	}
	return from, until
}

var itemBoundary = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\n[ \t]*(?:\n|-[ \t])`) })

func lastBoundary(s string) int {
	all := itemBoundary().FindAllStringIndex(s, -1)
	if len(all) == 0 {
		return -1
	}
	return all[len(all)-1][0]
}
