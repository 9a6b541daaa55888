package protocol

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// character names one so that people find it: as it looks, where it looks like anything,
// and by its number in Unicode, since others may look the same.
func character(r rune) (en, zh string) {
	switch {
	case r == ' ':
		return "U+0020 (a space)", "U+0020（空格）"
	case r == byteOrderMark:
		return "U+FEFF (a byte order mark)", "U+FEFF（字节顺序标记）"
	case unicode.IsGraphic(r) && !unicode.IsSpace(r):
		return fmt.Sprintf("'%c' (%U)", r, r), fmt.Sprintf("'%c'（%U）", r, r)
	}
	return fmt.Sprintf("%U", r), fmt.Sprintf("%U", r)
}

// OddInID says which character of a text, counted from 1, keeps it from being an id, in
// English and in Chinese; "" when none does: it is too short or too long, or an id.
func OddInID(text string) (en, zh string) {
	at, r := oddInID(text)
	if at == 0 {
		return "", ""
	}
	name, nameZh := character(r)
	return fmt.Sprintf("its character %d is %s", at, name), fmt.Sprintf("第 %d 个字符是 %s", at, nameZh)
}

// oddInID is the first character that ValidID takes offence at, and its place; at is 0
// when there is none.
func oddInID(text string) (at int, odd rune) {
	for _, r := range text {
		if at++; !isAlphanumeric(r) && (at == 1 || !strings.ContainsRune("._-", r)) {
			return at, r
		}
	}
	return 0, 0
}

func isAlphanumeric(r rune) bool {
	return r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9'
}

// misspelt says what to do about a character that stands where JSON has none, in a
// document without a single quote of JSON if bare; "" when it is nothing common.
func misspelt(r rune, bare bool) (hint, hintZh string) {
	switch {
	case strings.ContainsRune("“”„‟‘’‚‛«»「」『』＂＇", r):
		return `these are no quotes of JSON: a word processor, a chat or an input method made them; write " for each`,
			`这不是 JSON 的引号，而是文字处理、聊天软件或输入法替换而成的；请全部改为半角直引号 "`
	case r == '\'':
		return `JSON knows no single quotes: write " around names and texts; cmd.exe also sends those around the document, so there write -m "{\"job\": …}"`,
			`JSON 不使用单引号：请用 " 括住字段名和文本；cmd.exe 会把文档两侧的单引号一并发送，请写成 -m "{\"job\": …}"`
	case r == byteOrderMark:
		return "save the file as UTF-8 without a byte order mark; one at its beginning does no harm, two do",
			"请将文件另存为不带字节顺序标记（BOM）的 UTF-8；开头一个无妨，两个则不行"
	case r >= utf8.RuneSelf && unicode.IsSpace(r), r >= '！' && r <= '～', r == '、', r == '。':
		return "take the character of ASCII instead: switch the input method off, and type it anew",
			"请改用半角字符：关闭中文输入法后重新输入"
	case bare:
		return "the document has no quotes: PowerShell before 7.3 takes them away from -m; send a file with mosquitto_pub -f, or write \\\" for each quote",
			"文档中没有引号：7.3 之前的 PowerShell 会去掉 -m 中的引号；请用 mosquitto_pub -f 发送文件，或把每个引号写成 \\\""
	}
	return "", ""
}
