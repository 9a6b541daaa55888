package redact_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"muster/internal/redact"
)

// secret is what must not survive in any form; the cases put it where real files put theirs.
const secret = "S3cr3t#Hx9"

func TestTextKeepsStructure(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, want string }{
		{"ini", "[db]\nhost = 10.0.0.5\npassword = S3cr3t#Hx9\nport = 3306", "[db]\nhost = 10.0.0.5\npassword = [redacted]\nport = 3306"},
		{"ini spaces and comment", "password = my S3cr3t#Hx9 ; x", "password = [redacted]"},
		{"properties", "spring.datasource.password=S3cr3t#Hx9", "spring.datasource.password=[redacted]"},
		{"properties continued", "api.token=S3cr3t\\\n  #Hx9\nnext=1", "api.token=[redacted]\n  [redacted]\nnext=1"},
		{"env", "export DB_PASSWORD='S3cr3t#Hx9'\nPATH=/bin", "export DB_PASSWORD='[redacted]'\nPATH=/bin"},
		{"json", `{"user":"a","password":"S3cr3t\"#Hx9","n":1}`, `{"user":"a","password":"[redacted]","n":1}`},
		{"json number", `{"pin":1234,"n":1}`, `{"pin":[redacted],"n":1}`},
		{"json in json", `{"c":"{\"token\":\"S3cr3t#Hx9\",\"n\":1}"}`, `{"c":"{\"token\":\"[redacted]\",\"n\":1}"}`},
		{"json nested", `{"credentials":{"id":"S3cr3t","list":["#Hx9"]},"n":1}`, `{"credentials":{"id":"[redacted]","list":["[redacted]"]},"n":1}`},
		{"yaml", "db:\n  password: S3cr3t#Hx9\n  host: x", "db:\n  password: [redacted]\n  host: x"},
		{"yaml block", "key:\n  secret: |\n    S3cr3t\n    #Hx9\n  host: x", "key:\n  secret: |\n    [redacted]\n    [redacted]\n  host: x"},
		{"yaml map", "tokens:\n  a: S3cr3t\n  b: '#Hx9'\nhost: x", "tokens:\n  a: [redacted]\n  b: [redacted]\nhost: x"},
		{"yaml list", "passwords:\n- S3cr3t#Hx9\nhost: x", "passwords:\n- [redacted]\nhost: x"},
		{"xml element", "<db><password>S3cr3t#Hx9</password><h>x</h></db>", "<db><password>[redacted]</password><h>x</h></db>"},
		{"xml attribute", `<db host="x" password="S3cr3t#Hx9"/>`, `<db host="x" password="[redacted]"/>`},
		{"xml add", `<add key="ApiToken" value="S3cr3t#Hx9" />`, `<add key="ApiToken" value="[redacted]" />`},
		{"xml reversed", `<add value="S3cr3t#Hx9" key="ApiToken"/>`, `<add value="[redacted]" key="ApiToken"/>`},
		{"xml entry", `<entry key="db.password">S3cr3t#Hx9</entry>`, `<entry key="db.password">[redacted]</entry>`},
		{"xml setting", "<setting name=\"Password\">\n <value>S3cr3t#Hx9</value>\n</setting>", "<setting name=\"Password\">\n <value>[redacted]</value>\n</setting>"},
		{"plist", "<key>Password</key><string>S3cr3t#Hx9</string>", "<key>Password</key><string>[redacted]</string>"},
		{"cdata", "<password><![CDATA[S3cr3t</x>#Hx9]]></password>", "<password><![CDATA[[redacted]]]></password>"},
		{"connection", `conn=Server=db;User Id=sa;Password=S3cr3t#Hx9;Database=pos`, `conn=Server=db;User Id=sa;Password=[redacted];Database=pos`},
		{"connection xml", `<add name="x" connectionString="Server=db;Password=S3 cr3t#Hx9;Database=pos"/>`, `<add name="x" connectionString="Server=db;Password=[redacted];Database=pos"/>`},
		{"url", "url: mysql://pos:S3cr3t#Hx9@db:3306/pos", "url: mysql://pos:[redacted]@db:3306/pos"},
		{"query", "GET /pay?token=S3cr3t%23Hx9&n=1 200", "GET /pay?token=[redacted]&n=1 200"},
		{"pairs", `[{"name":"DB_PASSWORD","value":"S3cr3t#Hx9"},{"name":"A","value":"b"}]`, `[{"name":"DB_PASSWORD","value":"[redacted]"},{"name":"A","value":"b"}]`},
		{"pairs yaml", "env:\n- name: DB_PASSWORD\n  value: S3cr3t#Hx9\n- name: A\n  value: b", "env:\n- name: DB_PASSWORD\n  value: [redacted]\n- name: A\n  value: b"},
		{"comment", "# password=S3cr3t#Hx9\nhost=x", "# password=[redacted]\nhost=x"},
		{"chinese", "数据库密码：S3cr3t#Hx9\n门店=上海", "数据库密码：[redacted]\n门店=上海"},
		{"bearer", "Authorization: Bearer S3cr3t.Hx9abc", "Authorization: [redacted]"},
		{"command", "run --password S3cr3t#Hx9 --host x", "run --password [redacted] --host x"},
		{"log line", "2026-09-17 07:30:00 INFO login user=bob password=S3cr3t#Hx9 from 10.0.0.1", "2026-09-17 07:30:00 INFO login user=bob password=[redacted] from 10.0.0.1"},
		{"pem", "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIS3cr3t\n#Hx9==\n-----END RSA PRIVATE KEY-----\nb", "a\n-----BEGIN RSA PRIVATE KEY-----\n[redacted]\n[redacted]\n-----END RSA PRIVATE KEY-----\nb"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, count := redact.Text(c.in)
			if got != c.want {
				t.Errorf("Text(%q)\n got %q\nwant %q", c.in, got, c.want)
			}
			if count == 0 {
				t.Error("nothing was counted")
			}
			if again, _ := redact.Text(got); again != got {
				t.Errorf("a second pass changed %q to %q", got, again)
			}
		})
	}
}

