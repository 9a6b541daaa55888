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
	// MayBeEncoded: characters are written as entities, in percent or in full width.
	MayBeEncoded
	MayBeOption
	MayBeCall
	MayBeInsert
	MayBeWebKey
	MayBeQuery
	MayBeSaid
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
		MayBeEncoded: "&lt; &# %3d %3a %22 ＝ Ｐ Ｓ Ｔ Ｋ ＿ \xef\xbd \u200b",
		MayBeOption:  "sshpass sqlcmd isql osql mosquitto_pub mosquitto_sub redis-cli psexec unzip mongosh mongodump mongorestore ldapsearch",
		MayBeCall:    "getconnection networkcredential sp_addlogin sp_password", MayBeInsert: "insert replace", MayBeWebKey: "kty",
		MayBeQuery: "?key= &key= ;key= ?sig= &sig= ;sig= ?sign= &sign= ;sign= ?signature= &signature= ;signature= -signature= " +
			"hooks.slack.com/services/ /bot/v2/hook/",
	} {
		for word := range strings.FieldsSeq(list) {
			words[word] |= bit
		}
	}
	for _, word := range hanWords() {
		words[word] |= MayBeSaid
	}
	words["net user"] |= MayBeOption
	words["net use"] |= MayBeOption
	words["\u00a0"] |= MayBeEncoded
	words["\u3000"] |= MayBeEncoded
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
