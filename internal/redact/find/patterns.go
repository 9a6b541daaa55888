package find

import (
	"strings"
	"sync"

	"muster/internal/redact/words"
)

// patterns finds secrets by their own form. marks are the bits of the words in the text.
func (f *finder) patterns(marks uint32) {
	if marks&words.MayBePrivateKey != 0 {
		f.privateKeys()
	}
	if marks&words.MayBeAddress != 0 {
		f.addresses()
	}
	done := 0
	words.EachForm(f.text, func(end int, bits uint32) {
		if bits&^(words.MayBePrivateKey|words.MayBeAddress|words.MayBeEscaped|words.MayBeEncoded) == 0 || end <= done || f.work < 0 {
			return
		}
		if start, until := f.form(end, bits); until > start {
			f.add(start, until)
			done = until
		}
		if f.work < 0 {
			f.add(end, len(f.text))
		}
	})
}

// form returns the place of the secret that the word before end belongs to, if it does.
func (f *finder) form(end int, bits uint32) (start, until int) {
	switch {
	case bits&words.MayBeScheme != 0:
		return f.scheme(end)
	case bits&words.MayBeBasic != 0:
		return f.basic(end)
	case bits&words.MayBeWebToken != 0:
		return f.webToken(end - len("eyJ"))
	case bits&words.MayBeServiceKey != 0:
		return f.token(end-len("AKIA"), end, 12, isServiceKey)
	case bits&words.MayBeAccessToken != 0:
		begin := end - 1
		for begin > 0 && isWordByte(f.text[begin-1]) {
			begin--
			if f.work--; end-begin > len("github_pat_") {
				return 0, 0
			}
		}
		return f.token(begin, end, 16, words.IsAccessToken)
	case bits&words.MayBeIdentified != 0:
		return f.identified(end)
	case bits&words.MayBeUserOption != 0 && f.isOption(end):
		return f.matched(userOption(), end)
	case bits&words.MayBeMySQL != 0 && (end == len("mysql") || !isWordByte(f.text[end-len("mysql")-1])):
		return f.mySQL(end)
	case bits&words.MayBeOracleURL != 0:
		return f.matched(oracleURL(), end)
	case bits&words.MayBeOracle != 0:
		return f.oracle(end)
	}
	return f.place(end, bits)
}

// place returns the place of the secret that the word before end says to be there: in a command, a call, a statement, a
// URL or a sentence.
func (f *finder) place(end int, bits uint32) (start, until int) {
	switch {
	case bits&words.MayBeOption != 0:
		return f.option(end)
	case bits&words.MayBeCall != 0:
		return f.call(end)
	case bits&words.MayBeInsert != 0:
		f.insert(end)
	case bits&words.MayBeWebKey != 0:
		f.webKey(end)
	case bits&words.MayBeQuery != 0:
		return f.query(end)
	case bits&words.MayBeSaid != 0:
		return f.said(end)
	}
	return 0, 0
}

// scheme is what follows "Bearer" and its like.
func (f *finder) scheme(end int) (start, until int) {
	start = skipSpaces(f.text, end)
	until = f.run(start, bearerByte())
	f.work -= start - end
	if start == end || until-start < 6 || !f.beginsWord(end) {
		return 0, 0
	}
	return start, until
}

// beginsWord reports whether the letters before end are a word from its beginning.
func (f *finder) beginsWord(end int) bool {
	begin := end
	for begin > 0 && isWordByte(f.text[begin-1]) {
		begin--
		if f.work--; end-begin > len("negotiate") {
			return false
		}
	}
	switch strings.ToLower(f.text[begin:end]) {
	case "bearer", "negotiate", "ntlm", "basic":
		return true
	}
	return false
}

// basic is what follows "Basic": base64, and as that is also how words words.Look, with a digit or capital in it or padded.
func (f *finder) basic(end int) (start, until int) {
	start = skipSpaces(f.text, end)
	until = f.run(start, base64Byte())
	f.work -= start - end
	if start == end || until-start < 5 || !f.beginsWord(end) {
		return 0, 0
	}
	padded := until
	for padded < len(f.text) && padded < until+2 && f.text[padded] == '=' {
		padded++
	}
	if padded == until && !strings.ContainsAny(f.text[start+5:until], "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		return 0, 0
	}
	return start, padded
}

// webToken is a JSON web token: parts of base64url with dots between them.
func (f *finder) webToken(start int) (from, until int) {
	t := f.text
	if start > 0 && isWordByte(t[start-1]) || t[start:start+3] != "eyJ" {
		return 0, 0
	}
	until = f.run(start, tokenByte())
	if until-start < 8 || until == len(t) || t[until] != '.' {
		return 0, 0
	}
	next := f.run(until+1, tokenByte())
	if next-until < 6 {
		return 0, 0
	}
	for until = next; until < len(t) && t[until] == '.'; {
		until = f.run(until+1, tokenByte())
	}
	return start, until
}

// token is a word of at least so many letters behind the prefix that it is known by.
func (f *finder) token(start, end, least int, prefix func(string) bool) (from, until int) {
	if start > 0 && isWordByte(f.text[start-1]) || !prefix(f.text[start:end]) {
		return 0, 0
	}
	if until = f.run(end, tokenByte()); until-end < least {
		return 0, 0
	}
	return start, until
}

func isServiceKey(s string) bool {
	return s == "AKIA" || s == "ASIA" || s == "AKID" || s == "LTAI" || s == "AIza"
}

// run returns where the bytes of a class end.
func (f *finder) run(i int, class *[256]bool) int {
	from := i
	for i < len(f.text) && class[f.text[i]] {
		i++
	}
	f.work -= i - from
	return i
}

func classOf(more string) *[256]bool {
	var class [256]bool
	for c := range class {
		class[c] = words.IsAlphanumeric(byte(c)) && c < 0x80 || strings.IndexByte(more, byte(c)) >= 0
	}
	return &class
}

var (
	bearerByte = sync.OnceValue(func() *[256]bool { return classOf("._~+/=-") })
	base64Byte = sync.OnceValue(func() *[256]bool { return classOf("+/") })
	tokenByte  = sync.OnceValue(func() *[256]bool { return classOf("_-") })
)

func isWordByte(c byte) bool { return c == '_' || words.IsAlphanumeric(c) }
