package protocol

import (
	"bytes"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxFew is up to where a look at each name is faster than a map.
const maxFew = 16

// add reports whether no member of the object had the name, in any case, before.
func (s *scanner) add(f *frame, name []byte) bool {
	if f.many != nil {
		folded := fold(string(name))
		if _, twice := f.many[folded]; twice {
			return false
		}
		f.many[folded] = struct{}{}
		return true
	}
	few := s.names[f.first:]
	if slices.ContainsFunc(few, func(known []byte) bool { return sameName(known, name) }) {
		return false
	}
	s.names = append(s.names, name)
	if len(few) < maxFew {
		return true
	}
	f.many = make(map[string]struct{}, 2*maxFew)
	for _, known := range s.names[f.first:] {
		f.many[fold(string(known))] = struct{}{}
	}
	return true
}

// sameName reports whether two names differ in case at most. Most differ in their
// first letters or their last ones.
func sameName(a, b []byte) bool {
	if len(a) > 0 && len(b) > 0 && (differ(a[0], b[0]) || differ(a[len(a)-1], b[len(b)-1])) {
		return false
	}
	return bytes.EqualFold(a, b)
}

// differ reports whether two bytes are characters of ASCII, and not one in two cases.
func differ(a, b byte) bool { return a|b < utf8.RuneSelf && (a^b)&^0x20 != 0 }

// fold maps names that encoding/json takes for the same member to one: it
// compares under simple Unicode folding, by which even U+212A equals k.
func fold(name string) string {
	ascii := true
	for i := range len(name) {
		if name[i] >= utf8.RuneSelf {
			ascii = false
			break
		}
	}
	if ascii {
		return strings.ToLower(name)
	}
	return strings.Map(func(r rune) rune {
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		if least >= 'A' && least <= 'Z' {
			least += 'a' - 'A'
		}
		return least
	}, name)
}
