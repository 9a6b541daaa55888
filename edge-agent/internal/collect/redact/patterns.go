package redact

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// patterns finds secrets by their own form.
func (f *finder) patterns() {
	f.privateKeys()
	f.addresses()
	for _, form := range forms() {
		for _, at := range form.FindAllStringSubmatchIndex(f.text, -1) {
			f.add(at[2], at[3])
		}
	}
}

// forms are the shapes whose first group is a secret: the credentials of HTTP schemes, JSON web tokens, the keys of
// well-known services, and the options of commands that take a password.
var forms = sync.OnceValue(func() []*regexp.Regexp {
	var compiled []*regexp.Regexp
	for _, form := range []string{
		`(?i)\b(?:bearer|negotiate|ntlm)[ \t]+([A-Za-z0-9._~+/=\-]{6,})`,
		`(?i:\bbasic)[ \t]+([A-Za-z0-9+/]{5,}(?:[0-9A-Z][A-Za-z0-9+/]*={0,2}|={1,2}))`,
		`\b(eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}(?:\.[A-Za-z0-9_-]*)*)`,
		`\b((?:AKIA|ASIA|AKID|LTAI|AIza)[A-Za-z0-9_-]{12,})`,
		`\b((?:gh[opsur]|github_pat|glpat|xox[abeprs]|sk|sk_live|rk_live|sk_test|npm|hf)[-_][A-Za-z0-9_-]{16,})`,
		`(?i)\bidentified\s+by\s+["']([^"'\n]+)`,
		`(?:\s-u|\s--user|--proxy-user)[ =]+["']?[^:\s"']+:([^\s"']+)`,
		`\bmysql\w*\b[^\n]*?\s-p([^\s"']+)`,
		`(?i)jdbc:oracle:\w+:[^/\s"'@]+/([^@\s"']+)@`,
		`(?i)\b(?:sqlplus|imp|exp|sqlldr)\s+[^/\s"'@]+/([^@\s"']+)@`,
	} {
		compiled = append(compiled, regexp.MustCompile(form))
	}
	return compiled
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
		case colon >= 0 && strings.IndexAny(rest[colon+1:end], "/?#") < 0:
			// All digits, but no path behind it: a password, not a port.
			f.add(at[2]+colon+1, at[2]+end)
		case colon < 0 && end >= 20 && strings.IndexByte(rest[:end], '/') < 0:
			// A long user without a password is a token.
			f.add(at[2], at[2]+end)
		}
	}
}
