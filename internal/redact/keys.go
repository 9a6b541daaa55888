package redact

import (
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// key is a secret's name in the text and what stands around it.
type key struct {
	name       string
	start, end int
	// value is where the value begins, behind the separator and the spaces around it.
	value int
	// separator is '=' or ':' or, for words on a command line, ' '.
	separator byte
	quoted    bool
	// line is where the key's line begins, and first says that nothing but indentation, a comment's mark, a list's
	// dash or a declaring word comes before the key.
	line  int
	first bool
}

// keys finds the names of secrets with a value behind them.
func (f *finder) keys() {
	for i := 0; i < len(f.text); {
		n := nameSize(f.text[i:])
		if n == 0 {
			i++
			continue
		}
		start, end := i, i+n
		i = end
		for start < end && strings.IndexByte("-.$", f.text[start]) >= 0 {
			start++
		}
		name := f.text[start:end]
		if !isSecretName(name) {
			continue
		}
		f.named = true
		k := key{name: name, start: start, end: end}
		k.line = strings.LastIndexByte(f.text[:start], '\n') + 1
		if f.isElement(k) {
			f.element(k)
			continue
		}
		if f.separate(&k) {
			f.value(k)
		}
	}
}

// nameSize returns the length of a name at the start of s.
func nameSize(s string) int {
	n := 0
	for n < len(s) {
		c := s[n]
		if c < utf8.RuneSelf {
			if !isAlphanumeric(c) && strings.IndexByte("_-.$", c) < 0 {
				break
			}
			n++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[n:])
		if !unicode.IsLetter(r) {
			break
		}
		n += size
	}
	return n
}

// separate finds the separator behind a key and fills in the rest of the key.
func (f *finder) separate(k *key) bool {
	t, i := f.text, k.end
	for i < len(t) && i < k.end+6 && strings.IndexByte("\\\"'`]", t[i]) >= 0 {
		i++
		k.quoted = true
	}
	if strings.HasPrefix(t[i:], "&quot;") {
		i += len("&quot;")
		k.quoted = true
	}
	spaced := skipSpaces(t, i)
	// What declares a setting is short; a key far into a line does not begin it.
	k.first = k.start-k.line <= 200 && declaration().MatchString(t[k.line:k.start])
	i = skipRemark(t, spaced)
	switch {
	case strings.HasPrefix(t[i:], "："), strings.HasPrefix(t[i:], "＝"):
		k.separator, i = ':', i+len("：")
	case i < len(t) && (t[i] == '=' || t[i] == ':'):
		k.separator = t[i]
		for i < len(t) && strings.IndexByte("=:>~", t[i]) >= 0 {
			i++
		}
	case i+1 < len(t) && (t[i] == '+' || t[i] == '?') && t[i+1] == '=':
		k.separator, i = '=', i+2
	case spaced > k.end && f.isDirective(k, spaced):
		k.separator, i = ' ', spaced
	default:
		return false
	}
	k.value = skipSpaces(t, i)
	return true
}

func skipSpaces(t string, i int) int {
	for i < len(t) && (t[i] == ' ' || t[i] == '\t') {
		i++
	}
	return i
}

// skipRemark passes a short remark in brackets behind a key: "密码（必填）：".
func skipRemark(t string, i int) int {
	for _, pair := range [...][2]string{{"(", ")"}, {"（", "）"}} {
		if !strings.HasPrefix(t[i:], pair[0]) {
			continue
		}
		line, _, _ := strings.Cut(t[i:min(len(t), i+60)], "\n")
		if end := strings.Index(line, pair[1]); end > 0 {
			return skipSpaces(t, i+end+len(pair[1]))
		}
	}
	return i
}

// isDirective reports whether a key and a space make a setting: an option of a command ("--password x"), a quoted word
// behind the key, a line of two words ("requirepass x"), or a line of netrc.
func (f *finder) isDirective(k *key, value int) bool {
	t := f.text
	if value >= len(t) || t[value] == '\n' {
		return false
	}
	if k.start > 0 && t[k.start-1] == '-' || t[value] == '"' || t[value] == '\'' {
		return true
	}
	line := lineAt(t, k.line)
	if strings.HasPrefix(strings.TrimSpace(line), "machine ") {
		return true
	}
	return k.first && len(strings.Fields(t[k.start:k.line+len(line)])) == 2
}

func lineAt(t string, start int) string {
	if end := strings.IndexByte(t[start:], '\n'); end >= 0 {
		return t[start : start+end]
	}
	return t[start:]
}

// declaration matches what may stand before the key that a line sets.
var declaration = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^[\s#;/*!>|"'` + "`" + `-]*` +
		`(?:(?:export|set|setx|env|arg|rem|declare|local|let|var|const|final|static|private|public|protected|readonly|` +
		`string|define|-x|default)\s+)*(?:\$env:|\$|-D|@)?["'` + "`" + `]?[-.$]*$`)
})
