package protocol

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

// errSyntax is where the scan met what is no JSON or no UTF-8. Its place and reason
// are the library's to tell.
var errSyntax = errors.New("no JSON")

// scanner walks one document once and looks for all that Scan refuses. White space
// around the document is trimmed.
type scanner struct {
	data  []byte
	at    int
	root  reflect.Type // of what the document is decoded into; nil: of anything
	stack []frame
	names [][]byte // of the members so far of every open object, the outer ones first
	raw   []span   // of the outermost object's members that are decoded as they are

	fewFrames [8]frame // where stack, names and raw begin, so that they are one allocation
	fewNames  [2 * maxFew][]byte
	fewRaw    [2]span
}

// span is a part of the document, and the field of the struct that it is for.
type span struct{ field, start, end int }

// frame is one open object or array during the scan.
type frame struct {
	object bool
	key    bool   // the next string is a member name
	name   []byte // the member the scan is in
	index  int
	first  int                 // of its members, in the scanner's names
	many   map[string]struct{} // the members, folded; nil while there are few

	fields *fields      // that the object's members are decoded into; nil: any
	inner  reflect.Type // of the value that the scan is in; nil: any
}

// document takes the whole document.
func (s *scanner) document() error {
	if err := s.value(); err != nil {
		return err
	}
	if s.at < len(s.data) {
		return errSyntax
	}
	return nil
}

// value takes the value at s.at, which may lie behind the end.
func (s *scanner) value() error {
	if s.at >= len(s.data) {
		return errSyntax
	}
	switch c := s.data[s.at]; {
	case c == '"':
		_, err := s.text()
		return err
	case c == '-' || (c >= '0' && c <= '9'):
		return s.number()
	case c == '{':
		return s.object()
	case c == '[':
		return s.array()
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if rest := s.data[s.at:]; len(rest) >= len(word) && string(rest[:len(word)]) == word {
			s.at += len(word)
			return nil
		}
	}
	return errSyntax
}

func (s *scanner) object() error {
	if err := s.open(true); err != nil {
		return err
	}
	if s.next() == '}' {
		s.close()
		return nil
	}
	for {
		if err := s.member(); err != nil {
			return err
		}
		switch s.next() {
		case ',':
			s.at++
			s.next()
			s.top().key = true
		case '}':
			s.close()
			return nil
		default:
			return errSyntax
		}
	}
}

// member takes a name, its colon and its value.
func (s *scanner) member() error {
	if s.at >= len(s.data) || s.data[s.at] != '"' {
		return errSyntax
	}
	start := s.at
	escaped, err := s.text()
	if err != nil {
		return err
	}
	name := s.data[start+1 : s.at-1]
	if escaped {
		var plain string
		if err := json.Unmarshal(s.data[start:s.at], &plain); err != nil {
			return errSyntax
		}
		name = []byte(plain)
	}
	if err := s.enter(name); err != nil {
		return err
	}
	if s.next() != ':' {
		return errSyntax
	}
	s.at++
	s.next()
	if len(s.stack) > 1 || s.top().inner != rawMessage {
		return s.value()
	}
	start = s.at
	err = s.value()
	if field, direct := s.stack[0].fields.direct[string(name)]; direct && err == nil {
		s.raw = append(s.raw, span{field, start, s.at})
	}
	return err
}

func (s *scanner) array() error {
	if err := s.open(false); err != nil {
		return err
	}
	if s.next() == ']' {
		s.close()
		return nil
	}
	for {
		if err := s.value(); err != nil {
			return err
		}
		switch s.next() {
		case ',':
			s.at++
			s.next()
			s.top().index++
		case ']':
			s.close()
			return nil
		default:
			return errSyntax
		}
	}
}

