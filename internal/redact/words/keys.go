package words

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// NameSize returns the length of a name at the start of s.
func NameSize(s string) int {
	n := 0
	for n < len(s) {
		c := s[n]
		if c < utf8.RuneSelf {
			if !IsAlphanumeric(c) && strings.IndexByte("_-.$", c) < 0 {
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

// IsSecretKey reports whether a member's key names a secret: its last word does, a remark in brackets left out.
func IsSecretKey(key string) bool {
	if search(nameWords(), key) == 0 {
		return false
	}
	for _, brackets := range [...]string{"(", "（"} {
		if before, _, found := strings.Cut(key, brackets); found {
			key = before
		}
	}
	key = strings.TrimRight(key, "\\\"'`] \t:=")
	last, name := 0, ""
	for i := 0; i < len(key); {
		if n := NameSize(key[i:]); n > 0 {
			last, name = i+n, strings.TrimLeft(key[i:i+n], "-.$")
			i += n
			continue
		}
		i++
	}
	return last == len(key) && IsSecretName(name)
}

// IsLabel reports whether a key says that its value is the name of something.
func IsLabel(key string) bool {
	switch strings.ToLower(key) {
	case "key", "name", "id", "property", "param", "field", "setting", "option", "variable", "header", "label", "item":
		return true
	}
	return false
}
