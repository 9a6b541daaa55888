package redact_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/internal/redact"
)

func TestJSONBlacksOutSecretsAndKeepsEveryOtherByte(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, in, want string
		count          int
	}{
		{"under a name", `{ "user" : "a",	"password":"S3cr3t\"#Hx9" , "n":1.50e+2 }`, `{ "user" : "a",	"password":"[redacted]" , "n":1.50e+2 }`, 1},
		{"a number", `{"pin":1234,"n":1}`, `{"pin":"[redacted]","n":1}`, 1},
		{"two words", `{"db password":"x1"}`, `{"db password":"[redacted]"}`, 1},
		{"a remark", `{"密码（必填）":"x1"}`, `{"密码（必填）":"[redacted]"}`, 1},
		{"an escaped key", `{"\u0070assword":"x1"}`, `{"\u0070assword":"[redacted]"}`, 1},
		{"nested", `{"credentials":{"id":"S","list":["T",7,true,null,""]},"n":[1]}`, `{"credentials":{"id":"[redacted]","list":["[redacted]","[redacted]",true,null,""]},"n":[1]}`, 3},
		{"a measure in it", `{"token":{"ttl":30,"value":"x1"}}`, `{"token":{"ttl":30,"value":"[redacted]"}}`, 1},
		{"beside its name", `[{"name":"DB_PASSWORD","value":"x1"},{"name":"A","value":"b"}]`, `[{"name":"DB_PASSWORD","value":"[redacted]"},{"name":"A","value":"b"}]`, 1},
		{"before its name", `{"value":{"a":["x1"]},"n":{"value":"b"},"key":"apiToken"}`, `{"value":{"a":["[redacted]"]},"n":{"value":"b"},"key":"apiToken"}`, 1},
		{"in a string", `["at 10:00 password=x1 from \u4e0a\ud83d\ude00"]`, `["at 10:00 password=[redacted] from \u4e0a\ud83d\ude00"]`, 1},
		{"behind escapes", `["\u4e0a\n\"a\"\tpassword=x\u00311\nend\/"]`, `["\u4e0a\n\"a\"\tpassword=[redacted]\nend\/"]`, 1},
		{"JSON in a string", `{"c":"{\"token\":\"x1\",\"n\":1}"}`, `{"c":"{\"token\":\"[redacted]\",\"n\":1}"}`, 1},
		{"a private key", `{"f":"-----BEGIN PRIVATE KEY-----\nMII\n\tabc\n-----END PRIVATE KEY-----\n"}`, `{"f":"-----BEGIN PRIVATE KEY-----\n[redacted]\n\t[redacted]\n-----END PRIVATE KEY-----\n"}`, 1},
		{"a private key in lines", `["-----BEGIN PRIVATE KEY-----","MIIEvQIBADANBgkqhkiG","-----END PRIVATE KEY-----","MIIEvQIBADANBgkqhkiG"]`, `["-----BEGIN PRIVATE KEY-----","[redacted]","-----END PRIVATE KEY-----","MIIEvQIBADANBgkqhkiG"]`, 1},
		{"bearer", `["Authorization: Bearer abcdef.123"]`, `["Authorization: [redacted]"]`, 1},
		{"a cloud key", `{"a":"AKIAIOSFODNN7EXAMPLE"}`, `{"a":"[redacted]"}`, 1},
		{"connection", `{"conn":"Server=db;Password=x 1;Database=pos"}`, `{"conn":"Server=db;Password=[redacted];Database=pos"}`, 1},
		{"address", `{"u":"mysql:\/\/pos:x1@db:3306\/pos"}`, `{"u":"mysql:\/\/pos:[redacted]@db:3306\/pos"}`, 1},
		{"in a key", `{"redis://:x1@h/0":1}`, `{"redis://:[redacted]@h/0":1}`, 1},
		{"base64 beside a name", `{"clientSecret":"c2VjcmV0LXNlY3JldC1zZWNyZXQ="}`, `{"clientSecret":"[redacted]"}`, 1},
		{"at the top", `"password=x1"`, `"password=[redacted]"`, 1},
		{"no JSON", `{"password":"x1",`, `{"password":"[redacted]",`, 1},
		{"twice", `{"pwd":"a","b":{"pwd":"c"}}`, `{"pwd":"[redacted]","b":{"pwd":"[redacted]"}}`, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, count := redact.JSON([]byte(c.in))
			if string(got) != c.want || count != c.count {
				t.Errorf("JSON(%s)\n got %s, %d\nwant %s, %d", c.in, got, count, c.want, c.count)
			}
			if again, count := redact.JSON(got); !bytes.Equal(again, got) || count != 0 {
				t.Errorf("a second pass made %s of %s, %d", again, got, count)
			}
		})
	}
}

