package find

import (
	"regexp"
	"strings"
	"sync"

	"muster/internal/redact/words"
)

// call is the password in a call that takes it in a known place.
func (f *finder) call(end int) (start, until int) {
	if strings.EqualFold(f.text[max(0, end-len("getconnection")):end], "getconnection") {
		return f.matched(connecting(), end)
	}
	return f.matched(secondOfTwo(), end)
}

var connecting = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\s*\([^,\n]*,[^,\n]*,\s*"([^"\n]+)`)
})

var secondOfTwo = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[\s(]+N?["'][^"'\n]*["']\s*,\s*N?["']([^"'\n]+)`)
})

// argument returns where the quoted argument begins that a call gives a secret's name a value with, or -1:
// setPassword("…"), PASSWORD('…'), define('DB_PASSWORD', '…'), ("password", "…"). behind is what follows the name.
func (f *finder) argument(k *key, behind int) int {
	t := f.text
	if behind >= len(t) {
		return -1
	}
	switch t[behind] {
	case '(':
		if i := skipSpaces(t, behind+1); !k.quoted && isSetter(k.name) && isQuote(t, i) {
			return i
		}
	case ',':
		i := skipSpaces(t, behind+1)
		if !k.quoted || !isQuote(t, i) {
			return -1
		}
		open := k.start - 1
		for open > 0 && strings.IndexByte("\\\"' \t", t[open]) >= 0 && k.start-open < 8 {
			open--
		}
		if open < 0 || t[open] != '(' {
			return -1
		}
		_, end, ok := f.quotedAt(i)
		isTuple := open == 0 || !isWordByte(t[open-1])
		if ok && (f.isKnownCall(open) || isTuple && closesCall(t, end)) {
			return i
		}
	}
	return -1
}

// isQuote reports whether a quoted text begins at i, its quote perhaps escaped.
func isQuote(t string, i int) bool {
	for most := i + 8; i < min(len(t), most) && t[i] == '\\'; {
		i++
	}
	if i+1 < len(t) && t[i] == 'N' {
		i++
	}
	return i < len(t) && (t[i] == '"' || t[i] == '\'')
}

// closesCall reports whether the quote at end is the last of a call, or of a text that was cut.
func closesCall(t string, end int) bool {
	for end < len(t) && strings.IndexByte("\\\"'", t[end]) >= 0 {
		end++
	}
	end = skipSpaces(t, end)
	return end >= len(t) || t[end] == ')'
}

// isKnownCall reports whether the bracket at open belongs to a call that sets something.
func (f *finder) isKnownCall(open int) bool {
	begin := open
	for begin > 0 && open-begin < 24 && words.IsAlphanumeric(f.text[begin-1]) {
		begin--
		f.work--
	}
	switch strings.ToLower(f.text[begin:open]) {
	case "define", "put", "set", "add", "append", "setproperty", "setheader", "addheader", "setrequestheader", "header", "setenv", "putenv":
		return true
	}
	return false
}

// isSetter reports whether a call by this name takes the secret that the name speaks of, and does not give it.
func isSetter(name string) bool {
	name = strings.ToLower(name[strings.LastIndexByte(name, '.')+1:])
	switch name {
	case "password", "passwd", "pwd", "secret", "apikey", "accesskey", "secretkey", "passphrase":
		return true
	}
	return (strings.HasPrefix(name, "set") || strings.HasPrefix(name, "with")) && !strings.Contains(name, "cookie")
}

// identified is the password of SQL's IDENTIFIED BY. One without quotes counts only in a statement: people, too, are
// identified by something.
func (f *finder) identified(end int) (start, until int) {
	if start, until = f.matched(identifiedQuoted(), end); until > 0 {
		return start, until
	}
	const window = 256
	f.work -= window
	before := f.text[max(0, end-window):end]
	if at := strings.LastIndexByte(before, '\n'); at >= 0 {
		before = before[at:]
	}
	if strings.HasSuffix(before, "IDENTIFIED") || isStatement(strings.ToLower(before)) {
		return f.matched(identifiedBare(), end)
	}
	return 0, 0
}

var identifiedQuoted = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^(?:\s+with\s+\S+\s+(?:by|as)|\s+by)(?:\s+(?:password|values))?\s+["']([^"'\n]+)`)
})

var identifiedBare = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)^\s+by\s+([^\s;"']+)`) })

// isStatement reports whether a line gives somebody a login.
func isStatement(line string) bool {
	if strings.Contains(line, "grant ") {
		return true
	}
	return strings.Contains(line, "user ") && (strings.Contains(line, "create ") || strings.Contains(line, "alter "))
}
