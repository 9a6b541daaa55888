package find

import (
	"strings"

	"muster/internal/redact/words"
)

// leastSaid is the shortest secret that a sentence tells: what is shorter is mostly a number of things.
const leastSaid = 4

// said is what a Chinese sentence says a secret to be (密码是…, 密码为…) or puts in brackets behind its name (密码【…】).
func (f *finder) said(end int) (start, until int) {
	t := f.text
	start = skipSpaces(t, end)
	f.work -= start - end + lineWork
	if strings.HasPrefix(t[start:], Mark) {
		return 0, 0
	}
	for _, pair := range [...][2]string{{"【", "】"}, {"[", "]"}, {"「", "」"}, {"『", "』"}, {"〔", "〕"}, {"《", "》"}} {
		if strings.HasPrefix(t[start:], pair[0]) {
			return f.bracketed(start+len(pair[0]), pair[1])
		}
	}
	verb := 0
	for _, word := range [...]string{"是", "为", "為"} {
		if strings.HasPrefix(t[start:], word) {
			verb = len(word)
		}
	}
	if verb == 0 {
		return 0, 0
	}
	for start += verb; ; {
		before := start
		for _, sign := range [...]string{" ", "：", ":", "“", "‘", `"`, "'", "【", "「"} {
			if strings.HasPrefix(t[start:], sign) {
				start += len(sign)
			}
		}
		if start == before {
			break
		}
		f.work--
	}
	if until = f.saidWord(start); until-start < leastSaid || isQualified(t[until:]) || words.IsMeasure("", t[start:until]) {
		return 0, 0
	}
	return start, until
}

// bracketed is a word of ASCII up to the bracket that closes it.
func (f *finder) bracketed(start int, closing string) (from, until int) {
	until = f.saidWord(start)
	if strings.HasPrefix(f.text[start:], Mark) {
		return 0, 0
	}
	if at := strings.Index(f.text[start:until], closing); at >= 0 {
		until = start + at
	}
	closed := until == len(f.text) || strings.HasPrefix(f.text[until:], closing)
	if until-start < leastSaid || !closed || words.IsMeasure("", f.text[start:until]) {
		return 0, 0
	}
	return start, until
}

// saidWord returns where a word of printable ASCII ends.
func (f *finder) saidWord(i int) int {
	from := i
	for i < len(f.text) && f.text[i] > ' ' && f.text[i] < 0x7f && strings.IndexByte("\"'<>", f.text[i]) < 0 {
		i++
	}
	f.work -= i - from
	return i
}

// isQualified reports whether what follows a word tells that the word is no secret but says what kind one is.
func isQualified(rest string) bool {
	for _, word := range [...]string{"加密", "位", "个", "個", "的", "格式", "算法", "类型", "方式", "编码", "字符", "哈希", "天", "分钟", "小时", "次", "长度"} {
		if strings.HasPrefix(strings.TrimLeft(rest, " "), word) {
			return true
		}
	}
	return false
}
