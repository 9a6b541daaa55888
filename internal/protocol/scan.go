package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
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
	root  reflect.Type // of what the document is decoded into; nil: of anything
	stack []frame
}

// frame is one open object or array during the scan.
type frame struct {
	object  bool
	key     bool   // the next string is a member name
	name    []byte // the member the scan is in
	index   int
	members names

	fields *fields      // that the object's members are decoded into; nil: any
	inner  reflect.Type // of the value that the scan is in; nil: any
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
			if f := s.top(); f.object {
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
	t := s.expected()
	if n := len(s.stack); n < cap(s.stack) {
		s.stack = s.stack[:n+1]
	} else {
		s.stack = append(s.stack, frame{})
	}
	f := s.top()
	*f = frame{object: object, key: object, members: names{few: f.members.few[:0]}}
	f.expect(t)
	s.at++
	return nil
}

// expected is the type of the value that the scan is at.
func (s *scanner) expected() reflect.Type {
	if len(s.stack) == 0 {
		return s.root
	}
	return s.top().inner
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
	name := s.data[start+1 : s.at-1]
	if escaped {
		var plain string
		if err := json.Unmarshal(s.data[start:s.at], &plain); err != nil {
			return badJSON(s.pointer(), "a member name cannot be read", "字段名无法读取", "write it without escapes")
		}
		name = []byte(plain)
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

func (s *scanner) enter(name []byte) error {
	f := s.top()
	if !f.members.add(name) {
		quoted := strconv.Quote(clip(string(name)))
		return badJSON(s.pointer(), "the member "+quoted+" stands twice (names that differ only in case count as one)",
			"字段 "+quoted+" 重复（仅大小写不同也算重复）", "keep one of them")
	}
	if f.members.len() > MaxKeys {
		return badJSON(s.pointer(), fmt.Sprintf("an object has more than %d members", MaxKeys),
			fmt.Sprintf("一个对象的字段超过 %d 个", MaxKeys), "split the document")
	}
	if f.fields != nil {
		t, meant := f.fields.find(name)
		if meant != "" {
			said, right := strconv.Quote(clip(string(name))), strconv.Quote(meant)
			return badJSON(s.pointer(), "the member "+said+" must be spelled "+right, "字段 "+said+" 应写作 "+right, "names are case-sensitive")
		}
		f.inner = t
	}
	f.name, f.key = name, false
	return nil
}

// names are the members of one object. Most have few, and no map is made for those.
type names struct {
	few  [][]byte
	many map[string]struct{} // folded; nil while there are few
}

// maxFew is up to where a look at each is faster than a map.
const maxFew = 16

// add reports whether no member had the name, in any case, before.
func (n *names) add(name []byte) bool {
	if n.many == nil {
		if slices.ContainsFunc(n.few, func(known []byte) bool { return bytes.EqualFold(known, name) }) {
			return false
		}
		n.few = append(n.few, name)
		if len(n.few) <= maxFew {
			return true
		}
		n.many = make(map[string]struct{}, 2*maxFew)
		for _, known := range n.few {
			n.many[fold(string(known))] = struct{}{}
		}
		return true
	}
	folded := fold(string(name))
	if _, twice := n.many[folded]; twice {
		return false
	}
	n.many[folded] = struct{}{}
	return true
}

func (n *names) len() int { return max(len(n.few), len(n.many)) }

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
	if bytes.ContainsAny(literal, "eE") && !finite(string(literal)) { // without an exponent it is
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
		if !f.object {
			b.WriteString("/" + strconv.Itoa(f.index))
		} else if !f.key {
			b.WriteString("/" + escapePointer(clip(string(f.name))))
		}
	}
	return b.String()
}

func escapePointer(name string) string {
	return pointerEscapes.Replace(name)
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

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
