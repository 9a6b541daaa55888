package redact_test

import (
	"encoding/json"
	"strings"
	"testing"

	"muster/internal/redact"
)

// kinds are texts in which a secret stands in a form of its own, and what may be left of them.
func kinds() []struct{ name, in, want string } {
	return []struct{ name, in, want string }{
		{"escaped name", `{"p\u0061ssword":"S3cr3tHx9","n":1}`, `{"p\u0061ssword":"[redacted]","n":1}`},
		{"escaped chinese name", `{"\u5bc6\u7801": "S3cr3tHx9", "\u540d": "\u4e0a"}`, `{"\u5bc6\u7801": "[redacted]", "\u540d": "\u4e0a"}`},
		{"escaped in a log line", `07:30:00 INFO req {"\u53e3\u4ee4":"S3cr3tHx9"} ok`, `07:30:00 INFO req {"\u53e3\u4ee4":"[redacted]"} ok`},
		{"escaped twice", `"{\"\\u5bc6\\u7801\":\"S3cr3tHx9\"}"`, `"{\"\\u5bc6\\u7801\":\"[redacted]\"}"`},
		{"full width", "ｐａｓｓｗｏｒｄ＝S3cr3tHx9\nhost=x", "ｐａｓｓｗｏｒｄ＝[redacted]\nhost=x"},
		{"full width capitals", "ＰＡＳＳＷＯＲＤ：Ｓ３ｃ\nhost=x", "ＰＡＳＳＷＯＲＤ：[redacted]\nhost=x"},
		{"no-break space", "password\u00a0=\u00a0S3cr3tHx9", "password\u00a0=\u00a0[redacted]"},
		{"wide space", "密码\u3000：\u3000S3cr3tHx9", "密码\u3000：\u3000[redacted]"},
		{"no width", "pass\u200bword=S3cr3tHx9", "pass\u200bword=[redacted]"},
		{"value below", "password=\nS3cr3tHx9\nport=1", "password=\n[redacted]\nport=1"},
		{"value below in a comment", "# password:\n# S3cr3tHx9\nport=1", "# password:\n# [redacted]\nport=1"},
		{"value below in a log", "2026-09-17 07:30:00 INFO password:\n2026-09-17 07:30:01 INFO S3cr3tHx9\n", "2026-09-17 07:30:00 INFO password:\n2026-09-17 07:30:01 INFO [redacted]\n"},
		{"heredoc", "password = <<EOF\nS3cr3t x\n  Hx9\nEOF\nport = 1", "password = <<EOF\n[redacted]\n  [redacted]\nEOF\nport = 1"},
		{"heredoc of a shell", "PASSWORD=$(cat <<-'E'\nS3cr3tHx9\nE\n)\nA=b", "PASSWORD=$(cat <<-'E'\n[redacted]\nE\n)\nA=b"},
		{"heredoc without an end", "token = <<END\nS3cr3t\nHx9", "token = <<END\n[redacted]\n[redacted]"},
		{"tags as entities", "&lt;password&gt;S3cr3tHx9&lt;/password&gt; ok", "&lt;password&gt;[redacted]&lt;/password&gt; ok"},
		{"signs as entities", "password&#61;S3cr3tHx9", "password&#61;[redacted]"},
		{"quotes as entities", "{&#34;password&#34;:&#34;S3cr3tHx9&#34;}", "{&#34;password&#34;:&#34;[redacted]&#34;}"},
		{"define", "define('DB_PASSWORD', 'S3cr3tHx9');", "define('DB_PASSWORD', '[redacted]');"},
		{"define with more", "define(\"DB_PASSWORD\", \"S3cr3tHx9\", true);", "define(\"DB_PASSWORD\", \"[redacted]\", true);"},
		{"tuple", "('password', 'S3cr3tHx9')", "('password', '[redacted]')"},
		{"put", `props.put("db.password", "S3cr3tHx9"); x("a", "b");`, `props.put("db.password", "[redacted]"); x("a", "b");`},
		{"setter", `conn.setPassword("S3cr3tHx9");`, `conn.setPassword("[redacted]");`},
		{"connecting", `DriverManager.getConnection("jdbc:mysql://h/d", "pos", "S3cr3tHx9");`, `DriverManager.getConnection("jdbc:mysql://h/d", "pos", "[redacted]");`},
		{"credential", `new NetworkCredential("u", "S3cr3tHx9")`, `new NetworkCredential("u", "[redacted]")`},
		{"sql function", "SET PASSWORD FOR 'a'@'b' = PASSWORD('S3cr3tHx9')", "SET PASSWORD FOR 'a'@'b' = PASSWORD('[redacted]')"},
		{"identified", "ALTER USER pos IDENTIFIED BY S3cr3tHx9;", "ALTER USER pos IDENTIFIED BY [redacted];"},
		{"identified, small", "create user pos identified by S3cr3tHx9", "create user pos identified by [redacted]"},
		{"identified with", "ALTER USER 'a'@'%' IDENTIFIED WITH mysql_native_password BY 'S3cr3tHx9';", "ALTER USER 'a'@'%' IDENTIFIED WITH mysql_native_password BY '[redacted]';"},
		{"login procedure", "exec sp_addlogin 'x', N'S3cr3tHx9'", "exec sp_addlogin 'x', N'[redacted]'"},
		{"insert", "INSERT INTO users (name, password, n) VALUES ('a', 'S3cr3t,''#Hx9', 1), ('b', 'Hx9', 2);", "INSERT INTO users (name, password, n) VALUES ('a', '[redacted]', 1), ('b', '[redacted]', 2);"},
		{"insert of an expression", "insert into `u` (`pwd`,`id`)\nvalues (md5(concat('S3cr3t','Hx9')),1)", "insert into `u` (`pwd`,`id`)\nvalues ([redacted],1)"},
		{"ssh2", "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\nS3cr3tHx9\n---- END SSH2 ENCRYPTED PRIVATE KEY ----\nx", "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n[redacted]\n---- END SSH2 ENCRYPTED PRIVATE KEY ----\nx"},
		{"sshpass", "sshpass -p S3cr3tHx9 ssh -p 22 x", "sshpass -p [redacted] ssh -p 22 x"},
		{"sshpass attached", "sshpass -p'S3cr3t Hx9' ssh x", "sshpass -p'[redacted]' ssh x"},
		{"sqlcmd", "sqlcmd -S h -U sa -P S3cr3tHx9 -i x.sql", "sqlcmd -S h -U sa -P [redacted] -i x.sql"},
		{"osql", "osql -Usa -PS3cr3tHx9", "osql -Usa -P[redacted]"},
		{"mosquitto", "mosquitto_pub -p 1883 -u x -P S3cr3tHx9 -t a", "mosquitto_pub -p 1883 -u x -P [redacted] -t a"},
		{"redis", "redis-cli -h x -p 6379 -a S3cr3tHx9 ping", "redis-cli -h x -p 6379 -a [redacted] ping"},
		{"net user", "net user pos S3cr3tHx9 /add", "net user pos [redacted] /add"},
		{"net use", `net use Z: \\s\x /user:pos S3cr3tHx9`, `net use Z: \\s\x /user:pos [redacted]`},
		{"sqlplus", "sqlplus pos/S3cr3tHx9", "sqlplus pos/[redacted]"},
		{"exp", "exp system/S3cr3tHx9 file=x.dmp", "exp system/[redacted] file=x.dmp"},
		{"webhook key", "https://h/webhook/send?key=693a91f6-7c1e-4bc4-97a0-0ec2f5aaa1b2&x=1", "https://h/webhook/send?key=[redacted]&x=1"},
		{"signature", "https://h/c?sv=2020&sig=S3cr3tHx9%3D&Signature=S3cr3tHx9&n=1", "https://h/c?sv=2020&sig=[redacted]&Signature=[redacted]&n=1"},
		{"webhook path", "https://hooks.slack.com/services/T00/B00/S3cr3tHx9 ok", "https://hooks.slack.com/services/[redacted] ok"},
		{"session", "http://h/a;JSESSIONID=S3cr3tHx9", "http://h/a;JSESSIONID=[redacted]"},
		{"percent", "body=user%3Dpos%26password%3DS3cr3tHx9%26n%3D1", "body=user%3Dpos%26password%3D[redacted]%26n%3D1"},
		{"percent JSON", "q=%7B%22password%22%3A%22S3cr3tHx9%22%7D", "q=%7B%22password%22%3A%22[redacted]%22%7D"},
		{"web key", `{"kty":"RSA","n":"x","d":"S3cr3tHx9"}`, `{"kty":"RSA","n":"x","d":"[redacted]"}`},
		{"table", "user,password,n\npos,S3cr3tHx9,1\n\"a,b\",\"S3cr3t,Hx9\",2\n", "user,password,n\npos,[redacted],1\n\"a,b\",\"[redacted]\",2\n"},
		{"table, chinese", "工号;姓名;登录密码\r\n1;张;S3cr3tHx9\r\n\r\nx;y;z", "工号;姓名;登录密码\r\n1;张;[redacted]\r\n\r\nx;y;z"},
		{"table of a note", "| user | password |\n|---|---|\n| pos | S3cr3tHx9 |\n", "| user | password |\n|---|---|\n| pos | [redacted] |\n"},
		{"table of a database", " user | password \n------+----------\n pos  | S3cr3tHx9\n(1 row)", " user | password \n------+----------\n pos  | [redacted]\n(1 row)"},
		{"table with a frame", "+-----+-----+\n| u | password |\n+-----+-----+\n| a | S3cr3t Hx9 |\n+-----+-----+\n", "+-----+-----+\n| u | password |\n+-----+-----+\n| a | [redacted] |\n+-----+-----+\n"},
		{"说是", "数据库密码是S3cr3tHx9，请保管", "数据库密码是[redacted]，请保管"},
		{"说为", "密码为 S3cr3tHx9", "密码为 [redacted]"},
		{"brackets", "新密码[S3cr3tHx9] 密码【S3cr3tHx9】完", "新密码[[redacted]] 密码【[redacted]】完"},
		{"口令", "管理员口令：S3cr3tHx9", "管理员口令：[redacted]"},
		{"pinyin", "mima=S3cr3tHx9 ok\nmiyao=S3cr3tHx9", "mima=[redacted]\nmiyao=[redacted]"},
		{"a sentence", "the password is S3cr3t7f3kQz91xHx9 ok", "the password is [redacted] ok"},
		{"a directive", "proxy_set_header X-Api-Key S3cr3t7f3kQz91xHx9;", "proxy_set_header X-Api-Key [redacted];"},
		{"pair at the start", "key: password\nval: S3cr3tHx9", "key: password\nval: [redacted]"},
		{"a port that is none", "postgres://u:12#S3cr3tHx9@h", "postgres://u:[redacted]@h"},
	}
}

