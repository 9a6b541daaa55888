package find

import (
	"regexp"
	"strings"
	"sync"

	"muster/internal/redact/words"
)

// query is the value of a parameter in a URL whose name, elsewhere an everyday word, there stands before a key or the
// signature of a request; or the end of an address that whoever knows may post to.
func (f *finder) query(end int) (start, until int) {
	const shortest = 8
	for until = end; until < len(f.text) && strings.IndexByte("&;,# \t\r\n\"'<>\\)", f.text[until]) < 0; until++ {
		f.work--
	}
	isKey := strings.HasSuffix(strings.ToLower(f.text[:end][max(0, end-4):]), "key=")
	if value := f.text[end:until]; len(value) < shortest || isKey && !isRandom(value) {
		return 0, 0
	}
	return end, until
}

// isRandom reports whether a word looks drawn by lot: long, with letters and digits in turn. "order-20260917" is not.
func isRandom(s string) bool {
	const shortest, fewestTurns = 16, 4
	turns, last := 0, byte(0)
	for i := range len(s) {
		if !words.IsAlphanumeric(s[i]) {
			continue
		}
		if last != 0 && words.IsDigit(s[i]) != words.IsDigit(last) {
			turns++
		}
		last = s[i]
	}
	return len(s) >= shortest && turns >= fewestTurns
}

// webKey notes the private members of a JSON web key (RFC 7517), which are secret beside "kty".
func (f *finder) webKey(end int) {
	const reach = 6 << 10 // an RSA key of 4096 bits has some 3 KiB
	t := f.text
	from, until := max(0, end-reach), min(len(t), end+reach)
	f.work -= until - from
	if at := strings.LastIndexAny(t[from:end], "{}"); at >= 0 {
		from += at
	}
	if at := strings.IndexAny(t[end:until], "{}"); at >= 0 {
		until = end + at
	}
	if f.work -= 4 * (until - from); f.work < 0 {
		return
	}
	for _, at := range privateMember().FindAllStringSubmatchIndex(t[from:until], -1) {
		f.add(from+at[2], from+at[3])
	}
}

var privateMember = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`["'](?:d|p|q|dp|dq|qi|k)\\*["']\s*:\s*\\*["']([\w=+/-]{8,})`)
})