func TestJSONLeavesHarmlessDocumentsAlone(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		`{"passwordPolicy":"none","passwordRequired":true,"tokenTimeout":"30s","tokenTtl":30,"secretCount":12,"password":null}`,
		`{"passwordPolicy":{"minLength":8,"required":"yes"},"cookie":"","token":[]}`,
		`{"tokens":1523,"cookies":3,"passwordChangedAt":"2026-01-02T03:04:05.000+08:00","token_expiry_date":"2026-01-02"}`,
		`{"bypass":"on","compass":"north","shipping":"a pin board","author":"x","mapping":{"typing":"option"}}`,
		`{"monkey":"banana","keyboard":"zh","key":"value","passed":12,"pins":"4","authentic":"yes"}`,
		`{"path":"/var/log/token/app.log","sha256":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}`,
		`["authentication failure; logname= uid=0","(using password: YES)","密码错误","Basic information about it","basic 12"]`,
		`["https://example.com:8080/a?mail=x@y.com","ssh://git@example.com/x.git","task-1234567890abcdefgh","disk_0123456789abcdefgh"]`,
		`{"name":"password","n":"x"}`, `[{"name":"A"},{"value":"x"},{"name":"password"}]`, `{"text":"a password was changed"}`,
		`{"password":"[redacted]","log":"token=[redacted] ok","tail":"password=[redac"}`, `{"pin":"[redacted]"}`,
		`{"a":1e5,"b":-0.0,"c":"\u0000\ud800","d":"\\\\"}`, ` [ ] `, `null`, `12`, `""`, ``, `no json`,
	} {
		if got, count := redact.JSON([]byte(in)); string(got) != in || count != 0 {
			t.Errorf("%s became %s (%d)", in, got, count)
		}
	}
}

