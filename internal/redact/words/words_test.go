package words_test

import (
	"testing"

	"muster/internal/redact/words"
)

func TestNamesOfSecretsAreToldFromOthers(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"password": true, "DB_PASSWORD": true, "dbPassword": true, "pass.word": true, "user-pw": true, "keystorePass": true,
		"auth": true, "apiToken": true, "数据库密码": true, "DB密码2": true, "token值": true,
		"": false, "author": false, "compass": false, "spin": false, "opwire": false, "密码错误": false, "name": false,
	} {
		if got := words.IsSecretName(name); got != want {
			t.Errorf("IsSecretName(%q) = %v", name, got)
		}
	}
}

func TestAMeasureIsWhatItsNameSays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, value string
		want        bool
	}{
		{"tokenTimeout", "30s", true}, {"tokenExpiresAt", "2026-01-02T03:04:05Z", true}, {"passwordRequired", "true", true},
		{"token", "30", false}, {"tokenTtl", "3000000000", false}, {"tokenAt", "20260102x", false}, {"password", "hunter2", false},
	} {
		if got := words.IsMeasure(c.name, c.value); got != c.want {
			t.Errorf("IsMeasure(%q, %q) = %v", c.name, c.value, got)
		}
	}
}

func TestATextIsSeenToHoldAFormOfSecret(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]uint32{
		"Authorization: Bearer x": words.MayBeScheme, "mysql -p x": words.MayBeMySQL, "redis://h": words.MayBeAddress,
		"AKIA0123": words.MayBeServiceKey, "nothing here": 0,
		"ｐａｓｓ": words.MayBeEncoded, "&lt;a&gt;": words.MayBeEncoded, `\u5bc6`: words.MayBeEscaped, "门店：上海，南京": 0,
		"sshpass x": words.MayBeOption, "h?sig=x": words.MayBeQuery, "密码是": words.MayBeSaid, "INSERT INTO t": words.MayBeInsert,
	} {
		if _, marks := words.Look(text); marks != want {
			t.Errorf("Look(%q) sees %b, want %b", text, marks, want)
		}
	}
}
