package protocol

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf8"
)

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
		`write the character itself, or both halves such as \ud83d\ude00`, `请直接写该字符，或写全两半，如 \ud83d\ude00`)
}

// unit reads \uXXXX at a place that may lie behind the end.
func (s *scanner) unit(at int) (unit uint64, ok bool) {
	if at+6 > len(s.data) || s.data[at] != '\\' || s.data[at+1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(s.data[at+2:at+6]), 16, 16)
	return unit, err == nil
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
			fmt.Sprintf("数字有 %d 个字符，最多接受 %d 个", len(literal), MaxLiteral), "send it as a string", "请改用字符串")
	}
	if exponent && !finite(string(literal)) { // without an exponent it is
		return badJSON(s.pointer(), "the number "+string(literal)+" is out of range", "数字 "+string(literal)+" 超出范围",
			"send a finite number between 1e-300 and 1e308", "请填写 1e-300 到 1e308 之间的有限数")
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
