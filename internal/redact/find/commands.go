package find

import (
	"regexp"
	"strings"
	"sync"
)

// matchWork is what an expression costs that is anchored, and so mostly fails at once.
const matchWork = 64

// matched returns where the one group of an expression that takes part matches in the text that follows.
func (f *finder) matched(expression *regexp.Regexp, from int) (start, until int) {
	const window = 512
	part := f.text[from:min(len(f.text), from+window)]
	if at := strings.IndexByte(part, '\n'); at > 0 && expression != identifiedQuoted() {
		part = part[:at]
	}
	f.work -= matchWork
	at := expression.FindStringSubmatchIndex(part)
	if at == nil {
		return 0, 0
	}
	for at[2] < 0 { // the group of another form
		at = at[2:]
	}
	until = from + at[3]
	if at[3] == len(part) { // a secret longer than the window goes on to where a word ends
		until = f.wordEnd(until)
	}
	return from + at[2], until
}

var userOption = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[ =]+["']?[^:\s"']+:([^\s"']+)`) })

// mySQL is the password behind -p in what follows the name of one of MySQL's commands.
func (f *finder) mySQL(end int) (start, until int) {
	const window = 512
	part := f.text[end:min(len(f.text), end+window)]
	f.work -= len(part) / 4
	part, _, _ = strings.Cut(part, "\n")
	for i := 1; i < len(part)-2; i++ {
		at := strings.Index(part[i:], "-p")
		if at < 0 {
			return 0, 0
		}
		i += at
		if strings.IndexByte(" \t", part[i-1]) < 0 {
			continue
		}
		if until = f.wordEnd(end + i + 2); until > end+i+2 {
			return end + i + 2, until
		}
	}
	return 0, 0
}

var oracleURL = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^:\w+:[^/\s"'@]+/([^@\s"']+)@`)
})

var oracleLogin = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^(?:(?:sqlplus|imp|exp|sqlldr)\s+[^/\s"'@]+/([^@\s"']+)@|` +
		`(?:sqlplus|sqlldr)\s+(?:-\w+\s+)*[\w$#]+/([^@\s"'/.]+)(?:\s|$)|` +
		`(?:imp|exp)\s+[\w$#]+/([^@\s"']+)\s+(?:file|full|owner|tables|log|parfile|buffer|fromuser)=)`)
})

// isOption reports whether what ends at end is a whole option that takes a user and a password.
func (f *finder) isOption(end int) bool {
	before := f.text[max(0, end-len(" --proxy-user")):end]
	if strings.HasSuffix(before, "--proxy-user") {
		return true
	}
	at := strings.LastIndexAny(before, " \t\r\n")
	return at >= 0 && (before[at+1:] == "-u" || before[at+1:] == "--user")
}

// oracle is the login of Oracle's commands; the word or the space behind it ends at end.
func (f *finder) oracle(end int) (start, until int) {
	begin := end
	if !isWordByte(f.text[begin-1]) {
		begin--
	}
	for begin > 0 && end-begin < len("sqlplus")+2 && isWordByte(f.text[begin-1]) {
		begin--
	}
	return f.matched(oracleLogin(), begin)
}

// wordEnd returns where a word without spaces and quotes ends.
func (f *finder) wordEnd(i int) int {
	from := i
	for i < len(f.text) && strings.IndexByte(" \t\r\n\"'", f.text[i]) < 0 {
		i++
	}
	f.work -= i - from
	return i
}