func TestTextKeepsTheLineEndsOfWindows(t *testing.T) {
	t.Parallel()
	for _, c := range kinds() {
		in, want := crlf(c.in), crlf(c.want)
		if got, _ := redact.Text(in); got != want {
			t.Errorf("Text(%q)\n got %q\nwant %q", in, got, want)
		}
	}
	for _, in := range everyday() {
		if got, count := redact.Text(crlf(in) + "\r\n"); got != crlf(in)+"\r\n" || count != 0 {
			t.Errorf("%q became %q", crlf(in), got)
		}
	}
}

func crlf(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
}

func TestTextFindsEveryKindOfSecret(t *testing.T) {
	t.Parallel()
	for _, c := range kinds() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, count := redact.Text(c.in)
			if got != c.want || count == 0 {
				t.Errorf("Text(%q)\n got %q, %d\nwant %q", c.in, got, count, c.want)
			}
			if again, count := redact.Text(got); again != got || count != 0 {
				t.Errorf("a second pass changed %q to %q", got, again)
			}
		})
	}
}

// TestJSONFindsEveryKindOfSecretInAString: a log line is a string of a result.
func TestJSONFindsEveryKindOfSecretInAString(t *testing.T) {
	t.Parallel()
	for _, c := range kinds() {
		doc, err := json.Marshal(map[string]string{"line": c.in})
		if err != nil {
			t.Fatal(err)
		}
		clean, _ := redact.JSON(doc)
		var got map[string]string
		if err := json.Unmarshal(clean, &got); err != nil || got["line"] != c.want {
			t.Errorf("%s: JSON(%s) = %s, %v", c.name, doc, clean, err)
		}
		if again, count := redact.JSON(clean); string(again) != string(clean) || count != 0 {
			t.Errorf("%s: a second pass made %s of %s", c.name, again, clean)
		}
	}
}

func TestJSONBlacksOutThePrivateMembersOfWebKeys(t *testing.T) {
	t.Parallel()
	in := `{"keys":[{"d":"x1","kty":"EC","x":"a"},{"kty":"oct","k":"x2"},{"d":"a day","k":"b"}]}`
	want := `{"keys":[{"d":"[redacted]","kty":"EC","x":"a"},{"kty":"oct","k":"[redacted]"},{"d":"a day","k":"b"}]}`
	got, count := redact.JSON([]byte(in))
	if string(got) != want || count != 2 {
		t.Errorf("got %s, %d", got, count)
	}
}

func TestPercentAndEscapesKeepTheLinesOfAText(t *testing.T) {
	t.Parallel()
	in := "a%0Apassword%3Dx1\n\\u000apassword&#61;x1\n"
	if got, _ := redact.Text(in); strings.Count(got, "\n") != 2 || strings.Contains(got, "x1") {
		t.Errorf("%q became %q", in, got)
	}
}
