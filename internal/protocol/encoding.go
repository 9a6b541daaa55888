package protocol

// asUTF8 and asUTF8Zh are what to do about a payload in another encoding.
const (
	asUTF8   = "save the file as UTF-8 and send it again: in Notepad by Save as, Encoding UTF-8; in PowerShell by Set-Content -Encoding utf8"
	asUTF8Zh = "请将文件另存为 UTF-8 后重发：记事本用“另存为”，编码选 UTF-8；PowerShell 用 Set-Content -Encoding utf8"
)

// foreignEncoding recognises UTF-16 by its byte order mark or by a NUL beside
// the first character: JSON opens with an ASCII character. It names the encoding in
// English and in Chinese, "" when it is none.
func foreignEncoding(data []byte) (en, zh string) {
	if len(data) < 2 {
		return "", ""
	}
	switch {
	case data[0] == 0xff && data[1] == 0xfe, data[0] != 0 && data[1] == 0:
		return "UTF-16 (little endian)", "UTF-16（小端序）"
	case data[0] == 0xfe && data[1] == 0xff, data[0] == 0 && data[1] != 0:
		return "UTF-16 (big endian)", "UTF-16（大端序）"
	}
	return "", ""
}

// notUTF8 refuses a payload that is no UTF-8, and says which encoding it looks like.
func notUTF8(data []byte) *Error {
	if isGBK(data) {
		return badJSON("", "the payload looks like GBK (GB 18030), not UTF-8", "消息看来是 GBK（GB 18030）编码，应为 UTF-8", asUTF8, asUTF8Zh)
	}
	return badJSON("", "the payload is not valid UTF-8", "消息不是有效的 UTF-8", asUTF8, asUTF8Zh)
}

// isGBK reports whether every byte beyond ASCII belongs to a character of two or
// four bytes as GB 18030 forms them (GB 18030-2005, 5.2), of which GBK is the part
// of two.
func isGBK(data []byte) bool {
	within := func(b, low, high byte) bool { return b >= low && b <= high }
	for i := 0; i < len(data); {
		rest := data[i:]
		switch {
		case rest[0] < 0x80:
			i++
		case len(rest) < 2 || !within(rest[0], 0x81, 0xfe):
			return false
		case within(rest[1], 0x40, 0xfe) && rest[1] != 0x7f:
			i += 2
		case len(rest) >= 4 && within(rest[1], '0', '9') && within(rest[2], 0x81, 0xfe) && within(rest[3], '0', '9'):
			i += 4
		default:
			return false
		}
	}
	return true
}
