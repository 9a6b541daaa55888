package redact

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// patterns finds secrets by their own form.
func (f *finder) patterns() {
	lower := strings.ToLower(f.text)
	if strings.Contains(lower, "private") {
		f.privateKeys()
	}
	if strings.Contains(lower, "://") {
		f.addresses()
	}
	for _, form := range forms() {
		if !form.mayMatch(lower) {
			continue
		}
		for _, at := range form.expression.FindAllStringSubmatchIndex(f.text, -1) {
			f.add(at[2], at[3])
		}
	}
}

// form is a shape whose first group is a secret. One of its words, in lower case, stands in every text that has one:
// looking for a word is a hundred times cheaper than matching.
type form struct {
	words      []string
	expression *regexp.Regexp
}

func (f form) mayMatch(lower string) bool {
	for _, word := range f.words {
		if strings.Contains(lower, word) {
			return true
		}
	}
	return false
}

// forms are the credentials of HTTP schemes, JSON web tokens, the keys of well-known services, and the options of
// commands that take a password.
var forms = sync.OnceValue(func() []form {
	return []form{
		{[]string{"bearer", "negotiate", "ntlm"}, regexp.MustCompile(`(?i)\b(?:bearer|negotiate|ntlm)[ \t]+([A-Za-z0-9._~+/=\-]{6,})`)},
		{[]string{"basic"}, regexp.MustCompile(`(?i:\bbasic)[ \t]+([A-Za-z0-9+/]{5,}(?:[0-9A-Z][A-Za-z0-9+/]*={0,2}|={1,2}))`)},
		{[]string{"eyj"}, regexp.MustCompile(`\b(eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}(?:\.[A-Za-z0-9_-]*)*)`)},
		{[]string{"akia", "asia", "akid", "ltai", "aiza"}, regexp.MustCompile(`\b((?:AKIA|ASIA|AKID|LTAI|AIza)[A-Za-z0-9_-]{12,})`)},
		{
			[]string{"gh", "glpat", "xox", "sk", "rk_", "npm", "hf"},
			regexp.MustCompile(`\b((?:gh[opsur]|github_pat|glpat|xox[abeprs]|sk|sk_live|rk_live|sk_test|npm|hf)[-_][A-Za-z0-9_-]{16,})`),
		},
		{[]string{"identified"}, regexp.MustCompile(`(?i)\bidentified\s+by\s+["']([^"'\n]+)`)},
		{[]string{"-u", "--user", "--proxy-user"}, regexp.MustCompile(`(?:\s-u|\s--user|--proxy-user)[ =]+["']?[^:\s"']+:([^\s"']+)`)},
		{[]string{"mysql"}, regexp.MustCompile(`\bmysql\w*\b[^\n]*?\s-p([^\s"']+)`)},
		{[]string{"jdbc:oracle"}, regexp.MustCompile(`(?i)jdbc:oracle:\w+:[^/\s"'@]+/([^@\s"']+)@`)},
		{[]string{"sqlplus", "imp", "exp", "sqlldr"}, regexp.MustCompile(`(?i)\b(?:sqlplus|imp|exp|sqlldr)\s+[^/\s"'@]+/([^@\s"']+)@`)},
	}
})

type keyForms struct{ begin, end, putty *regexp.Regexp }

var keyForm = sync.OnceValue(func() keyForms {
	return keyForms{
		begin: regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z0-9 ]*-----`),
		end:   regexp.MustCompile(`-----END [A-Z0-9 ]*PRIVATE KEY[A-Z0-9 ]*-----`),
		putty: regexp.MustCompile(`Private-Lines:[ \t]*([0-9]{1,4})[ \t]*\n`),
	}
})

// privateKeys notes the inside of private keys. One without an end takes the rest of the text.
func (f *finder) privateKeys() {
	form := keyForm()
	for _, begin := range form.begin.FindAllStringIndex(f.text, -1) {
		end := len(f.text)
		if at := form.end.FindStringIndex(f.text[begin[1]:]); at != nil {
			end = begin[1] + at[0]
		}
		f.add(begin[1], end)
	}
	for _, at := range form.putty.FindAllStringSubmatchIndex(f.text, -1) {
		lines, err := strconv.Atoi(f.text[at[2]:at[3]])
		if err != nil {
			continue
		}
		end := at[1]
		for range lines {
			end = min(len(f.text), end+len(lineAt(f.text, min(end, len(f.text))))+1)
		}
		f.add(at[1], end)
	}
}

var address = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.\-]{1,30}://([^\s"'<>` + "`" + `]+)`)
})

var port = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]{1,5}(?:[/?#]|$)`) })

// addresses notes the passwords in URLs. The last "@" ends them, because passwords are often pasted unescaped.
func (f *finder) addresses() {
	for _, at := range address().FindAllStringSubmatchIndex(f.text, -1) {
		rest := f.text[at[2]:at[3]]
		end := strings.LastIndexByte(rest, '@')
		if end < 0 {
			continue
		}
		colon := strings.IndexByte(rest[:end], ':')
		switch {
		case colon >= 0 && !port().MatchString(rest[colon+1:end]):
			f.add(at[2]+colon+1, at[2]+end)
		case colon >= 0 && !strings.ContainsAny(rest[colon+1:end], "/?#"):
			// All digits, but no path behind it: a password, not a port.
			f.add(at[2]+colon+1, at[2]+end)
		case colon < 0 && end >= 20 && strings.IndexByte(rest[:end], '/') < 0:
			// A long user without a password is a token.
			f.add(at[2], at[2]+end)
		}
	}
}