// next passes white space and returns the byte at hand, 0 at the end.
func (s *scanner) next() byte {
	for ; s.at < len(s.data); s.at++ {
		switch c := s.data[s.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

func (s *scanner) top() *frame { return &s.stack[len(s.stack)-1] }

func (s *scanner) open(object bool) error {
	if len(s.stack) >= MaxDepth {
		return badJSON(s.pointer(), fmt.Sprintf("it is nested deeper than %d levels", MaxDepth),
			fmt.Sprintf("嵌套超过 %d 层", MaxDepth), "flatten the document")
	}
	f := frame{object: object, key: object, first: len(s.names)}
	f.expect(s.expected())
	s.stack = append(s.stack, f)
	s.at++
	return nil
}

func (s *scanner) close() {
	s.names = s.names[:s.top().first]
	s.stack = s.stack[:len(s.stack)-1]
	s.at++
}

// expected is the type of the value that the scan is at.
func (s *scanner) expected() reflect.Type {
	if len(s.stack) == 0 {
		return s.root
	}
	return s.top().inner
}

// text takes one string and reports whether it holds escapes.
func (s *scanner) text() (escaped bool, err error) {
	start, wide := s.at+1, false
	for s.at = start; ; {
		s.at += plain(s.data[s.at:])
		if s.at >= len(s.data) {
			return false, errSyntax
		}
		switch c := s.data[s.at]; {
		case c == '"':
			if wide && !utf8.Valid(s.data[start:s.at]) {
				return false, errSyntax
			}
			s.at++
			return escaped, nil
		case c >= utf8.RuneSelf:
			wide = true
			s.at++
		case c == '\\':
			escaped = true
			if err := s.escape(); err != nil {
				return false, err
			}
		default: // a control character
			return false, errSyntax
		}
	}
}

// plain counts the bytes at the start of a string's rest that need no look: all but
// quotes, backslashes, control characters and what is not ASCII.
func plain(data []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; n+8 <= len(data); n += 8 {
		w := binary.LittleEndian.Uint64(data[n:])
		// Below the first byte that needs a look no subtraction borrows.
		if special := (w | (w - ones*0x20) | ((w ^ ones*'"') - ones) | ((w ^ ones*'\\') - ones)) & highs; special != 0 {
			return n + bits.TrailingZeros64(special)/8
		}
	}
	for ; n < len(data); n++ {
		if c := data[n]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			break
		}
	}
	return n
}

// escape takes one escape, or both halves of a pair: a half alone would silently
// become U+FFFD.
func (s *scanner) escape() error {
	if s.at+1 >= len(s.data) {
		return errSyntax
	}
	switch s.data[s.at+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.at += 2
		return nil
	case 'u':
	default:
		return errSyntax
	}
	unit, ok := s.unit(s.at)
	if !ok {
		return errSyntax
	}
	s.at += 6
	if unit < 0xd800 || unit >= 0xe000 {
		return nil
	}
	if low, ok := s.unit(s.at); unit < 0xdc00 && ok && low >= 0xdc00 && low < 0xe000 {
		s.at += 6
		return nil
	}
	return badJSON(s.pointer(), "a string holds half a surrogate pair", "字符串中含有不成对的代理字符",
		`write the character itself, or both halves such as \ud83d\ude00`)
}

// unit reads \uXXXX at a place that may lie behind the end.
func (s *scanner) unit(at int) (unit uint64, ok bool) {
	if at+6 > len(s.data) || s.data[at] != '\\' || s.data[at+1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(s.data[at+2:at+6]), 16, 16)
	return unit, err == nil
}

func (s *scanner) enter(name []byte) error {
	f := s.top()
	if !s.add(f, name) {
		quoted := strconv.Quote(clip(string(name)))
		return badJSON(s.pointer(), "the member "+quoted+" stands twice (names that differ only in case count as one)",
			"字段 "+quoted+" 重复（仅大小写不同也算重复）", "keep one of them")
	}
	if len(f.many) > MaxKeys {
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

// number takes one number, or nothing that is one.
func (s *scanner) number() error {
	start := s.at
	if s.data[s.at] == '-' {
		s.at++
	}
	zero := s.at < len(s.data) && s.data[s.at] == '0'
	if n := s.digits(); n == 0 || zero && n > 1 {
		return errSyntax
	}
	if s.has(".") {
		s.at++
		if s.digits() == 0 {
			return errSyntax
		}
	}
	exponent := s.has("eE")
	if exponent {
		s.at++
		if s.has("+-") {
			s.at++
		}
		if s.digits() == 0 {
			return errSyntax
		}
	}
	literal := s.data[start:s.at]
	if len(literal) > MaxLiteral {
		return badJSON(s.pointer(), fmt.Sprintf("a number has %d characters; at most %d are taken", len(literal), MaxLiteral),
			fmt.Sprintf("数字有 %d 个字符，最多接受 %d 个", len(literal), MaxLiteral), "send it as a string")
	}
	if exponent && !finite(string(literal)) { // without an exponent it is
		return badJSON(s.pointer(), "the number "+string(literal)+" is out of range", "数字 "+string(literal)+" 超出范围",
			"send a finite number between 1e-300 and 1e308")
	}
	return nil
}

func (s *scanner) digits() int {
	start := s.at
	for s.at < len(s.data) && s.data[s.at] >= '0' && s.data[s.at] <= '9' {
		s.at++
	}
	return s.at - start
}

// has reports whether the byte at hand is one of the set.
func (s *scanner) has(set string) bool {
	return s.at < len(s.data) && strings.IndexByte(set, s.data[s.at]) >= 0
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
