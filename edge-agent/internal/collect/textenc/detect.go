package textenc

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding"
)

// The weights of rule 5. A wrong reading of Chinese text is full of rare characters and holes; a right one is mostly
// common characters. Bytes that cannot be decoded weigh most, because the right reading of a sound file has none.
const (
	scoreCommon      = 4
	scorePunctuation = 2
	scoreEveryday    = 1
	scoreRare        = -2
	scoreInvalid     = -8
)

// guessHead applies rules 3 and 5 to the head of a file and returns UTF-16's name or "".
func guessHead(head []byte) string {
	even, odd := 0, 0
	for i, c := range head {
		if c != 0 {
			continue
		}
		if i%2 == 0 {
			even++
		} else {
			odd++
		}
	}
	pairs := len(head) / 2
	enough := max(2, pairs/32)
	switch {
	case odd >= enough && odd > 8*even:
		return UTF16LE
	case even >= enough && even > 8*odd:
		return UTF16BE
	case even+odd > 0 || isASCII(head) || utf8.Valid(trimPartial(head)):
		return ""
	}
	// Chinese text without a single Latin character or line end holds no zero bytes at all.
	little, big := scoreUTF16(head, false), scoreUTF16(head, true)
	narrow := max(scoreUTF8(head), scoreUnits(GB18030, head), scoreUnits(Big5, head))
	switch {
	case little > big && little > 2*max(narrow, 0):
		return UTF16LE
	case big > little && big > 2*max(narrow, 0):
		return UTF16BE
	default:
		return ""
	}
}

// guessText applies rules 4 and 5 to a window that holds bytes outside ASCII.
func guessText(window []byte, complete bool) string {
	whole := window
	if !complete {
		whole = trimPartial(window)
	}
	if utf8.Valid(whole) {
		return UTF8
	}
	best, score := Unknown, 0
	for _, candidate := range []struct {
		name  string
		score int
	}{
		{UTF8, scoreUTF8(window)},
		{GB18030, scoreUnits(GB18030, window)},
		{Big5, scoreUnits(Big5, window)},
	} {
		if candidate.score > score {
			best, score = candidate.name, candidate.score
		}
	}
	return best
}

// trimPartial drops a character of UTF-8 that the window cuts through.
func trimPartial(b []byte) []byte {
	for i := 1; i <= utf8.UTFMax && i <= len(b); i++ {
		tail := b[len(b)-i:]
		if utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

func scoreUTF8(b []byte) int {
	total := 0
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		switch {
		case r < utf8.RuneSelf:
		case r == utf8.RuneError && n == 1:
			total += scoreInvalid
		case isCommon(r):
			total += scoreCommon
		case isPunctuation(r):
			total += scorePunctuation
		default:
			// A sequence of UTF-8 hardly comes about by accident.
			total += scorePunctuation
		}
		b = b[n:]
	}
	return total
}

func scoreUTF16(b []byte, bigEndian bool) int {
	total := 0
	u := utf16Reader{bigEndian: bigEndian}
	for i := 0; i+1 < len(b); i += 2 {
		r := rune(u.unit(b[i:]))
		switch {
		case isCommon(r):
			total += scoreCommon
		case isPunctuation(r):
			total += scorePunctuation
		case unicode.Is(unicode.Han, r):
		case r < utf8.RuneSelf && unicode.IsPrint(r):
		default:
			total += scoreInvalid
		}
	}
	return total
}

// scoreUnits scores the reading of b in a double-byte encoding.
func scoreUnits(name string, b []byte) int {
	decoder := decoderFor(name)
	total := 0
	for len(b) > 0 {
		if b[0] < utf8.RuneSelf {
			b = b[1:]
			continue
		}
		n, ok, short := unitLen(name, b)
		if short {
			break
		}
		total += scoreUnit(name, decoder, b[:n], ok)
		b = b[n:]
	}
	return total
}

func scoreUnit(name string, decoder *encoding.Decoder, unit []byte, ok bool) int {
	var one [8]byte
	if !ok {
		return scoreInvalid
	}
	decoder.Reset()
	m, _, err := decoder.Transform(one[:], unit, true)
	if err != nil || bytes.Contains(one[:m], []byte("\uFFFD")) {
		return scoreInvalid
	}
	r, _ := utf8.DecodeRune(one[:m])
	switch {
	case isCommon(r):
		return scoreCommon
	case isPunctuation(r):
		return scorePunctuation
	case isEveryday(name, unit):
		return scoreEveryday
	default:
		return scoreRare
	}
}

// isEveryday reports whether the character stands in the first plane of its set, which its makers filled with the
// characters in daily use: rows 16 to 55 of GB 2312, and the rows from A4 to C6 of Big5.
func isEveryday(name string, unit []byte) bool {
	if len(unit) != 2 {
		return false
	}
	if name == Big5 {
		return unit[0] >= 0xA4 && unit[0] <= 0xC6
	}
	return unit[0] >= 0xB0 && unit[0] <= 0xD7 && unit[1] >= 0xA1
}
