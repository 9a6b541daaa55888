// Package textenc turns the bytes of a store's text files into lines of UTF-8, whatever they were written in, and
// never loses a byte in silence: what cannot be decoded stands in the line as a visible \xNN escape and is counted.
// It must not know what the lines mean, and it must not hold more of a file than one buffer and the head of one line.
//
// How an encoding is chosen, first rule that applies:
//
//  1. The configuration declares it. A declaration is never overruled, not even by a byte order mark.
//  2. A byte order mark of UTF-8 or UTF-16 opens the file.
//  3. Zero bytes in the head of the file lie almost all at odd offsets (UTF-16LE) or almost all at even ones
//     (UTF-16BE). Text in the other encodings holds no zero bytes, and the run of zeros that a power cut leaves in a
//     log falls on both alike. This comes before rule 4 because Latin text in UTF-16 is valid UTF-8.
//  4. While only ASCII was seen nothing needs deciding. At the first other byte a window from there on is valid
//     UTF-8. Text in the double-byte encodings passes as UTF-8 only by an accident of a few characters.
//  5. The window is read as UTF-8, GB18030 and Big5 (at the head of a file as UTF-16, too) and each reading is
//     scored: a character from the package's own list of the commonest Chinese characters, simplified and traditional,
//     speaks for it; a place in the first plane of the character set (where the everyday characters stand) a little;
//     a rare character against it; a byte that cannot be decoded strongly against it. The best positive score wins;
//     a draw goes to GB18030. Where none is positive, the bytes stay escaped and the next windows are tried.
package textenc

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
)

// The names under which an encoding is reported.
const (
	ASCII       = "ascii"
	UTF8        = "utf-8"
	UTF16LE     = "utf-16le"
	UTF16BE     = "utf-16be"
	GBK         = "gbk"
	GB18030     = "gb18030"
	Big5        = "big5"
	Latin1      = "iso-8859-1"
	Windows1252 = "windows-1252"
	// Unknown is reported when bytes outside ASCII fit none of the encodings that are detected.
	Unknown = "unknown"

	// utf16Any is what a declaration of plain "utf-16" means: the byte order mark decides, without one little-endian.
	utf16Any = "utf-16"
)

// The grounds on which an encoding was chosen.
const (
	BasisDeclared = "declared"
	BasisBOM      = "bom"
	BasisDetected = "detected"
)

func aliases() map[string]string {
	return map[string]string{
		"ascii": UTF8, "us-ascii": UTF8, "utf-8": UTF8, "utf8": UTF8, "utf-8-bom": UTF8, "utf-8-sig": UTF8,
		"utf-16": utf16Any, "utf16": utf16Any, "unicode": utf16Any,
		"utf-16le": UTF16LE, "utf16le": UTF16LE, "utf-16be": UTF16BE, "utf16be": UTF16BE,
		"gbk": GBK, "gb2312": GBK, "gb-2312": GBK, "cp936": GBK, "936": GBK, "gb18030": GB18030, "gb-18030": GB18030,
		"big5": Big5, "big-5": Big5, "big5-hkscs": Big5, "cp950": Big5, "950": Big5,
		"iso-8859-1": Latin1, "latin1": Latin1, "latin-1": Latin1, "windows-1252": Windows1252, "cp1252": Windows1252,
	}
}

// Canonical returns the name that Options.Declared takes for an encoding as people write it ("GB2312", "utf8",
// "CP950"). The error names what is understood.
func Canonical(name string) (string, error) {
	known := aliases()
	key := strings.ToLower(strings.ReplaceAll(strings.TrimSpace(name), "_", "-"))
	if canonical, ok := known[key]; ok {
		return canonical, nil
	}
	seen := make([]string, 0, len(known))
	for _, canonical := range known {
		if !slices.Contains(seen, canonical) {
			seen = append(seen, canonical)
		}
	}
	slices.Sort(seen)
	return "", fmt.Errorf("cannot use encoding %q: known are %s", name, strings.Join(seen, ", "))
}

// decoderFor returns the decoder of an encoding that keeps ASCII as it is, or nil where none is needed.
func decoderFor(name string) *encoding.Decoder {
	switch name {
	case GBK, GB18030:
		// GB18030 holds all of GBK, and files that call themselves GBK do carry its four-byte characters.
		return simplifiedchinese.GB18030.NewDecoder()
	case Big5:
		return traditionalchinese.Big5.NewDecoder()
	case Latin1:
		return charmap.ISO8859_1.NewDecoder()
	case Windows1252:
		return charmap.Windows1252.NewDecoder()
	default:
		return nil
	}
}

// unitLen returns how many bytes of b make the next character of the encoding by its structure alone. ok is false
// where no character can begin so; short says that b ends within a character.
func unitLen(name string, b []byte) (n int, ok, short bool) {
	chinese := name == GBK || name == GB18030 || name == Big5
	switch {
	case !chinese || b[0] < 0x80:
		return 1, true, false
	case b[0] == 0x80 || b[0] == 0xFF:
		return 1, false, false
	case len(b) == 1:
		return 1, false, true
	case name == Big5:
		return unitBig5(b)
	default:
		return unitGB(b)
	}
}

// unitGB is unitLen of two bytes or more, the first of which leads others.
func unitGB(b []byte) (n int, ok, short bool) {
	switch {
	case b[1] >= 0x40 && b[1] != 0x7F && b[1] != 0xFF:
		return 2, true, false
	case b[1] < 0x30 || b[1] > 0x39:
		return 1, false, false
	case len(b) < 4:
		return 1, false, len(b) == 2 || (b[2] >= 0x81 && b[2] <= 0xFE)
	case b[2] < 0x81 || b[2] > 0xFE || b[3] < 0x30 || b[3] > 0x39:
		return 1, false, false
	default:
		return 4, true, false
	}
}

// unitBig5 is unitLen of two bytes or more, the first of which leads others.
func unitBig5(b []byte) (n int, ok, short bool) {
	if (b[1] >= 0x40 && b[1] <= 0x7E) || (b[1] >= 0xA1 && b[1] <= 0xFE) {
		return 2, true, false
	}
	return 1, false, false
}
