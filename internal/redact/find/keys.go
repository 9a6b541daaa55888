package find

import (
	"slices"
	"strings"

	"muster/internal/redact/words"
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
	line := 0
	for i := 0; i < len(f.text); {
		n := words.NameSize(f.text[i:])
		if n == 0 {
			if f.text[i] == '\n' {
				line = i + 1
			}
			i++
			continue
		}
		start, end := i, i+n
		i = end
		for start < end && strings.IndexByte("-.$", f.text[start]) >= 0 {
			start++
		}
		name := f.text[start:end]
		if !words.IsSecretName(name) {
			continue
		}
		f.key(key{name: name, start: start, end: end, line: line})
		if f.work < 0 {
			f.add(start, len(f.text))
			return
		}
	}
}

// key notes what belongs to one name of a secret.
func (f *finder) key(k key) {
	f.pairs(k)
	if f.isElement(k) {
		f.element(k)
		return
	}
	if f.separate(&k) {
		f.value(k)
		return
	}
	f.table(k)
}

// maxDeclaration bounds what may declare a setting before its key.
const maxDeclaration = 200

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
	f.work -= min(k.start-k.line, maxDeclaration) / 4
	k.first = k.start-k.line <= maxDeclaration && isDeclaration(t[k.line:k.start])
	if at := f.argument(k, spaced); at >= 0 {
		k.separator, k.value, k.quoted = ',', at, true
		return true
	}
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
	case spaced > k.end && strings.HasPrefix(t[spaced:], "is ") && f.isRandomWord(spaced+len("is ")):
		k.separator, i = ' ', spaced+len("is ")
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
// behind the key, a line of two words ("requirepass x"), a line of netrc, or a word that nobody would write in a sentence.
func (f *finder) isDirective(k *key, value int) bool {
	t := f.text
	if value >= len(t) || t[value] == '\n' {
		return false
	}
	if k.start > 0 && t[k.start-1] == '-' || t[value] == '"' || t[value] == '\'' {
		return true
	}
	if before := strings.TrimLeft(t[k.line:min(k.start, k.line+contextBytes)], " \t"); strings.HasPrefix(before, "machine ") {
		return true
	}
	f.work -= min(k.start-k.line, contextBytes)
	return k.first && isTwoWords(f.line(k.start)) || f.isRandomWord(value)
}

// isRandomWord reports whether the word at i looks drawn by lot, as in a sentence that tells a password.
func (f *finder) isRandomWord(i int) bool {
	const window = 64
	word := f.text[i:min(len(f.text), i+window)]
	if end := strings.IndexAny(word, " \t\r\n\"'<>"); end >= 0 {
		word = word[:end]
	}
	f.work -= len(word)
	return isRandom(word) && !strings.ContainsAny(word, "/.") // a file's name has as many digits
}

// isTwoWords reports whether a line holds exactly two words.
func isTwoWords(line string) bool {
	const most = 1024 // no line of two words is as long
	return len(line) <= most && len(strings.Fields(line)) == 2
}

func lineAt(t string, start int) string {
	if end := strings.IndexByte(t[start:], '\n'); end >= 0 {
		return t[start : start+end]
	}
	return t[start:]
}

// isDeclaration reports whether only what may come before the key that a line sets stands in before: marks of comments
// and lists, quotes, words that declare, and the sign of a variable.
func isDeclaration(before string) bool {
	rest := strings.TrimLeft(before, " \t\r\n\f\v#;/*!>|\"'`-")
	for {
		word, after, found := strings.Cut(rest, " ")
		if at := strings.IndexByte(rest, '\t'); at >= 0 && (!found || at < len(word)) {
			word, after, found = rest[:at], rest[at+1:], true
		}
		if at := len(before) - len(rest); word == "x" && at > 0 && before[at-1] == '-' {
			word = "-x"
		}
		if !found || !slices.Contains(declaring(), strings.ToLower(word)) {
			break
		}
		rest = strings.TrimLeft(after, " \t")
	}
	if strings.EqualFold(rest, "D") && len(before) > 1 {
		return before[len(before)-2] == '-' // -Dkey=value
	}
	for _, sign := range [...]string{"$env:", "$", "-D", "@"} {
		if len(rest) >= len(sign) && strings.EqualFold(rest[:len(sign)], sign) {
			rest = rest[len(sign):]
			break
		}
	}
	if rest != "" && strings.IndexByte("\"'`", rest[0]) >= 0 {
		rest = rest[1:]
	}
	return strings.Trim(rest, "-.$") == ""
}

// declaring are the words that declare a setting.
func declaring() []string {
	return []string{
		"export", "set", "setx", "env", "arg", "rem", "declare", "local", "let", "var", "const", "final", "static", "private",
		"public", "protected", "readonly", "string", "define", "-x", "default",
	}
}
