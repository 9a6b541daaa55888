package textenc_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/encoding/unicode"

	"muster/edge-agent/internal/collect/textenc"
)

const (
	simplified  = "2026-09-17 07:30:00 错误 收银台打印机缺纸，订单尾号八八二三一\r\n2026-09-17 07:30:01 信息 顾客张先生使用会员积分换购了两瓶酱油"
	traditional = "2026-09-17 07:30:00 錯誤 收銀機連線逾時，請檢查網路設定\r\n2026-09-17 07:30:01 資訊 顧客張先生以會員點數換購兩瓶醬油"
)

type kind struct {
	name string
	with encoding.Encoding
	bom  bool
}

func kinds() []kind {
	utf16 := unicode.UTF16
	return []kind{
		{textenc.UTF8, unicode.UTF8, false}, {textenc.UTF8, unicode.UTF8BOM, true},
		{textenc.GB18030, simplifiedchinese.GB18030, false}, {textenc.Big5, traditionalchinese.Big5, false},
		{textenc.UTF16LE, utf16(unicode.LittleEndian, unicode.IgnoreBOM), false}, {textenc.UTF16LE, utf16(unicode.LittleEndian, unicode.UseBOM), true},
		{textenc.UTF16BE, utf16(unicode.BigEndian, unicode.IgnoreBOM), false}, {textenc.UTF16BE, utf16(unicode.BigEndian, unicode.UseBOM), true},
	}
}

