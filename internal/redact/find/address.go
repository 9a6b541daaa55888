package find

import (
	"strings"

	"muster/internal/redact/words"
)

// addresses notes the passwords in URLs. The last "@" ends them, because passwords are often pasted unescaped.
func (f *finder) addresses() {
	const sign = "://"
	for i := 0; ; {
		at := strings.Index(f.text[i:], sign)
		if at < 0 {
			return
		}
		start := i + at + len(sign)
		hasScheme := isScheme(f.text[i : i+at])
		i = start
		if !hasScheme {
			continue
		}
		for i < len(f.text) && strings.IndexByte(" \t\r\n\f\v\"'<>`", f.text[i]) < 0 {
			i++
		}
		f.login(start, f.text[start:i])
	}
}

// isScheme reports whether a text ends with the scheme of a URL: a letter and more of its characters.
func isScheme(before string) bool {
	for n := 1; n <= min(len(before), 31); n++ {
		c := before[len(before)-n]
		if !words.IsAlphanumeric(c) && strings.IndexByte("+.-", c) < 0 {
			return false
		}
		if n > 1 && !words.IsDigit(c) && words.IsAlphanumeric(c) {
			return true
		}
	}
	return false
}

// login notes the password in what follows the scheme of a URL.
func (f *finder) login(start int, rest string) {
	end := strings.LastIndexByte(rest, '@')
	if end < 0 {
		return
	}
	colon := strings.IndexByte(rest[:end], ':')
	switch {
	case colon >= 0 && (!isPort(rest[colon+1:end]) || !strings.ContainsAny(rest[colon+1:end], "/?")):
		// All digits, but no path behind it: a password, not a port.
		f.add(start+colon+1, start+end)
	case colon < 0 && end >= 20 && strings.IndexByte(rest[:end], '/') < 0:
		// A long user without a password is a token.
		f.add(start, start+end)
	}
}

// isPort reports whether a text begins with the number of a port.
func isPort(s string) bool {
	n := 0
	for n < len(s) && words.IsDigit(s[n]) {
		n++
	}
	return n > 0 && n <= 5 && (n == len(s) || strings.IndexByte("/?#", s[n]) >= 0)
}