// TestJSONKnowsTheNamesOfOurOwnMessages: a field of ours that looked like a secret would be blacked out everywhere.
func TestJSONKnowsTheNamesOfOurOwnMessages(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../schemas/*_output.v1.schema.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no schemas: %v", err)
	}
	files = append(files, "../../schemas/result.v1.schema.json")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var schema any
		if err := json.Unmarshal(text, &schema); err != nil {
			t.Fatal(err)
		}
		for _, name := range propertiesIn(schema) {
			doc := fmt.Appendf(nil, `{%q:"x1"}`, name)
			if _, count := redact.JSON(doc); count != 0 {
				t.Errorf("%s: %s is taken for the name of a secret", file, name)
			}
		}
	}
}

func propertiesIn(schema any) (names []string) {
	switch s := schema.(type) {
	case map[string]any:
		if properties, ok := s["properties"].(map[string]any); ok {
			for name := range properties {
				names = append(names, name)
			}
		}
		for _, inner := range s {
			names = append(names, propertiesIn(inner)...)
		}
	case []any:
		for _, inner := range s {
			names = append(names, propertiesIn(inner)...)
		}
	}
	return names
}

// hostile are texts of n bytes whose parts look at the same surroundings over and over.
func hostile(n int) map[string]string {
	fill := func(part string) string { return strings.Repeat(part, n/len(part)) }
	return map[string]string{
		"one line of settings": fill("pwd=a,"), "settings with spaces": fill("pwd = a "), "quotes without an end": fill(`pwd="`),
		"nested keys": fill(`{"pwd":`), "tags without an end": fill("<pwd "), "elements without an end": fill("<pwd a>"),
		"many names": fill("<pwd1 x><pwd2 y>"), "labels": fill(",name=pwd"), "objects": fill(`{"name":"pwd","value":1},`),
		"private keys": fill("-----BEGIN PRIVATE KEY-----\n"), "putty": fill("Private-Lines: 9999\n"), "options": fill(" -u a"),
		"mysql": fill("mysql "), "addresses": fill("a://"), "logins": fill("a://b:c@"), "tokens": fill("eyJhbGciOi."),
		"yaml": fill("pwd:\n "), "blocks": fill("pwd: |\n  x\n"), "connection": fill("pwd=a;b "), "oracle": fill("imp a/"),
		"apostrophes": fill("pwd='"), "backslashes": fill(`pwd:\`), "bearer": fill("bearer "), "identified": fill("identified by "),
		"remarks": fill("密码（"), "words": fill("pin "), "array": "[" + fill(`{"name":"pwd","value":`) + "1",
		"elements by name": fill("<key>pwd</key><a>"), "directives": fill("pass\t"), "machine": "machine " + fill("password a "),
		"inserts": fill("insert into a(pwd) values('a"), "open inserts": fill("insert into a(pwd,"), "tuples": "insert into a(pwd) values" + fill("(1),"),
		"tables": fill("pwd,a\n"), "rows": "pwd,pin\n" + fill("a,b\n"), "columns": fill("pwd,"), "heredocs": fill("pwd=<<E\n"), "below": fill("pwd:\nabcdefgh1\n"),
		"web keys": fill(`"kty","d":"aaaaaaaa",`), "entities": fill("&lt;pwd&gt;"), "escapes": fill(`\u0070wd=`), "percent": fill("pwd%3d"),
		"backslashes before u": fill(`\\\\\u0070`), "commands": fill("sqlcmd -P "), "net use": fill("net use /user:a "), "net user": fill("net user a "),
		"said": fill("密码是abcd"), "said brackets": fill("密码["), "calls": fill(`("pwd","`), "connecting": fill("getconnection(a,"), "setters": fill("setpwd('"),
		"queries": fill("?key=a"), "random": fill("pwd a1a1a1a1a1a1a1a1"), "full width": fill("ｐｗｄ＝"), "lone returns": fill("pwd=\r"),
	}
}

// TestTheTimeGrowsWithTheTextAlone: four times the text may take four times as long, and not sixteen.
func TestTheTimeGrowsWithTheTextAlone(t *testing.T) { // not parallel: it looks at the time of the process
	const size, most = 64 << 10, 9
	small, large := hostile(size), hostile(4*size)
	for name := range small {
		ratio := 0.0
		for range 3 {
			if ratio = float64(timeOf(t, large[name])) / float64(timeOf(t, small[name])); ratio < most {
				break
			}
		}
		if ratio >= most {
			t.Errorf("%s: four times the text took %.1f times as long", name, ratio)
		}
	}
}

// timeOf is the mean time that a text takes, at least one tick of the clock.
func timeOf(t *testing.T, text string) time.Duration {
	t.Helper()
	const least = 20 * time.Millisecond // the clock of a process may tick every 4 ms
	begin, rounds := processorTime(t), 0
	for {
		redact.Text(text)
		rounds++
		if took := processorTime(t) - begin; took >= least {
			return took / time.Duration(rounds)
		}
	}
}

func TestExcerptIsShortAndCleanText(t *testing.T) {
	t.Parallel()
	for limit := range 60 {
		got := redact.Excerpt([]byte("{\"a\":\"门店\",\"password\":\"S3cr3tHx9\",\"b\xff\":1}"), limit)
		if len(got) > limit || strings.Contains(got, "S3") || strings.ContainsRune(got, '\ufffd') {
			t.Errorf("Excerpt(%d) = %q", limit, got)
		}
	}
}

func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		`{"password":"x","a":["token=1\n2",{"name":"pwd","value":{"x":1}}]}`, `["\ud83d\ude00 pwd=\u0031\"","-----BEGIN PRIVATE KEY-----"]`,
		`{"a":"{\"pwd\":\"x","b":"<token>a</token>"}`, `{"密码":1e5,"\u0070in":[[2]]}`, "pwd: |\n x",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		clean, count := redact.JSON(bytes.Clone(doc))
		if count == 0 && !bytes.Equal(clean, doc) {
			t.Fatalf("%q became %q uncounted", doc, clean)
		}
		if json.Valid(doc) && !json.Valid(clean) {
			t.Fatalf("%q became %q, which is no JSON", doc, clean)
		}
		again, count := redact.JSON(bytes.Clone(clean))
		if count != 0 || !bytes.Equal(again, clean) {
			t.Fatalf("%q became %q, and that %q (%d)", doc, clean, again, count)
		}
	})
}

// results are documents of about n bytes: without a word to stumble over, as our own job writes them, and full of
// secrets.
func results(n int) map[string][]byte {
	fill := func(part string) []byte {
		return []byte(`{"lines":[` + strings.Repeat(part+",", n/(len(part)+1)-1) + part + `]}`)
	}
	return map[string][]byte{
		"clean": fill(`{"path":"/var/log/pos/app.log","level":"error","text":"printer 12 failed for order 88231"}`),
		"mixed": fill(`{"path":"C:\\pos\\task-logs\\app.log","text":"2026-09-17 10:00:00 ERROR login of bob at http://10.0.0.1:80/a failed, password=[redacted]\n\tat com.x.Token"}`),
		"full":  fill(`{"password":"S3cr3t","text":"2026-09-17 10:00:00 INFO login user=bob password=S3cr3t#Hx9 from mysql://a:b@c/d"}`),
	}
}

func BenchmarkJSON(b *testing.B) {
	for _, size := range []int{1 << 10, 384 << 10} {
		for name, doc := range results(size) {
			b.Run(fmt.Sprintf("%s/%dKiB", name, size>>10), func(b *testing.B) {
				b.SetBytes(int64(len(doc)))
				for b.Loop() {
					redact.JSON(doc)
				}
			})
		}
	}
}

func BenchmarkHostile(b *testing.B) {
	for name, text := range hostile(384 << 10) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				redact.Text(text)
			}
		})
	}
}