func encode(t testing.TB, with encoding.Encoding, text string) []byte {
	t.Helper()
	out, err := with.NewEncoder().Bytes([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

type read struct {
	lines       []string
	cut         int
	name, basis string
	undecodable int64
}

func readAll(t testing.TB, content []byte, options textenc.Options) read {
	t.Helper()
	lines := textenc.NewLines(bytes.NewReader(content), options)
	var got read
	for {
		line, err := lines.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if !utf8.Valid(line.Text) || bytes.Contains(line.Text, []byte("\uFFFD")) {
			t.Errorf("the line %q is no sound UTF-8", line.Text)
		}
		got.lines = append(got.lines, string(line.Text))
		if line.Cut {
			got.cut++
		}
	}
	got.name, got.basis = lines.Encoding()
	got.undecodable = lines.Undecodable()
	return got
}

func TestLinesDetectsEncodings(t *testing.T) {
	t.Parallel()
	ascii := strings.Repeat("2026-09-17 07:29:59 INFO started\n", 3000)
	for _, k := range kinds() {
		text := simplified
		if k.name == textenc.Big5 {
			text = traditional
		}
		texts := []string{text, text + "\r\n", strings.Repeat(text+"\n", 900)}
		if k.name != textenc.UTF16LE && k.name != textenc.UTF16BE {
			// The first foreign byte comes behind more ASCII than any buffer holds.
			texts = append(texts, ascii+text)
		}
		for i, want := range texts {
			got := readAll(t, encode(t, k.with, want), textenc.Options{})
			if got.name != k.name || got.undecodable != 0 || (got.basis == textenc.BasisBOM) != k.bom {
				t.Errorf("%s %d: detected %s by %s, %d bytes undecodable", k.name, i, got.name, got.basis, got.undecodable)
			}
			if shown := strings.ReplaceAll(strings.TrimRight(want, "\r\n"), "\r\n", "\n"); strings.Join(got.lines, "\n") != shown {
				t.Errorf("%s %d: the text came out changed", k.name, i)
			}
		}
	}
}

func TestLinesDetectsShortTexts(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"错误：打印失败", "支付超时", "网络连接断开", "数据库连接失败", "找不到文件", "收银员登录成功", "联通", "库存不足", "系统启动完成", "会员卡读取错误",
		"重新启动服务器", "商品条码无效", "日结完成", "今日营业额", "配置文件已更新", "门店编号",
	} {
		if got := readAll(t, encode(t, simplifiedchinese.GB18030, text), textenc.Options{}); got.name != textenc.GB18030 || got.lines[0] != text {
			t.Errorf("%s: %s, %q", text, got.name, got.lines)
		}
	}
	for _, text := range []string{
		"錯誤：列印失敗", "連線逾時", "網路連線中斷", "資料庫連線失敗", "找不到檔案", "收銀員登入成功", "庫存不足", "系統啟動完成", "會員卡讀取錯誤", "重新啟動伺服器",
		"商品條碼無效", "今日營業額", "設定檔已更新", "門市編號",
	} {
		if got := readAll(t, encode(t, traditionalchinese.Big5, text), textenc.Options{}); got.name != textenc.Big5 || got.lines[0] != text {
			t.Errorf("%s: %s, %q", text, got.name, got.lines)
		}
	}
	utf16 := unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	if got := readAll(t, encode(t, utf16, "收银台打印机缺纸，请检查"), textenc.Options{}); got.name != textenc.UTF16LE {
		t.Errorf("UTF-16 without a Latin character: %s, %q", got.name, got.lines)
	}
}

func TestLinesDeclaredWins(t *testing.T) {
	t.Parallel()
	for _, k := range kinds() {
		text := simplified
		if k.name == textenc.Big5 {
			text = traditional
		}
		got := readAll(t, encode(t, k.with, text), textenc.Options{Declared: k.name})
		if got.basis != textenc.BasisDeclared || got.name != k.name || strings.Join(got.lines, "\r\n") != text {
			t.Errorf("%s declared: %s by %s, %q", k.name, got.name, got.basis, got.lines)
		}
	}
	// Latin-1 could be read as GB18030, too.
	if got := readAll(t, []byte("caf\xe9 \xe0 la"), textenc.Options{Declared: textenc.Latin1}); got.lines[0] != "café à la" {
		t.Errorf("latin-1: %q", got.lines)
	}
	for _, order := range []unicode.Endianness{unicode.LittleEndian, unicode.BigEndian} {
		declared, err := textenc.Canonical("UTF-16")
		if err != nil {
			t.Fatal(err)
		}
		got := readAll(t, encode(t, unicode.UTF16(order, unicode.UseBOM), simplified), textenc.Options{Declared: declared})
		if strings.Join(got.lines, "\r\n") != simplified {
			t.Errorf("utf-16 declared: %q", got.lines)
		}
	}
}

func TestLinesShowsWhatCannotBeDecoded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, declared, in, want string
		count                    int64
	}{
		{"utf-8 broken", textenc.UTF8, "a\xff\xfeb错\xe9\x94", `a\xff\xfeb错\xe9\x94`, 4},
		{"utf-8 truncated in sound text", "", "错误打印失败订单支付\xe9\x94 收银台连接超时", `错误打印失败订单支付\xe9\x94 收银台连接超时`, 2},
		{"gbk broken", textenc.GBK, "a\xff \xb4\xed\xce\xf3\xb4", `a\xff 错误\xb4`, 2},
		{"gbk pair broken", textenc.GBK, "\xb4\x20\xb4\xed", `\xb4 错`, 1},
		{"gb18030 four bytes", textenc.GB18030, "\x95\x32\x82\x36", "𠀀", 0},
		{"big5 broken", textenc.Big5, "\xff\xbf\xf9", `\xff錯`, 1},
		{"utf-16 lone surrogate", textenc.UTF16LE, "a\x00\x00\xd8b\x00", `a\x00\xd8b`, 2},
		{"utf-16 odd byte", textenc.UTF16BE, "\x00a\x00b\x00", `ab\x00`, 1},
		{"windows-1252 hole", textenc.Windows1252, "\x80\x81", `€\x81`, 1},
		{"latin undeclared", "", "d\xe9j\xe0 vu \xfcber", `d\xe9j\xe0 vu \xfcber`, 3},
		{"random bytes", "", "\x81\x81\xff\xff\xfe\x80 \x90", `\x81\x81\xff\xff\xfe\x80 \x90`, 7},
		{"controls", "", "a\x00b\x1b[31mc\td", `a\x00b\x1b[31mc	d`, 0},
	} {
		got := readAll(t, []byte(c.in), textenc.Options{Declared: c.declared})
		if len(got.lines) != 1 || got.lines[0] != c.want || got.undecodable != c.count {
			t.Errorf("%s: got %q (%d, %s), want %q (%d)", c.name, got.lines, got.undecodable, got.name, c.want, c.count)
		}
	}
}