func TestTextLeavesNoPartOfASecret(t *testing.T) {
	t.Parallel()
	names := []string{
		"password", "Password", "DB_PASSWORD", "db.passwd", "userPwd", "pwd", "token", "accessToken", "access_token",
		"client-secret", "clientSecret", "apiKey", "api_key", "api-key", "X-Api-Key", "AccessKeySecret", "secret_access_key",
		"privateKey", "db_pass", "smtpPass", "passphrase", "encryptKey", "mchKey", "SharedAccessKey", "AccountKey",
		"密码", "数据库密码", "口令", "支付密钥", "令牌", "登入密碼", "金鑰",
	}
	forms := []string{
		"%k=%v", "%k = %v", "%k: %v", "%k:%v", "  %k: \"%v\"", "%k: '%v'", "%k=\"%v\"", "export %k=%v", "set %k=%v",
		"#%k=%v", "# %k: %v", "; %k = %v", "// \"%k\": \"%v\",", "<!-- <%k>%v</%k> -->", "rem set %k=%v", "* %k: %v",
		"{\"%k\":\"%v\"}", "{\"a\":{\"%k\":\"%v\",\"b\":1}}", "{\n  \"%k\" : \"%v\"\n}", "{'%k': '%v'}", "{a: x, %k: %v}",
		"\"{\\\"%k\\\":\\\"%v\\\"}\"", "%k:\n  - %v\n", "%k:\n  inner: %v\n", "%k: |\n  %v\n", "%k: >-\n   %v\n   %v\n",
		"<%k>%v</%k>", "<%k>\n  %v\n</%k>", "<ns:%k a=\"1\">%v</ns:%k>", "<x %k=\"%v\" y=\"1\"/>", "<x %k='%v'/>",
		"<add key=\"%k\" value=\"%v\"/>", "<property name=\"%k\">%v</property>", "<property name='%k' value='%v'/>",
		"<%k value=\"%v\"/>", "<%k><value>%v</value></%k>", "<entry><key>%k</key><value>%v</value></entry>",
		"{\"name\":\"%k\",\"value\":\"%v\"}", "{\"value\":\"%v\",\"name\":\"%k\"}", "- name: %k\n  value: %v",
		"Server=db;%k=%v;Database=x", "Provider=x;%k=\"%v\";a=b", "conn = \"Server=db;%k=%v\"", "%k={%v};Server=x",
		"http://h/p?a=1&%k=%v&b=2", "cmd --%k=%v -x", "cmd --%k %v -x", "cmd --%k '%v'", "$env:%k = \"%v\"",
		"-D%k=%v", "config['%k'] = '%v';", "config[\"%k\"]=\"%v\"", "%k => '%v',", "%k := \"%v\"",
		"2026-09-17 07:30:00 ERROR call failed: %k=%v", "2026-09-17 07:30:00 INFO req {\"%k\":\"%v\"}",
		"2026-09-17 07:30:00 INFO Login(user=bob, %k=%v)", "%k=a \\\n   %v", "%k = \"\"\"\n%v\n\"\"\"",
		"<x><%k><![CDATA[%v]]></%k></x>", "%k: \"line\n  %v\"", "%k: !vault |\n  %v\n", "%k=&quot;%v&quot;",
	}
	for _, name := range names {
		for _, form := range forms {
			for _, value := range []string{secret, "pa$$" + secret + "!", secret + "=="} {
				in := strings.NewReplacer("%k", name, "%v", value).Replace(form)
				got, _ := redact.Text(in)
				if strings.Contains(got, "S3cr3t") || strings.Contains(got, "Hx9") {
					t.Errorf("%q became %q", in, got)
				}
				if strings.Count(got, "\n") != strings.Count(in, "\n") {
					t.Errorf("%q lost line breaks: %q", in, got)
				}
			}
		}
	}
}

