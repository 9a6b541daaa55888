package protocol

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// scanner walks one document that is known to be syntactically valid, so it
// looks only for what encoding/json lets pass.
type scanner struct {
	data  []byte
	at    int
	stack []frame
}

// frame is one open object or array during the scan.
type frame struct {
	keys  map[string]struct{} // nil in an array; folded names in an object
	name  string              // the member the scan is in
	index int
	key   bool // the next string is a member name
}

func (s *scanner) document() error {
	for s.at < len(s.data) {
		var err error
		switch c := s.data[s.at]; {
		case c == '{' || c == '[':
			err = s.open(c == '{')
		case c == '}' || c == ']':
			s.stack = s.stack[:len(s.stack)-1]
			s.at++
		case c == ',':
			if f := s.top(); f.keys != nil {
				f.key = true
			} else {
				f.index++
			}
			s.at++
		case c == '"':
			err = s.text()
		case c == '-' || (c >= '0' && c <= '9'):
			err = s.number()
		default: // white space, colons, true, false, null
			s.at++
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *scanner) top() *frame { return &s.stack[len(s.stack)-1] }

func (s *scanner) open(object bool) error {
	if len(s.stack) >= MaxDepth {
		return badJSON(s.pointer(), fmt.Sprintf("it is nested deeper than %d levels", MaxDepth),
			fmt.Sprintf("嵌套超过 %d 层", MaxDepth), "flatten the document")
	}
	f := frame{}
	if object {
		f.keys, f.key = map[string]struct{}{}, true
	}
	s.stack = append(s.stack, f)
	s.at++
	return nil
}

// text takes one string: a member name or a value.
func (s *scanner) text() error {
	start, escaped := s.at, false
	for s.at++; s.data[s.at] != '"'; s.at++ {
		if s.data[s.at] != '\\' {
			continue
		}
		escaped = true
		s.at++
		if s.data[s.at] == 'u' && !s.surrogates() {
			return badJSON(s.pointer(), "a string holds half a surrogate pair", "字符串中含有不成对的代理字符",
				`write the character itself, or both halves such as \ud83d\ude00`)
		}
	}
	s.at++
	if len(s.stack) == 0 || !s.top().key {
		return nil
	}
	name := string(s.data[start+1 : s.at-1])
	if escaped {
		if err := json.Unmarshal(s.data[start:s.at], &name); err != nil {
			return badJSON(s.pointer(), "a member name cannot be read", "字段名无法读取", "write it without escapes")
		}
	}
	return s.enter(name)
}

// surrogates checks the escape whose u is at s.at. A first half takes the
// second one with it; a half alone would silently become U+FFFD.
func (s *scanner) surrogates() bool {
	unit := s.unit(s.at)
	switch {
	case unit >= 0xd800 && unit < 0xdc00:
		next := s.at + 5
		if s.data[next] != '\\' || s.data[next+1] != 'u' {
			return false
		}
		if low := s.unit(next + 1); low < 0xdc00 || low >= 0xe000 {
			return false
		}
		s.at = next + 5
	case unit >= 0xdc00 && unit < 0xe000:
		return false
	}
	return true
}

func (s *scanner) unit(u int) uint64 {
	unit, _ := strconv.ParseUint(string(s.data[u+1:u+5]), 16, 16) // valid JSON has four hex digits here
	return unit
}

func (s *scanner) enter(name string) error {
	f := s.top()
	folded := fold(name)
	if _, twice := f.keys[folded]; twice {
		quoted := strconv.Quote(clip(name))
		return badJSON(s.pointer(), "the member "+quoted+" stands twice (names that differ only in case count as one)",
			"字段 "+quoted+" 重复（仅大小写不同也算重复）", "keep one of them")
	}
	if len(f.keys) >= MaxKeys {
		return badJSON(s.pointer(), fmt.Sprintf("an object has more than %d members", MaxKeys),
			fmt.Sprintf("一个对象的字段超过 %d 个", MaxKeys), "split the document")
	}
	f.keys[folded] = struct{}{}
	f.name, f.key = name, false
	return nil
}

func (s *scanner) number() error {
	start := s.at
	for s.at < len(s.data) && strings.IndexByte("0123456789+-.eE", s.data[s.at]) >= 0 {
		s.at++
	}
	literal := s.data[start:s.at]
	if len(literal) > MaxLiteral {
		return badJSON(s.pointer(), fmt.Sprintf("a number has %d characters; at most %d are taken", len(literal), MaxLiteral),
			fmt.Sprintf("数字有 %d 个字符，最多接受 %d 个", len(literal), MaxLiteral), "send it as a string")
	}
	if !finite(string(literal)) {
		return badJSON(s.pointer(), "the number "+string(literal)+" is out of range", "数字 "+string(literal)+" 超出范围",
			"send a finite number between 1e-300 and 1e308")
	}
	return nil
}

// finite reports whether a number fits float64 and has an exponent of at most
// three digits: exact arithmetic on a larger one takes for ever or fails.
func finite(literal string) bool {
	if e := strings.IndexAny(literal, "eE"); e >= 0 {
		if len(strings.TrimLeft(literal[e+1:], "+-0")) > 3 {
			return false
		}
	}
	_, err := strconv.ParseFloat(literal, 64)
	return err == nil
}

// pointer is the JSON Pointer of the value that the scan is at.
func (s *scanner) pointer() string {
	var b strings.Builder
	for i := range s.stack {
		f := &s.stack[i]
		if f.keys == nil {
			b.WriteString("/" + strconv.Itoa(f.index))
		} else if !f.key {
			b.WriteString("/" + escapePointer(clip(f.name)))
		}
	}
	return b.String()
}

func escapePointer(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

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

// clip keeps an error line short whatever a sender put into a name.
func clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
