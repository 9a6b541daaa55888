package words

import (
	"strings"
	"sync"
)

// Which form of a secret may be at hand. One of its words stands in every text that has one.
const (
	MayBeScheme uint32 = 1 << iota
	MayBeBasic
	MayBeWebToken
	MayBeServiceKey
	MayBeAccessToken
	MayBeIdentified
	MayBeUserOption
	MayBeMySQL
	MayBeOracleURL
	MayBeOracle
	MayBePrivateKey
	MayBeAddress
	// MayBeEscaped: characters of JSON are written as numbers, so that no word can be seen.
	MayBeEscaped
)

// formWords are the words that credentials of HTTP schemes, JSON web tokens, the keys of well-known services, addresses,
// private keys and the options of commands that take a password are seen by, in a text or in JSON.
var formWords = sync.OnceValue(func() *set {
	words := make(map[string]uint32)
	for bit, list := range map[uint32]string{
		MayBeScheme: "bearer negotiate ntlm", MayBeBasic: "basic", MayBeWebToken: "eyj",
		MayBeServiceKey:  "akia asia akid ltai aiza",
		MayBeAccessToken: accessTokens, MayBeIdentified: "identified", MayBeUserOption: "-user t-u n-u r-u",
		MayBeMySQL: "mysql", MayBeOracleURL: "jdbc:oracle", MayBeOracle: "sqlplus sqlldr imp\\ exp\\",
		MayBePrivateKey: "private-lines", MayBeAddress: `:// :\/\/`, MayBeEscaped: `\u`,
	} {
		for word := range strings.FieldsSeq(list) {
			words[word] |= bit
		}
	}
	for _, space := range []string{" ", "\t", "\n", "\r"} {
		words["imp"+space] |= MayBeOracle
		words["exp"+space] |= MayBeOracle
		words[space+"-u"] |= MayBeUserOption
	}
	words["private key"] |= MayBePrivateKey
	return newSet("", words)
})

// accessTokens are the beginnings of the tokens of code hosts, chats and the like.
const accessTokens = "gho- gho_ ghp- ghp_ ghs- ghs_ ghu- ghu_ ghr- ghr_ github_pat- github_pat_ glpat- glpat_ " +
	"xoxa- xoxb- xoxe- xoxp- xoxr- xoxs- xoxa_ xoxb_ xoxe_ xoxp_ xoxr_ xoxs_ sk- sk_ rk_live- rk_live_ npm- npm_ hf- hf_"

// IsAccessToken reports whether a word is what such tokens begin with.
func IsAccessToken(s string) bool { return strings.Contains(" "+accessTokens+" ", " "+s+" ") }

// EachForm calls f with where each word of a form ends in a text, and the MayBe bits of the forms found there.
func EachForm(text string, f func(end int, bits uint32)) { formWords().each(text, f) }
