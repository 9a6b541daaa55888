package find

import (
	"regexp"
	"strings"
	"sync"

	"muster/internal/redact/words"
)

// below notes the one word on the line below a key with nothing behind it. In a log the words before it are those
// before the key.
func (f *finder) below(k key) {
	t := f.text
	start := k.value + 1
	if start >= len(t) {
		return
	}
	line := f.line(start)
	f.work -= min(len(line), contextBytes) + lineWork
	prefix := t[k.line:min(k.start, k.line+maxDeclaration)]
	size := sharedPrefix(prefix, line)
	if size == 0 {
		if !k.first {
			return
		}
		size = indentation(line)
	}
	if word := strings.TrimRight(line[size:], " \t\r"); isLone(word) {
		f.add(start+size, start+size+len(word))
	}
}

// sharedPrefix returns the length of what stands before a key when a line begins in the same way, digits aside, as lines
// of one log do and those with one comment's mark; or 0.
func sharedPrefix(prefix, line string) int {
	if len(line) <= len(prefix) || strings.TrimSpace(prefix) == "" {
		return 0
	}
	for i := range len(prefix) {
		if prefix[i] != line[i] && !(words.IsDigit(prefix[i]) && words.IsDigit(line[i])) {
			return 0
		}
	}
	return len(prefix)
}

// isLone reports whether a line is one word that sets nothing and closes nothing, and is no plain word either.
func isLone(word string) bool {
	const shortest, longest, plainest = 4, 1024, 12
	if len(word) < shortest || len(word) > longest || strings.ContainsAny(word, " \t") || setting().MatchString(word) ||
		words.IsMeasure("", word) || strings.IndexByte("[]{}()<>#;:/\\-\"'=", word[0]) >= 0 || emptySetting().MatchString(word) {
		return false
	}
	return len(word) >= plainest || strings.ContainsAny(word, "0123456789!#$%^&*")
}

// emptySetting is a setting without a value, which the padding of base64 must not be taken for.
var emptySetting = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][\w.\-]{0,40}(?:=|:.*)$`) })

// heredoc notes the lines that a shell, or a language like it, reads up to a mark of its own: key = <<EOF.
func (f *finder) heredoc(v int) bool {
	line := f.line(v)
	if len(line) > contextBytes {
		return false
	}
	f.work -= len(line)
	at := hereMark().FindStringSubmatch(line)
	if at == nil {
		return false
	}
	start := v + len(line)
	for i := start; i < len(f.text) && f.work >= 0; {
		next := f.line(i + 1)
		f.work -= len(next) + lineWork
		if rest, found := strings.CutPrefix(strings.TrimLeft(next, " \t"), at[1]); found && (rest == "" || !isWordByte(rest[0])) {
			f.add(start, i)
			return true
		}
		i += 1 + len(next)
	}
	f.add(start, len(f.text))
	return true
}

var hereMark = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("^(?:\"?(?:\\$\\(|`)\\s*cat\\s*)?<<[-~]?\\s*[\"']?([A-Za-z_]\\w*)[\"']?\\s*$")
})
