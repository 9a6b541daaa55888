package textenc

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
)

// escapeUTF8 keeps what is valid and escapes every other byte.
func (l *Lines) escapeUTF8(raw []byte, cut bool) []byte {
	l.decoded = l.decoded[:0]
	for len(raw) > 0 {
		r, n := utf8.DecodeRune(raw)
		if r == utf8.RuneError && n == 1 {
			if cut && !utf8.FullRune(raw) {
				break
			}
			l.appendEscaped(raw[0])
		} else {
			l.decoded = append(l.decoded, raw[:n]...)
		}
		raw = raw[n:]
	}
	return l.decoded
}

// escapeUnits decodes character by character, so that one bad byte costs itself and not its neighbours.
func (l *Lines) escapeUnits(raw []byte, cut bool) []byte {
	l.decoded = l.decoded[:0]
	var one [8]byte
	for len(raw) > 0 {
		n, ok, short := unitLen(l.name, raw)
		if short && cut {
			break
		}
		if ok {
			l.decoder.Reset()
			m, _, err := l.decoder.Transform(one[:], raw[:n], true)
			legitimate := bytes.Equal(raw[:n], []byte{0x84, 0x31, 0xA4, 0x37})
			if err != nil || (bytes.Contains(one[:m], []byte("\uFFFD")) && !legitimate) {
				ok = false
			} else {
				l.decoded = append(l.decoded, one[:m]...)
			}
		}
		if !ok {
			n = 1
			l.appendByte(raw[0])
		}
		raw = raw[n:]
	}
	return l.decoded
}

func (l *Lines) appendByte(c byte) {
	if c < utf8.RuneSelf {
		l.decoded = append(l.decoded, c)
		return
	}
	l.appendEscaped(c)
}

func (l *Lines) appendEscaped(c byte) {
	l.undecodable++
	l.decoded = appendHex(l.decoded, c)
}

func appendHex(dst []byte, c byte) []byte {
	const digits = "0123456789abcdef"
	return append(dst, '\\', 'x', digits[c>>4], digits[c&0xF])
}

// escapeControls shows control characters as \xNN: they are part of the text, but whoever prints the line must not be
// steered by it. They are decodable and so not counted.
func (l *Lines) escapeControls(text []byte) []byte {
	dirty := false
	for _, c := range text {
		if c < ' ' && c != '\t' {
			dirty = true
			break
		}
	}
	if !dirty {
		return text
	}
	l.shown = l.shown[:0]
	for _, c := range text {
		if c < ' ' && c != '\t' {
			l.controls++
			l.shown = appendHex(l.shown, c)
		} else {
			l.shown = append(l.shown, c)
		}
	}
	return l.shown
}

const (
	highBits = 0x8080808080808080
	spaces   = 0x2020202020202020
)

// isPlain reports whether b is ASCII without control characters, eight bytes at a time: it is asked of every line.
func isPlain(b []byte) bool {
	for len(b) >= 8 {
		w := binary.LittleEndian.Uint64(b)
		if (w|((w-spaces)&^w))&highBits != 0 {
			return false
		}
		b = b[8:]
	}
	for _, c := range b {
		if c < ' ' || c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
