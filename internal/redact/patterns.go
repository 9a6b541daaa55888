package redact

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// The bits of formWords: which form of a secret may be at hand. One of its words stands in every text that has one.
const (
	mayBeScheme uint32 = 1 << iota
	mayBeBasic
	mayBeWebToken
	mayBeServiceKey
	mayBeAccessToken
	mayBeIdentified
	mayBeUserOption
	mayBeMySQL
	mayBeOracleURL
	mayBeOracle
	mayBePrivateKey
	mayBeAddress
	// mayBeEscaped: characters of JSON are written as numbers, so that no word can be seen.
	mayBeEscaped
)

// formWords are the words that credentials of HTTP schemes, JSON web tokens, the keys of well-known services, addresses,
// private keys and the options of commands that take a password are seen by, in a text or in JSON.
var formWords = sync.OnceValue(func() *wordSet {
	words := make(map[string]uint32)
	for bit, list := range map[uint32]string{
		mayBeScheme: "bearer negotiate ntlm", mayBeBasic: "basic", mayBeWebToken: "eyj",
		mayBeServiceKey:  "akia asia akid ltai aiza",
		mayBeAccessToken: accessTokens, mayBeIdentified: "identified", mayBeUserOption: "-user t-u n-u r-u",
		mayBeMySQL: "mysql", mayBeOracleURL: "jdbc:oracle", mayBeOracle: "sqlplus sqlldr imp\\ exp\\",
		mayBePrivateKey: "private-lines", mayBeAddress: `:// :\/\/`, mayBeEscaped: `\u`,
	} {
		for word := range strings.FieldsSeq(list) {
			words[word] |= bit
		}
	}
	for _, space := range []string{" ", "\t", "\n", "\r"} {
		words["imp"+space] |= mayBeOracle
		words["exp"+space] |= mayBeOracle
		words[space+"-u"] |= mayBeUserOption
	}
	words["private key"] |= mayBePrivateKey
	return newWordSet("", words)
})

// accessTokens are the beginnings of the tokens of code hosts, chats and the like.
const accessTokens = "gho- gho_ ghp- ghp_ ghs- ghs_ ghu- ghu_ ghr- ghr_ github_pat- github_pat_ glpat- glpat_ " +
	"xoxa- xoxb- xoxe- xoxp- xoxr- xoxs- xoxa_ xoxb_ xoxe_ xoxp_ xoxr_ xoxs_ sk- sk_ rk_live- rk_live_ npm- npm_ hf- hf_"

// patterns finds secrets by their own form. marks are the bits of the words in the text.
func (f *finder) patterns(marks uint32) {
	if marks&mayBePrivateKey != 0 {
		f.privateKeys()
	}
	if marks&mayBeAddress != 0 {
		f.addresses()
	}
	done := 0
	formWords().each(f.text, func(end int, bits uint32) {
		if bits&^(mayBePrivateKey|mayBeAddress|mayBeEscaped) == 0 || end <= done || f.work < 0 {
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
	case bits&mayBeScheme != 0:
		return f.scheme(end)
	case bits&mayBeBasic != 0:
		return f.basic(end)
	case bits&mayBeWebToken != 0:
		return f.webToken(end - len("eyJ"))
	case bits&mayBeServiceKey != 0:
		return f.token(end-len("AKIA"), end, 12, isServiceKey)
	case bits&mayBeAccessToken != 0:
		begin := end - 1
		for begin > 0 && isWordByte(f.text[begin-1]) {
			begin--
			if f.work--; end-begin > len("github_pat_") {
				return 0, 0
			}
		}
		return f.token(begin, end, 16, isAccessToken)
	case bits&mayBeIdentified != 0:
		return f.matched(identified(), end)
	case bits&mayBeUserOption != 0 && f.isOption(end):
		return f.matched(userOption(), end)
	case bits&mayBeMySQL != 0 && (end == len("mysql") || !isWordByte(f.text[end-len("mysql")-1])):
		return f.mySQL(end)
	case bits&mayBeOracleURL != 0:
		return f.matched(oracleURL(), end)
	case bits&mayBeOracle != 0:
		return f.oracle(end)
	}
	return 0, 0
}

// matchWork is what an expression costs that is anchored, and so mostly fails at once.
const matchWork = 64

// matched returns where an expression's first group matches in the text that follows.
func (f *finder) matched(expression *regexp.Regexp, from int) (start, until int) {
	const window = 512
	part := f.text[from:min(len(f.text), from+window)]
	if at := strings.IndexByte(part, '\n'); at > 0 && expression != identified() {
		part = part[:at]
	}
	f.work -= matchWork
	at := expression.FindStringSubmatchIndex(part)
	if at == nil {
		return 0, 0
	}
	until = from + at[3]
	if at[3] == len(part) { // a secret longer than the window goes on to where a word ends
		until = f.wordEnd(until)
	}
	return from + at[2], until
}

var identified = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)^\s+by\s+["']([^"'\n]+)`) })

var userOption = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[ =]+["']?[^:\s"']+:([^\s"']+)`) })

// mySQL is the password behind -p in what follows the name of one of MySQL's commands.
func (f *finder) mySQL(end int) (start, until int) {
	const window = 512
	part := f.text[end:min(len(f.text), end+window)]
	f.work -= len(part) / 4
	part, _, _ = strings.Cut(part, "\n")
	for i := 1; i < len(part)-2; i++ {
		at := strings.Index(part[i:], "-p")
		if at < 0 {
			return 0, 0
		}
		i += at
		if strings.IndexByte(" \t", part[i-1]) < 0 {
			continue
		}
		if until = f.wordEnd(end + i + 2); until > end+i+2 {
			return end + i + 2, until
		}
	}
	return 0, 0
}

// wordEnd returns where a word without spaces and quotes ends.
func (f *finder) wordEnd(i int) int {
	from := i
	for i < len(f.text) && strings.IndexByte(" \t\r\n\"'", f.text[i]) < 0 {
		i++
	}
	f.work -= i - from
	return i
}

var oracleURL = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^:\w+:[^/\s"'@]+/([^@\s"']+)@`)
})

