package textenc

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"unicode/utf8"

	"golang.org/x/text/encoding"
)

const (
	// bufferBytes bounds what is held of a file and the window an encoding is chosen from; 64 KiB holds hundreds of
	// lines, far more than the choice needs.
	bufferBytes = 64 << 10
	// maxGuesses bounds how many windows of a file are tried before its bytes stay escaped for good.
	maxGuesses = 16
)

// Options say how a file is to be read. The zero value detects the encoding and keeps 16 KiB of a line.
type Options struct {
	// Declared is an encoding as Canonical returned it; empty means that it is detected.
	Declared string
	// MaxLineBytes bounds how much of a line is kept; 0 means 16 KiB, and more than 32 KiB means 32 KiB.
	MaxLineBytes int
}

// Line is one line of a file without its line end.
type Line struct {
	// Text is UTF-8, holds no control characters but tab, and is valid until the next call of Next.
	Text []byte
	// Cut says that the line was longer than Options.MaxLineBytes and that Text is its head.
	Cut bool
}

// Lines reads a file line by line. A line ends at LF or CR LF; a last line without an end counts as a line. It is not
// safe for concurrent use.
type Lines struct {
	br          *bufio.Reader
	options     Options
	started     bool
	name        string
	basis       string
	decoder     *encoding.Decoder
	guesses     int
	undecodable int64
	controls    int64
	raw         []byte
	decoded     []byte
	shown       []byte
}

// NewLines returns a reader of the lines of r.
func NewLines(r io.Reader, options Options) *Lines {
	if options.MaxLineBytes <= 0 {
		options.MaxLineBytes = 16 << 10
	}
	options.MaxLineBytes = min(options.MaxLineBytes, bufferBytes/2)
	return &Lines{br: bufio.NewReaderSize(r, bufferBytes), options: options, name: ASCII, basis: BasisDetected}
}

// Encoding returns the encoding of what was read so far and the ground on which it was chosen.
func (l *Lines) Encoding() (name, basis string) { return l.name, l.basis }

// Undecodable returns how many bytes so far could not be decoded and were shown as \xNN. The cut-off part of an
// overlong line is not decoded and so not counted.
func (l *Lines) Undecodable() int64 { return l.undecodable }

// Controls returns how many control characters so far were shown as \xNN: many of them mean that the file is no text.
func (l *Lines) Controls() int64 { return l.controls }

// Next returns the next line, or io.EOF after the last one, or the error of the underlying reader.
func (l *Lines) Next() (Line, error) {
	if !l.started {
		l.started = true
		if err := l.start(); err != nil {
			return Line{}, err
		}
	}
	raw, cut, err := l.readRaw()
	if err != nil {
		return Line{}, err
	}
	return Line{Text: l.decode(raw, cut), Cut: cut}, nil
}

// start settles what the head of the file settles: declaration, byte order mark, zero bytes.
func (l *Lines) start() error {
	head, err := l.br.Peek(bufferBytes)
	if err != nil && !errors.Is(err, io.EOF) && len(head) == 0 {
		return err
	}
	bomName, bomLen := byteOrderMark(head)
	switch declared := l.options.Declared; {
	case declared == utf16Any:
		l.name, l.basis = UTF16LE, BasisDeclared
		if bomName == UTF16BE {
			l.name = UTF16BE
		}
	case declared != "":
		l.name, l.basis = declared, BasisDeclared
	case bomName != "":
		l.name, l.basis = bomName, BasisBOM
	default:
		if name := guessHead(head); name != "" {
			l.name = name
		}
	}
	if bomName == l.name {
		if _, err := l.br.Discard(bomLen); err != nil {
			return err
		}
	}
	if l.name == UTF16LE || l.name == UTF16BE {
		wide := &utf16Reader{r: l.br, bigEndian: l.name == UTF16BE, undecodable: &l.undecodable}
		l.br = bufio.NewReaderSize(wide, bufferBytes)
	}
	l.decoder = decoderFor(l.name)
	return nil
}