func TestTextFindsSecretsByForm(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		"redis://:S3cr3t#Hx9@cache:6379/0", "amqp://pos:S3@cr3t/Hx9@mq/vhost", "jdbc:oracle:thin:pos/S3cr3tHx9@db:1521:x",
		"https://S3cr3tS3cr3tS3cr3tHx9@git.example/x.git", "curl -u pos:S3cr3tHx9 http://x", "mysql -h db -u pos -pS3cr3tHx9 pos",
		"curl -H \"Authorization: Bearer S3cr3tHx9\" x", "Proxy-Authorization: Basic UzNjcjN0OkS3cr3tHx9==",
		"got Bearer S3cr3t-Hx9-abcdef from peer", "jwt eyJhbGciOiJIS3cr3t.eyJzdWIiOiIxHx9.abc", "key AKIAS3cr3tHx9ABCDEFGH",
		"pushed with ghp_S3cr3tHx9abcdefghijk", "CREATE USER x IDENTIFIED BY 'S3cr3tHx9'", "Cookie: a=S3cr3t; b=Hx9",
		"machine h login pos password S3cr3t#Hx9", "requirepass S3cr3t#Hx9\nport 1", "-----BEGIN OPENSSH PRIVATE KEY-----\nS3cr3t\nHx9",
		`{"k":"-----BEGIN PRIVATE KEY-----\nS3cr3tHx9\n-----END PRIVATE KEY-----\n"}`,
		"PuTTY-User-Key-File-2: ssh-rsa\nPrivate-Lines: 2\nS3cr3t\nHx9\nPrivate-MAC: x", "DefaultEndpointsProtocol=https;AccountKey=S3cr3tHx9==;X=y",
	} {
		if got, _ := redact.Text(in); strings.Contains(got, "S3cr3t") || strings.Contains(got, "Hx9") {
			t.Errorf("%q became %q", in, got)
		}
	}
}

