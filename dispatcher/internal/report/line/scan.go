package line

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"muster/internal/protocol"
)

// scanner reads a row token by token, each behind the member name with which
// protocol.Encode writes it. It only knows the one way in which that writes things:
// at anything else it is in doubt, and then all that it returned means nothing.
type scanner struct {
	text  string
	at    int
	doubt bool

	zone   *time.Location // of the last moment
	offset string         // as it was written
}

// token passes what is to stand next.
func (s *scanner) token(want string) {
	if s.doubt = s.doubt || !strings.HasPrefix(s.text[s.at:], want); !s.doubt {
		s.at += len(want)
	}
}

// has passes what may stand next, and reports whether it did.
func (s *scanner) has(maybe string) bool {
	found := !s.doubt && strings.HasPrefix(s.text[s.at:], maybe)
	if found {
		s.at += len(maybe)
	}
	return found
}

func (s *scanner) str(before string) string {
	s.token(before)
	s.token(`"`)
	if s.doubt {
		return ""
	}
	escaped, ascii := false, true
	for i := s.at; i < len(s.text); i++ {
		switch c := s.text[i]; {
		case c == '"':
			value := s.text[s.at:i]
			s.at = i + 1
			s.doubt = !ascii && !utf8.ValidString(value)
			if escaped {
				return s.unescaped(value)
			}
			return value
		case c == '\\':
			escaped = true
			i++
		case c >= utf8.RuneSelf:
			ascii = false
		case c < ' ':
			s.doubt = true
			return ""
		}
	}
	s.doubt = true
	return ""
}

// unescaped is in doubt at surrogates, halves of which the schema's checker refuses.
func (s *scanner) unescaped(value string) (plain string) {
	err := json.Unmarshal([]byte(`"`+value+`"`), &plain)
	s.doubt = s.doubt || err != nil || strings.Contains(value, `\ud`) || strings.Contains(value, `\uD`)
	return plain
}

func (s *scanner) boolean(before string) bool {
	s.token(before)
	if s.has("true") {
		return true
	}
	s.token("false")
	return false
}

// integer reads up to 18 digits, which no integer type of a row is too small for.
func (s *scanner) integer(before string) (n int64) {
	const most = 18
	s.token(before)
	minus := s.has("-")
	from := s.at
	for ; s.at < len(s.text) && isDigit(s.text[s.at]); s.at++ {
		if n = 10*n + int64(s.text[s.at]-'0'); s.at-from == most {
			s.doubt = true
			return 0
		}
	}
	digits := s.at - from
	if digits == 0 || s.text[from] == '0' && (digits > 1 || minus) {
		s.doubt = true
	}
	if minus {
		return -n
	}
	return n
}

// moment reads a time of the report, or null.
func (s *scanner) moment(before string) protocol.Time {
	s.token(before)
	if s.has("null") {
		return protocol.Time{}
	}
	const shape = `"2006-01-02T15:04:05.000`
	s.token(`"`)
	if s.doubt || len(s.text)-s.at < len(shape) {
		s.doubt = true
		return protocol.Time{}
	}
	at := s.text[s.at : s.at+len(shape)-1]
	s.at += len(at)
	for i := range len(at) {
		if want := shape[i+1]; isDigit(want) != isDigit(at[i]) || !isDigit(want) && at[i] != want {
			s.doubt = true
			return protocol.Time{}
		}
	}
	year, month, day := number(at[:4]), number(at[5:7]), number(at[8:10])
	hour, minute, second := number(at[11:13]), number(at[14:16]), number(at[17:19])
	t := time.Date(year, time.Month(month), day, hour, minute, second, number(at[20:23])*int(time.Millisecond), s.location())
	s.token(`"`)
	if hour > 23 || minute > 59 || second > 59 || t.Month() != time.Month(month) {
		s.doubt = true
	}
	return protocol.Time{Time: t}
}

// location reads Z or an offset. A report has few of them.
func (s *scanner) location() *time.Location {
	if s.has("Z") {
		return time.UTC
	}
	const shape = "+08:00"
	if len(s.text)-s.at < len(shape) {
		s.doubt = true
		return time.UTC
	}
	offset := s.text[s.at : s.at+len(shape)]
	s.at += len(shape)
	if offset == s.offset {
		return s.zone
	}
	for _, i := range []int{1, 2, 4, 5} {
		s.doubt = s.doubt || !isDigit(offset[i])
	}
	hours, minutes := number(offset[1:3]), number(offset[4:6])
	s.doubt = s.doubt || offset[0] != '+' && offset[0] != '-' || offset[3] != ':' || hours > 23 || minutes > 59
	if s.doubt {
		return time.UTC
	}
	east := (hours*60 + minutes) * 60
	if offset[0] == '-' {
		east = -east
	}
	s.offset, s.zone = strings.Clone(offset), time.FixedZone("", east)
	return s.zone
}

// value passes any value and returns where it begins and ends.
func (s *scanner) value() (from, to int) {
	from = s.at
	switch {
	case s.doubt || from >= len(s.text):
		s.doubt = true
	case s.text[from] == '"':
		s.str("")
	case s.text[from] == '{' || s.text[from] == '[':
		s.inner()
		s.doubt = s.doubt || !json.Valid([]byte(s.text[from:s.at]))
	case s.has("true") || s.has("false") || s.has("null"):
	default:
		s.number()
	}
	return from, s.at
}

// inner passes an object or a list without a look at what is in it.
func (s *scanner) inner() {
	for depth := 0; s.at < len(s.text); s.at++ {
		switch s.text[s.at] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				s.at++
				return
			}
		case '"':
			s.str("")
			s.at--
		}
		if s.doubt {
			return
		}
	}
	s.doubt = true
}

// number passes a number. It is in doubt at an exponent and at what is longer than
// the schema's checker takes.
func (s *scanner) number() {
	from := s.at
	_ = s.has("-")
	whole := s.digits()
	if s.has(".") {
		s.doubt = s.doubt || s.digits() == ""
	}
	s.doubt = s.doubt || whole == "" || len(whole) > 1 && whole[0] == '0' || s.at-from > protocol.MaxLiteral
}

func (s *scanner) digits() string {
	from := s.at
	for s.at < len(s.text) && isDigit(s.text[s.at]) {
		s.at++
	}
	return s.text[from:s.at]
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// number of a few digits.
func number(digits string) (n int) {
	for i := range len(digits) {
		n = 10*n + int(digits[i]-'0')
	}
	return n
}
