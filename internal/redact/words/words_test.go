package words_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

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

// TestAWordIsSeenWhereverItStands: the halves of a text are looked at apart.
func TestAWordIsSeenWhereverItStands(t *testing.T) {
	t.Parallel()
	for _, filler := range []string{`"`, "x", "1,", "pass_", "店"} {
		for before := range 24 {
			for after := range 24 {
				head, tail := strings.Repeat(filler, before), strings.Repeat(filler, after)
				for _, word := range []string{"to-ken", "mysql", "密码", `"cookie"`, "net use"} {
					names, marks := words.Look(head + word + tail)
					one, two := words.Look(word)
					if names&one != one || marks&two != two {
						t.Fatalf("%q is not seen in %q", word, head+word+tail)
					}
				}
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"p", "in", "pass", "word", "-", "_", " ", "net", "use", "my", "sql", ":", "//", "密", "码", "x"}), 0, 30)
		a, b := strings.Join(parts.Draw(t, "before"), ""), strings.Join(parts.Draw(t, "after"), "")
		names, marks := words.Look(a + `"` + b)
		names1, marks1 := words.Look(a)
		names2, marks2 := words.Look(b)
		if names != names1|names2 || marks != marks1|marks2 {
			t.Fatalf("parted by a quote, %q and %q say something else", a, b)
		}
	})
}