func TestTextLeavesOtherTextAlone(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		"host = 10.0.0.5", "https://example.com:8080/a?mail=x@y.com", "ssh://git@example.com/x.git", "门店: 上海南京路",
		"passwordRequired=true", "tokenTimeout=30", "tokenTimeout: 30s", "password=", "bypass: on", "compass: north",
		"2026-09-17 07:30:00 ERROR 密码错误", "authentication failure; logname= uid=0", "sshd: check pass; user unknown",
		"keyboard: zh", "key: value", "<add key=\"Timeout\" value=\"30\"/>", "(using password: YES)", "Basic information about it",
	} {
		if got, count := redact.Text(in); got != in || count != 0 {
			t.Errorf("%q became %q (%d)", in, got, count)
		}
	}
}

func TestClipLeavesNoHalfSecret(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"open mysql://pos:S3cr3t,Hx9;S3cr3t@db/pos failed", `{"url":"redis://:S3cr3tHx9@h/0","token":"S3cr3tHx9","n":1}`, "key AKIAS3cr3tHx9ABCDEFGH ok",
		"x password=S3cr3tHx9 y", "Authorization: Bearer S3cr3tHx9S3cr3t", "错误 密码：S3cr3tHx9 完", `conn="Server=x;Password=S3cr3tHx9;D=y"`,
	} {
		for limit := range len(text) + 1 {
			clipped := redact.Clip([]byte(text), limit)
			if len(clipped) > limit || !utf8.Valid(clipped) {
				t.Fatalf("Clip(%q, %d) = %q", text, limit, clipped)
			}
			if got, _ := redact.Text(string(clipped)); strings.Contains(got, "S3") || strings.Contains(got, "Hx") {
				t.Errorf("%q cut to %d became %q", text, limit, got)
			}
		}
	}
}

// TestATextCutAnywhereShowsNoSecretOfAnyKind: what is cut off may be what a secret is known by.
func TestATextCutAnywhereShowsNoSecretOfAnyKind(t *testing.T) {
	t.Parallel()
	for _, c := range kinds() {
		if c.name == "exp" { // without what follows, it may be the date that a card expires on
			continue
		}
		for limit := range len(c.in) + 1 {
			got, _ := redact.Text(string(redact.Clip([]byte(c.in), limit)))
			if strings.Contains(got, "S3cr") || strings.Contains(got, "Hx9") {
				t.Errorf("%s: cut to %d it became %q", c.name, limit, got)
			}
			if again, count := redact.Text(got); again != got || count != 0 {
				t.Errorf("%s: cut to %d, %q became %q", c.name, limit, got, again)
			}
		}
	}
}

func TestBlocksFollowsPrivateKeys(t *testing.T) {
	t.Parallel()
	var blocks redact.Blocks
	lines := []string{"a", "x -----BEGIN EC PRIVATE KEY-----", "MHc", "CAQ", "-----END EC PRIVATE KEY-----", "b", "-----BEGIN CERTIFICATE-----", "MII",
		"---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----", "P2/5", "---- END SSH2 ENCRYPTED PRIVATE KEY ----", "c",
	}
	want := []bool{false, false, true, true, false, false, false, false, false, true, false, false}
	for i, line := range lines {
		if got := blocks.Secret([]byte(line)); got != want[i] {
			t.Errorf("Secret(%q) = %v", line, got)
		}
	}
}

func FuzzText(f *testing.F) {
	for _, c := range kinds() {
		f.Add(c.in)
	}
	f.Add("password: |\n  x\n<token>[{\"pwd\":\"")
	f.Fuzz(func(t *testing.T, in string) {
		got, _ := redact.Text(in)
		if strings.Count(got, "\n") != strings.Count(in, "\n") {
			t.Errorf("%q lost line breaks: %q", in, got)
		}
		if again, count := redact.Text(got); again != got || count != 0 {
			t.Errorf("%q became %q, and that %q (%d)", in, got, again, count)
		}
	})
}