func TestLinesEnds(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][]string{
		"": nil, "\n": {""}, "a": {"a"}, "a\n": {"a"}, "a\r\n": {"a"}, "a\r\nb": {"a", "b"}, "\n\n": {"", ""}, "a\r\r\nb": {"a", "b"},
		"\xef\xbb\xbfa\n\xef\xbb\xbfb": {"a", "b"}, "\xef\xbb\xbf": nil,
	} {
		if got := readAll(t, []byte(in), textenc.Options{}); fmt.Sprint(got.lines) != fmt.Sprint(want) {
			t.Errorf("%q: got %q, want %q", in, got.lines, want)
		}
	}
}

func TestLinesKeepsTheHeadOfLongLines(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"x", "错", "\xb4\xed"} {
		long := strings.Repeat(unit, 10_000_000/len(unit))
		got := readAll(t, []byte("first\n"+long+"\nlast"), textenc.Options{MaxLineBytes: 1001})
		if len(got.lines) != 3 || got.cut != 1 || got.lines[0] != "first" || got.lines[2] != "last" || got.undecodable != 0 {
			t.Fatalf("%q: %d lines, %d cut, %d undecodable", unit, len(got.lines), got.cut, got.undecodable)
		}
		if n := len(got.lines[1]); n < 990 || n > 1600 {
			t.Errorf("%q: the head has %d bytes", unit, n)
		}
	}
	// Around the bound itself.
	for n := 99; n <= 102; n++ {
		got := readAll(t, []byte(strings.Repeat("x", n)+"\r\n"), textenc.Options{MaxLineBytes: 100})
		if (got.cut == 1) != (n > 100) || len(got.lines) != 1 || len(got.lines[0]) != min(n, 100) {
			t.Errorf("%d bytes: %d cut, %d kept", n, got.cut, len(got.lines[0]))
		}
	}
}

func TestLinesToleratesZeros(t *testing.T) {
	t.Parallel()
	// A power cut leaves a run of zeros where the last lines should be.
	in := "2026-09-17 07:30:00 INFO x\n" + strings.Repeat("\x00", 3000) + "\n2026-09-17 07:31:00 INFO y\n"
	got := readAll(t, []byte(in), textenc.Options{})
	if len(got.lines) != 3 || got.name != textenc.ASCII || got.undecodable != 0 {
		t.Errorf("%d lines, %s, %d undecodable", len(got.lines), got.name, got.undecodable)
	}
}

func TestCanonical(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"UTF-8": "utf-8", "GB2312": "gbk", "cp936": "gbk", "GB_18030": "gb18030", "Big-5": "big5", "UTF_16LE": "utf-16le"} {
		if got, err := textenc.Canonical(in); err != nil || got != want {
			t.Errorf("Canonical(%q) = %q, %v", in, got, err)
		}
	}
	_, err := textenc.Canonical("klingon")
	if want := `cannot use encoding "klingon": known are big5, gb18030, gbk, iso-8859-1, utf-16, utf-16be, utf-16le, utf-8, windows-1252`; err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte(simplified), "")
	f.Add([]byte("\xff\xfea\x00\x00\xd8"), "")
	f.Add([]byte("\xb4\xed\xff\x84\x31\xa4\x37"), textenc.GBK)
	f.Fuzz(func(t *testing.T, content []byte, declared string) {
		name, err := textenc.Canonical(declared)
		if err != nil {
			name = ""
		}
		if bytes.Contains(content, []byte("\xef\xbf\xbd")) || bytes.Contains(content, []byte("\x84\x31\xa4\x37")) || bytes.Contains(content, []byte("\xfd\xff")) || bytes.Contains(content, []byte("\xff\xfd")) {
			t.Skip("the text holds U+FFFD itself")
		}
		readAll(t, content, textenc.Options{Declared: name, MaxLineBytes: 64})
	})
}
