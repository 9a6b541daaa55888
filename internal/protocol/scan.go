package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
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
	fewNames  [4 * maxFew][]byte
	fewRaw    [2]span
}

// scanners are those that nobody uses: one is two and a half KiB.
var scanners sync.Pool

func takeScanner() *scanner {
	if s, ok := scanners.Get().(*scanner); ok {
		return s
	}
	return new(scanner)
}

// giveBack forgets the document. What a large one needed goes with it.
func (s *scanner) giveBack() {
	*s = scanner{}
	scanners.Put(s)
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
		return tooDeep(s.pointer())
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

func (s *scanner) enter(name []byte) error {
	f := s.top()
	if !s.add(f, name) {
		quoted := strconv.Quote(clip(string(name)))
		return badJSON(s.pointer(), "the member "+quoted+" stands twice (names that differ only in case count as one)",
			"字段 "+quoted+" 重复（仅大小写不同也算重复）", "keep one of them", "请只保留一个")
	}
	if len(f.many) > MaxKeys {
		return badJSON(s.pointer(), fmt.Sprintf("an object has more than %d members", MaxKeys),
			fmt.Sprintf("一个对象的字段超过 %d 个", MaxKeys), "split the document", "请拆分文档")
	}
	if f.fields != nil {
		t, meant := f.fields.find(name)
		if meant != "" {
			said, right := strconv.Quote(clip(string(name))), strconv.Quote(meant)
			return badJSON(s.pointer(), "the member "+said+" must be spelled "+right, "字段 "+said+" 应写作 "+right, "names are case-sensitive", "字段名区分大小写")
		}
		f.inner = t
	}
	f.name, f.key = name, false
	return nil
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