var oracleLogin = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)^(?:sqlplus|imp|exp|sqlldr)\s+[^/\s"'@]+/([^@\s"']+)@`)
})

// isOption reports whether what ends at end is a whole option that takes a user and a password.
func (f *finder) isOption(end int) bool {
	before := f.text[max(0, end-len(" --proxy-user")):end]
	if strings.HasSuffix(before, "--proxy-user") {
		return true
	}
	at := strings.LastIndexAny(before, " \t\r\n")
	return at >= 0 && (before[at+1:] == "-u" || before[at+1:] == "--user")
}

// oracle is the login of Oracle's commands; the word or the space behind it ends at end.
func (f *finder) oracle(end int) (start, until int) {
	begin := end
	if !isWordByte(f.text[begin-1]) {
		begin--
	}
	for begin > 0 && end-begin < len("sqlplus")+2 && isWordByte(f.text[begin-1]) {
		begin--
	}
	return f.matched(oracleLogin(), begin)
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

// basic is what follows "Basic": base64, and as that is also how words look, with a digit or capital in it or padded.
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

func isAccessToken(s string) bool { return strings.Contains(" "+accessTokens+" ", " "+s+" ") }

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
		class[c] = isAlphanumeric(byte(c)) && c < 0x80 || strings.IndexByte(more, byte(c)) >= 0
	}
	return &class
}

var (
	bearerByte = sync.OnceValue(func() *[256]bool { return classOf("._~+/=-") })
	base64Byte = sync.OnceValue(func() *[256]bool { return classOf("+/") })
	tokenByte  = sync.OnceValue(func() *[256]bool { return classOf("_-") })
)

func isWordByte(c byte) bool { return c == '_' || isAlphanumeric(c) }

type keyForms struct{ begin, end, putty *regexp.Regexp }

var keyForm = sync.OnceValue(func() keyForms {
	return keyForms{
		begin: regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z0-9 ]*-----`),
		end:   regexp.MustCompile(`-----END [A-Z0-9 ]*PRIVATE KEY[A-Z0-9 ]*-----`),
		putty: regexp.MustCompile(`Private-Lines:[ \t]*([0-9]{1,4})[ \t]*\n`),
	}
})

// privateKeys notes the inside of private keys. One without an end takes the rest of the text.
func (f *finder) privateKeys() {
	form := keyForm()
	for i := 0; i < len(f.text); {
		begin := form.begin.FindStringIndex(f.text[i:])
		if begin == nil {
			break
		}
		begin[1] += i
		i = len(f.text)
		if at := form.end.FindStringIndex(f.text[begin[1]:]); at != nil {
			i = begin[1] + at[0]
		}
		f.add(begin[1], i)
	}
	done := 0
	for _, at := range form.putty.FindAllStringSubmatchIndex(f.text, -1) {
		lines, err := strconv.Atoi(f.text[at[2]:at[3]])
		if err != nil || at[1] < done {
			continue
		}
		end := at[1]
		for range lines {
			end = min(len(f.text), end+len(lineAt(f.text, min(end, len(f.text))))+1)
		}
		f.add(at[1], end)
		done = end
	}
}

// addresses notes the passwords in URLs. The last "@" ends them, because passwords are often pasted unescaped.
func (f *finder) addresses() {
	const sign = "://"
	for i := 0; ; {
		at := strings.Index(f.text[i:], sign)
		if at < 0 {
			return
		}
		start := i + at + len(sign)
		hasScheme := isScheme(f.text[i : i+at])
		i = start
		if !hasScheme {
			continue
		}
		for i < len(f.text) && strings.IndexByte(" \t\r\n\f\v\"'<>`", f.text[i]) < 0 {
			i++
		}
		f.login(start, f.text[start:i])
	}
}

// isScheme reports whether a text ends with the scheme of a URL: a letter and more of its characters.
func isScheme(before string) bool {
	for n := 1; n <= min(len(before), 31); n++ {
		c := before[len(before)-n]
		if !isAlphanumeric(c) && strings.IndexByte("+.-", c) < 0 {
			return false
		}
		if n > 1 && !isDigit(c) && isAlphanumeric(c) {
			return true
		}
	}
	return false
}

// login notes the password in what follows the scheme of a URL.
func (f *finder) login(start int, rest string) {
	end := strings.LastIndexByte(rest, '@')
	if end < 0 {
		return
	}
	colon := strings.IndexByte(rest[:end], ':')
	switch {
	case colon >= 0 && (!isPort(rest[colon+1:end]) || !strings.ContainsAny(rest[colon+1:end], "/?#")):
		// All digits, but no path behind it: a password, not a port.
		f.add(start+colon+1, start+end)
	case colon < 0 && end >= 20 && strings.IndexByte(rest[:end], '/') < 0:
		// A long user without a password is a token.
		f.add(start, start+end)
	}
}

// isPort reports whether a text begins with the number of a port.
func isPort(s string) bool {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return n > 0 && n <= 5 && (n == len(s) || strings.IndexByte("/?#", s[n]) >= 0)
}