func byteOrderMark(head []byte) (name string, length int) {
	switch {
	case bytes.HasPrefix(head, []byte{0xEF, 0xBB, 0xBF}):
		return UTF8, 3
	case bytes.HasPrefix(head, []byte{0xFF, 0xFE}):
		return UTF16LE, 2
	case bytes.HasPrefix(head, []byte{0xFE, 0xFF}):
		return UTF16BE, 2
	default:
		return "", 0
	}
}

// readRaw returns the next line's bytes up to the bound. The slice is valid until the next read of l.br.
func (l *Lines) readRaw() (line []byte, cut bool, err error) {
	chunk, err := l.br.ReadSlice('\n')
	switch {
	case err == nil:
		return l.bound(trimEnd(chunk))
	case errors.Is(err, io.EOF) && len(chunk) > 0:
		return l.bound(trimEnd(chunk))
	case !errors.Is(err, bufio.ErrBufferFull):
		return nil, false, err
	}
	limit := l.options.MaxLineBytes
	l.raw = append(l.raw[:0], chunk[:min(len(chunk), limit)]...)
	for errors.Is(err, bufio.ErrBufferFull) {
		chunk, err = l.br.ReadSlice('\n')
		if len(l.raw) < limit {
			l.raw = append(l.raw, chunk[:min(len(chunk), limit-len(l.raw))]...)
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	// The line did not fit the buffer, which is larger than any bound.
	return l.raw, true, nil
}

func (l *Lines) bound(line []byte) ([]byte, bool, error) {
	if len(line) > l.options.MaxLineBytes {
		return line[:l.options.MaxLineBytes], true, nil
	}
	return line, false, nil
}

func trimEnd(line []byte) []byte {
	line = bytes.TrimSuffix(line, []byte{'\n'})
	for len(line) > 0 && line[len(line)-1] == '\r' {
		line = line[:len(line)-1]
	}
	return line
}

// decode returns the line as UTF-8 that can be shown.
func (l *Lines) decode(raw []byte, cut bool) []byte {
	if isPlain(raw) {
		return raw
	}
	if !isASCII(raw) {
		if l.undecided() {
			raw = l.guess(raw)
		}
		raw = l.decodeWide(raw, cut)
		raw = bytes.TrimPrefix(raw, []byte{0xEF, 0xBB, 0xBF})
	}
	return l.escapeControls(raw)
}

func (l *Lines) undecided() bool {
	return l.basis == BasisDetected && (l.name == ASCII || l.name == Unknown) && l.guesses < maxGuesses
}

// guess chooses the encoding from the line and what follows it, and returns the line out of harm's way.
func (l *Lines) guess(raw []byte) []byte {
	l.guesses++
	l.raw = append(l.raw[:0], raw...)
	end := len(l.raw)
	// The window is looked at, not taken: what follows is read again as lines. An error shows up at that reading.
	following, err := l.br.Peek(bufferBytes / 2)
	l.raw = append(append(l.raw, '\n'), following...)
	l.name = guessText(l.raw, errors.Is(err, io.EOF))
	l.decoder = decoderFor(l.name)
	return l.raw[:end:end]
}

func (l *Lines) decodeWide(raw []byte, cut bool) []byte {
	switch {
	case l.name == UTF8, l.name == UTF16LE, l.name == UTF16BE:
		if utf8.Valid(raw) {
			return raw
		}
		return l.escapeUTF8(raw, cut)
	case l.decoder == nil:
		l.decoded = l.decoded[:0]
		for _, c := range raw {
			l.appendByte(c)
		}
		return l.decoded
	}
	// No character of these encodings takes more than three bytes of UTF-8 for each of its own.
	if need := 3*len(raw) + utf8.UTFMax; cap(l.decoded) < need {
		l.decoded = make([]byte, need)
	}
	l.decoder.Reset()
	n, _, err := l.decoder.Transform(l.decoded[:cap(l.decoded)], raw, true)
	if err == nil && !bytes.Contains(l.decoded[:n], []byte("\uFFFD")) {
		return l.decoded[:n]
	}
	return l.escapeUnits(raw, cut)
}
