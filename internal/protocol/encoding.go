package protocol

import (
	"bytes"
	"strings"
)

// byteOrderMark may stand once before a document.
const byteOrderMark = '\ufeff'

// asUTF8 and asUTF8Zh are what to do about a payload in another encoding.
const (
	asUTF8   = "save the file as UTF-8 and send it again: in Notepad by Save as, Encoding UTF-8; in PowerShell by Set-Content -Encoding utf8"
	asUTF8Zh = "请将文件另存为 UTF-8 后重发：记事本用“另存为”，编码选 UTF-8；PowerShell 用 Set-Content -Encoding utf8"
)

// foreignEncoding recognises UTF-16 and UTF-32 by their byte order mark or by the NULs
// beside the first character: JSON opens with an ASCII character. It names the encoding
// in English and in Chinese, "" when it is none.
func foreignEncoding(data []byte) (en, zh string) {
	if len(data) < 2 || data[0] < 0xfe && data[0] != 0 && data[1] != 0 {
		return "", ""
	}
	begins := func(mark string) bool { return bytes.HasPrefix(data, []byte(mark)) }
	nuls := strings.Map(func(r rune) rune {
		if r == 0 {
			return '0'
		}
		return 'x'
	}, string(data[:min(len(data), 4)]))
	switch {
	case begins("\xff\xfe\x00\x00"), nuls == "x000":
		return "UTF-32 (little endian)", "UTF-32（小端序）"
	case begins("\x00\x00\xfe\xff"), nuls == "000x":
		return "UTF-32 (big endian)", "UTF-32（大端序）"
	case begins("\xff\xfe"), strings.HasPrefix(nuls, "x0"):
		return "UTF-16 (little endian)", "UTF-16（小端序）"
	case begins("\xfe\xff"), strings.HasPrefix(nuls, "0x"):
		return "UTF-16 (big endian)", "UTF-16（大端序）"
	}
	return "", ""
}

// notUTF8 refuses a payload that is no UTF-8, and says which encoding it is or may be.
func notUTF8(data []byte) *Error {
	en, zh := "the payload is not valid UTF-8", "消息不是有效的 UTF-8"
	switch p := pairsOf(data); {
	case !p.whole:
	case p.gbkAlone:
		en, zh = "the payload looks like GBK (GB 18030), not UTF-8", "消息看来是 GBK（GB 18030）编码，应为 UTF-8"
	case p.high:
		en, zh = "the payload is not UTF-8; it may be GBK or Big5", "消息不是 UTF-8，可能是 GBK 或 Big5 编码"
	default:
		en, zh = "the payload is not UTF-8; it may be Latin-1 (Windows-1252)", "消息不是 UTF-8，可能是 Latin-1（Windows-1252）编码"
	}
	return badJSON("", en, zh, asUTF8, asUTF8Zh)
}

// pairs is what the bytes beyond ASCII of a text look like.
type pairs struct {
	whole    bool // each belongs to a character of two or four bytes, as GB 18030 forms them
	gbkAlone bool // one of them is none of Big5's
	high     bool // the second byte of one is beyond ASCII too, as it seldom is in Latin-1
}

// pairsOf goes by GB 18030-2005, 5.2, of which GBK is the part of two bytes. Characters
// of Big5 begin like those of GBK, and end in 40-7E or A1-FE: most of GBK does so, too.
func pairsOf(data []byte) (p pairs) {
	within := func(b, low, high byte) bool { return b >= low && b <= high }
	for i := 0; i < len(data); {
		rest := data[i:]
		switch {
		case rest[0] < 0x80:
			i++
		case len(rest) < 2 || !within(rest[0], 0x81, 0xfe):
			return pairs{}
		case within(rest[1], 0x40, 0xfe) && rest[1] != 0x7f:
			p.high = p.high || rest[1] >= 0x80
			p.gbkAlone = p.gbkAlone || within(rest[1], 0x80, 0xa0)
			i += 2
		case len(rest) >= 4 && within(rest[1], '0', '9') && within(rest[2], 0x81, 0xfe) && within(rest[3], '0', '9'):
			p.gbkAlone = true
			i += 4
		default:
			return pairs{}
		}
	}
	p.whole = true
	return p
}
