package words

import (
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// What the words of a name say about it.
const (
	saysSecret uint32 = 1 << iota
	// maySay: it depends on what stands around the word.
	maySay
)

// nameWords are the words by which names of secrets are known, separators left out.
var nameWords = sync.OnceValue(func() *set {
	words := make(map[string]uint32)
	for _, part := range [...]string{
		"password", "passwd", "passphrase", "passcode", "passwort", "pswd", "pwd", "secret", "token", "credential",
		"apikey", "accesskey", "privatekey", "privkey", "authorization", "authkey", "signingkey", "signkey", "signaturekey",
		"encryptionkey", "encryptkey", "decryptkey", "cipherkey", "cryptokey", "sharedkey", "accountkey", "sharedaccess",
		"appkey", "aeskey", "deskey", "rsakey", "md5key", "hmackey", "jwtkey", "mchkey", "merchantkey", "paykey", "apiv3key",
		"masterkey", "sessionkey", "licensekey", "storagekey", "subscriptionkey", "sshkey", "keypass", "cookie", "hmac",
		"jsessionid", "phpsessid", "masterauth", "passwrd", "passowrd", "pasword", "kouling", "miyao",
	} {
		words[part] = saysSecret
	}
	for _, part := range [...]string{"pass", "psw", "pw", "pin", "psk", "otp", "cvv", "mima", "auth"} {
		words[part] = maySay
	}
	for _, end := range hanWords() {
		words[end] = maySay
	}
	return newSet(nameSeparators, words)
})

// nameSeparators may stand anywhere in a name.
const nameSeparators = "-_.$"

// IsSecretName reports whether a key's name says that its value is a secret.
func IsSecretName(name string) bool {
	if name == "" || len(name) > 200 {
		return false
	}
	said := search(nameWords(), name)
	switch {
	case said == 0:
		return false
	case !isASCII(name):
		return isSecretHan(name)
	case said&saysSecret != 0:
		return true
	}
	for _, word := range split(name) {
		switch word {
		case "pass", "psw", "pw", "pin", "psk", "otp", "cvv", "mima":
			return true
		}
	}
	squeezed := strings.Map(func(c rune) rune {
		if strings.ContainsRune(nameSeparators, c) {
			return -1
		}
		return unicode.ToLower(c)
	}, name)
	if strings.HasSuffix(squeezed, "pass") {
		return !slices.Contains([]string{"bypass", "compass", "encompass", "trespass", "surpass", "overpass"}, squeezed)
	}
	return squeezed == "auth"
}

func hanWords() []string {
	return []string{
		"密码", "密碼", "口令", "密钥", "密鑰", "秘钥", "秘鑰", "金鑰", "密匙", "令牌", "权杖", "權杖", "私钥", "私鑰", "授权码",
		"授權碼", "凭据", "憑據", "验证码", "驗證碼", "校验码", "访问码",
	}
}

// isSecretHan asks for a secret's word at the end of a Chinese name: "数据库密码" names one, "密码错误" tells of one.
func isSecretHan(name string) bool {
	name = strings.TrimRight(name, "0123456789_-.")
	for _, end := range hanWords() {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	// A name may mix both: "DB密码" ends with a word, "token值" begins with one.
	latin := strings.TrimFunc(name, func(c rune) bool { return c >= utf8.RuneSelf })
	return latin != "" && IsSecretName(strings.Map(func(c rune) rune {
		if c >= utf8.RuneSelf {
			return '_'
		}
		return c
	}, latin))
}

// split splits a name at its separators and where its case or kind of character changes, in lower case.
func split(name string) []string {
	var parts []string
	start := 0
	flush := func(end int) {
		if end > start {
			parts = append(parts, strings.ToLower(name[start:end]))
		}
	}
	for i := range len(name) {
		c := name[i]
		switch {
		case !IsAlphanumeric(c):
			flush(i)
			start = i + 1
		case i > start && isUpper(c) && !isUpper(name[i-1]),
			i > start && isUpper(c) && i+1 < len(name) && name[i+1] >= 'a' && name[i+1] <= 'z',
			i > start && IsDigit(c) != IsDigit(name[i-1]):
			flush(i)
			start = i
		}
	}
	flush(len(name))
	return parts
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }

// IsDigit reports whether a byte is one of 0 to 9.
func IsDigit(c byte) bool { return c >= '0' && c <= '9' }

// IsAlphanumeric reports whether a byte is a letter of ASCII or a digit.
func IsAlphanumeric(c byte) bool { return (c|0x20) >= 'a' && (c|0x20) <= 'z' || IsDigit(c) }
