package textenc

import (
	"errors"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// utf16Reader turns a stream of UTF-16 into UTF-8. Surrogates without a partner and a last odd byte become \xNN
// escapes in the order in which their bytes lie in the file.
type utf16Reader struct {
	r           io.Reader
	bigEndian   bool
	undecodable *int64

	in   [8 << 10]byte
	held int
	out  []byte
	done int
	err  error
}

// Read implements io.Reader.
func (u *utf16Reader) Read(p []byte) (int, error) {
	for u.done == len(u.out) {
		if u.err != nil {
			return 0, u.err
		}
		u.fill()
	}
	n := copy(p, u.out[u.done:])
	u.done += n
	return n, nil
}

func (u *utf16Reader) fill() {
	n, err := u.r.Read(u.in[u.held:])
	u.held += n
	u.err = err
	u.out, u.done = u.out[:0], 0
	last := errors.Is(err, io.EOF)
	used := u.convert(u.in[:u.held], last)
	u.held = copy(u.in[:], u.in[used:u.held])
}

// convert appends what of b is complete to u.out and returns how many bytes that was.
func (u *utf16Reader) convert(b []byte, last bool) int {
	i := 0
	for i+1 < len(b) {
		r := rune(u.unit(b[i:]))
		switch {
		case !utf16.IsSurrogate(r):
			u.out = utf8.AppendRune(u.out, r)
			i += 2
		case i+3 < len(b):
			if pair := utf16.DecodeRune(r, rune(u.unit(b[i+2:]))); pair != utf8.RuneError {
				u.out = utf8.AppendRune(u.out, pair)
				i += 4
				continue
			}
			u.escape(b[i : i+2])
			i += 2
		case last:
			u.escape(b[i : i+2])
			i += 2
		default:
			return i
		}
	}
	if last && i < len(b) {
		u.escape(b[i:])
		i = len(b)
	}
	return i
}

func (u *utf16Reader) unit(b []byte) uint16 {
	if u.bigEndian {
		return uint16(b[0])<<8 | uint16(b[1])
	}
	return uint16(b[1])<<8 | uint16(b[0])
}

func (u *utf16Reader) escape(b []byte) {
	for _, c := range b {
		*u.undecodable++
		u.out = appendHex(u.out, c)
	}
}
