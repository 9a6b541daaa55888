package protocol_test

import (
	"errors"
	"strings"
	"testing"

	"muster/internal/protocol"
)

// TestAnOddCharacterIsNamedWithItsCause: what a word processor, an input method or a shell
// made of a document is named as what it is, in both languages.
func TestAnOddCharacterIsNamedWithItsCause(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ doc, say, sayZh, hint, hintZh string }{
		"curly quotes":        {`{“job”:“j”}`, "invalid character '“' (U+201C) looking for beginning of object key string", "此处不应出现字符 '“'（U+201C）", "no quotes of JSON", "不是 JSON 的引号"},
		"a curly value":       {`{"job":“j”}`, "invalid character '“' (U+201C) looking for beginning of value", "'“'（U+201C）", "no quotes of JSON", "半角直引号"},
		"curly single quotes": {`{‘job’:1}`, "invalid character '‘' (U+2018)", "'‘'（U+2018）", "no quotes of JSON", "半角直引号"},
		"single quotes":       {`{'job':'j'}`, `invalid character '\'' looking for beginning of object key string`, `此处不应出现字符 '\''`, "no single quotes", "不使用单引号"},
		"quoted as a whole":   {`'{"job":"j"}'`, `invalid character '\'' looking for beginning of value`, `此处不应出现字符 '\''`, "cmd.exe", "cmd.exe"},
		"two marks":           {"\ufeff\ufeff{}", "invalid character U+FEFF (a byte order mark)", "U+FEFF（字节顺序标记）", "without a byte order mark", "不带字节顺序标记"},
		"full-width colon":    {`{"job"：1}`, "invalid character '：' (U+FF1A) after object key", "'：'（U+FF1A）", "input method", "半角字符"},
		"ideographic space":   {"{\u3000\"job\":1}", "invalid character U+3000 looking", "U+3000", "input method", "半角字符"},
		"no quotes at all":    {`{job:j}`, "invalid character 'j' looking for beginning of object key string", "此处不应出现字符 'j'", "PowerShell", "PowerShell"},
		"something else":      {`{"job":é}`, "invalid character 'é' (U+00E9) looking for beginning of value", "'é'（U+00E9）", "JSON tool", "JSON 工具"},
		"cut off":             {`{"job":`, "the document ends too early", "过早结束", "JSON tool", "JSON 工具"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := protocol.Scan([]byte(c.doc), limit)
			var refusal *protocol.Error
			if !errors.As(err, &refusal) || refusal.Code != protocol.CodeBadJSON {
				t.Fatalf("got %v", err)
			}
			for _, part := range [][2]string{{refusal.Message, c.say}, {refusal.MessageZh, c.sayZh}, {refusal.Hint, c.hint}, {refusal.HintZh, c.hintZh}} {
				if !strings.Contains(part[0], part[1]) {
					t.Errorf("%q lacks %q", part[0], part[1])
				}
			}
		})
	}
}

func TestOddInIDFindsWhatValidIDRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{"A001"},
		{""},
		{strings.Repeat("a", 64)},
		{"A001 ", "its character 5 is U+0020 (a space)", "第 5 个字符是 U+0020（空格）"},
		{"А001", "its character 1 is 'А' (U+0410)", "第 1 个字符是 'А'（U+0410）"},
		{"店1", "its character 1 is '店' (U+5E97)", "第 1 个字符是 '店'（U+5E97）"},
		{"A\t1", "its character 2 is U+0009", "第 2 个字符是 U+0009"},
		{"-a", "its character 1 is '-' (U+002D)", "第 1 个字符是 '-'（U+002D）"},
		{"a-_."},
	} {
		if en, zh := protocol.OddInID(c[0]); en != c[1] || zh != c[2] {
			t.Errorf("%q: got %q, %q", c[0], en, zh)
		}
	}
	for b := range 256 { // it must agree with ValidID
		for _, id := range []string{string(rune(b)), "a" + string(rune(b))} {
			if en, _ := protocol.OddInID(id); (en == "") != protocol.ValidID(id) {
				t.Errorf("%q: %q, valid %v", id, en, protocol.ValidID(id))
			}
		}
	}
}

// TestWildcardsAreToldFromOtherOddities in the hint about a store.
func TestWildcardsAreToldFromOtherOddities(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{"A*", "there are no wildcards: ", "不支持通配符："},
		{"A?1", "there are no wildcards: ", "不支持通配符："},
		{"+", "there are no wildcards: ", "不支持通配符："},
		{"#", "there are no wildcards: ", "不支持通配符："},
		{"A%", "there are no wildcards: ", "不支持通配符："},
		{"A001 ", "its character 5 is U+0020 (a space): ", "第 5 个字符是 U+0020（空格）："},
		{"А001", "its character 1 is 'А' (U+0410): ", "第 1 个字符是 'А'（U+0410）："},
		{"", "name each store", "请逐一列出门店"},
		{strings.Repeat("a", 64), "name each store", "请逐一列出门店"},
	} {
		for _, form := range []string{`["` + c[0] + `"]`, `{"allBut":["` + c[0] + `"]}`} {
			var request protocol.RunRequest
			var refusal *protocol.Error
			err := protocol.Decode([]byte(`{"job":"j","stores":`+form+`}`), limit, &request)
			if !errors.As(err, &refusal) || !strings.HasPrefix(refusal.Hint, c[1]) || !strings.HasPrefix(refusal.HintZh, c[2]) {
				t.Errorf("%s: got %+v", form, refusal)
			}
		}
	}
}
