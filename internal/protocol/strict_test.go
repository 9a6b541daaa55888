package protocol_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"muster/internal/protocol"
)

type inner struct {
	Name string `json:"name"`
}

type outer struct {
	inner
	RunID string           `json:"runId"`
	Count int              `json:"count"`
	List  []inner          `json:"list"`
	Map   map[string]inner `json:"map"`
	One   *inner           `json:"one"`
	Raw   json.RawMessage  `json:"raw"`
}

const limit = 64 << 10

func han(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return unicode.Is(unicode.Han, r) })
}

func TestDecodeRefusesWhatTheLibraryLetsPass(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		doc  string
		code protocol.Code
		path string
		say  string
	}{
		"empty":                   {"", protocol.CodeEmptyPayload, "", "the payload is empty"},
		"white space":             {" \r\n\t", protocol.CodeEmptyPayload, "", "the payload is empty"},
		"byte order mark alone":   {"\ufeff\r\n", protocol.CodeEmptyPayload, "", "the payload is empty"},
		"too large":               {strings.Repeat(" ", limit+1), protocol.CodeTooLarge, "", "the payload has 65537 bytes; at most 65536 are taken"},
		"text":                    {"hello", protocol.CodeBadJSON, "", "line 1, byte 1: invalid character 'h' looking for beginning of value"},
		"open":                    {"{\n\"a\":", protocol.CodeBadJSON, "", "line 2, byte 6: the document ends too early"},
		"UTF-16 LE with mark":     {"\xff\xfe{\x00}\x00", protocol.CodeBadJSON, "", "the payload is UTF-16 (little endian), not UTF-8"},
		"UTF-16 BE with mark":     {"\xfe\xff\x00{\x00}", protocol.CodeBadJSON, "", "the payload is UTF-16 (big endian), not UTF-8"},
		"UTF-16 LE without mark":  {"{\x00}\x00", protocol.CodeBadJSON, "", "the payload is UTF-16 (little endian), not UTF-8"},
		"UTF-16 BE without mark":  {"\x00{\x00}", protocol.CodeBadJSON, "", "the payload is UTF-16 (big endian), not UTF-8"},
		"GBK":                     {"{\"name\":\"\xb5\xea\"}", protocol.CodeBadJSON, "", "the payload is not UTF-8; it may be GBK or Big5"},
		"GBK, none of Big5's":     {"{\"name\":\"\x81\x80\"}", protocol.CodeBadJSON, "", "the payload looks like GBK (GB 18030), not UTF-8"},
		"Big5":                    {"{\"name\":\"\xa9\xb1\xae\x61\"}", protocol.CodeBadJSON, "", "the payload is not UTF-8; it may be GBK or Big5"},
		"GB 18030, four bytes":    {"{\"name\":\"\x95\x32\x82\x36\"}", protocol.CodeBadJSON, "", "the payload looks like GBK (GB 18030), not UTF-8"},
		"Latin-1, like pairs":     {"{\"name\":\"caf\xe9s\"}", protocol.CodeBadJSON, "", "the payload is not UTF-8; it may be Latin-1 (Windows-1252)"},
		"UTF-32 LE with mark":     {"\xff\xfe\x00\x00{\x00\x00\x00", protocol.CodeBadJSON, "", "the payload is UTF-32 (little endian), not UTF-8"},
		"UTF-32 BE with mark":     {"\x00\x00\xfe\xff\x00\x00\x00{", protocol.CodeBadJSON, "", "the payload is UTF-32 (big endian), not UTF-8"},
		"UTF-32 LE without mark":  {"{\x00\x00\x00}\x00\x00\x00", protocol.CodeBadJSON, "", "the payload is UTF-32 (little endian), not UTF-8"},
		"UTF-32 BE without mark":  {"\x00\x00\x00{\x00\x00\x00}", protocol.CodeBadJSON, "", "the payload is UTF-32 (big endian), not UTF-8"},
		"two byte order marks":    {"\ufeff\ufeff{}", protocol.CodeBadJSON, "", "line 1, byte 1: invalid character U+FEFF (a byte order mark) looking for beginning of value"},
		"GBK, cut":                {"{\"name\":\"\xb5", protocol.CodeBadJSON, "", "the payload is not valid UTF-8"},
		"Latin-1":                 {"{\"name\":\"caf\xe9\"}", protocol.CodeBadJSON, "", "the payload is not valid UTF-8"},
		"no-break space before":   {"\u00a0{}", protocol.CodeBadJSON, "", "line 1, byte 1: invalid character U+00A0 looking for beginning of value"},
		"second document":         {"{} {}", protocol.CodeBadJSON, "", "something follows the document"},
		"key twice, and open":     {`{"a":1,"a":2`, protocol.CodeBadJSON, "", "line 1, byte 12: the document ends too early"},
		"key twice, and GBK":      {"{\"a\":1,\"a\":\"\xb5\"}", protocol.CodeBadJSON, "", "the payload is not valid UTF-8"},
		"deep, and open":          {strings.Repeat(`[`, 40), protocol.CodeBadJSON, "", "line 1, byte 40: the document ends too early"},
		"key twice":               {`{"a":{"b":1,"b":2}}`, protocol.CodeBadJSON, "/a", `the member "b" stands twice (names that differ only in case count as one)`},
		"key in two cases":        {`{"a":1,"A":2}`, protocol.CodeBadJSON, "", `the member "A" stands twice (names that differ only in case count as one)`},
		"key by escapes":          {`{"ab":1,"\u0061b":2}`, protocol.CodeBadJSON, "", `the member "ab" stands twice (names that differ only in case count as one)`},
		"key with a long s":       {`{"status":1,"ſtatus":2}`, protocol.CodeBadJSON, "", `the member "ſtatus" stands twice (names that differ only in case count as one)`},
		"key with a kelvin sign":  {`{"k":1,"` + "\u212a" + `":2}`, protocol.CodeBadJSON, "", `the member "` + "\u212a" + `" stands twice (names that differ only in case count as one)`},
		"key in three sigmas":     {`{"ς":1,"Σ":2}`, protocol.CodeBadJSON, "", `the member "Σ" stands twice (names that differ only in case count as one)`},
		"key in a list":           {`{"a/b":[{},{"c":1,"c":1}]}`, protocol.CodeBadJSON, "/a~1b/1", `the member "c" stands twice (names that differ only in case count as one)`},
		"case of a field":         {`{"RunID":"r"}`, protocol.CodeBadJSON, "", `the member "RunID" must be spelled "runId"`},
		"case of a promoted one":  {`{"NAME":"r"}`, protocol.CodeBadJSON, "", `the member "NAME" must be spelled "name"`},
		"case in a list":          {`{"list":[{"name":"a"},{"Name":"b"}]}`, protocol.CodeBadJSON, "/list/1", `the member "Name" must be spelled "name"`},
		"case in a map":           {`{"map":{"x":{"Name":"b"}}}`, protocol.CodeBadJSON, "/map/x", `the member "Name" must be spelled "name"`},
		"case behind a pointer":   {`{"one":{"naMe":"b"}}`, protocol.CodeBadJSON, "/one", `the member "naMe" must be spelled "name"`},
		"1e400":                   {`{"raw":[0,1e400]}`, protocol.CodeBadJSON, "/raw/1", "the number 1e400 is out of range"},
		"1e-1000001":              {`{"raw":1e-1000001}`, protocol.CodeBadJSON, "/raw", "the number 1e-1000001 is out of range"},
		"0e99999":                 {`{"raw":0e99999}`, protocol.CodeBadJSON, "/raw", "the number 0e99999 is out of range"},
		"long number":             {`{"raw":` + strings.Repeat("1", 41) + `}`, protocol.CodeBadJSON, "/raw", "a number has 41 characters; at most 40 are taken"},
		"deep":                    {strings.Repeat(`[`, 33) + strings.Repeat(`]`, 33), protocol.CodeBadJSON, strings.Repeat("/0", 32), "it is nested deeper than 32 levels"},
		"far too deep":            {strings.Repeat(`[`, 10_001) + strings.Repeat(`]`, 10_001), protocol.CodeBadJSON, "", "it is nested deeper than 32 levels"},
		"high half":               {`{"name":"\ud800"}`, protocol.CodeBadJSON, "/name", "a string holds half a surrogate pair"},
		"low half":                {`{"name":"\udc00"}`, protocol.CodeBadJSON, "/name", "a string holds half a surrogate pair"},
		"two high halves":         {`{"name":"\ud83d\ud83d"}`, protocol.CodeBadJSON, "/name", "a string holds half a surrogate pair"},
		"high half and a letter":  {`{"name":"\ud83dx"}`, protocol.CodeBadJSON, "/name", "a string holds half a surrogate pair"},
		"high half and a newline": {`{"name":"\ud83d\n"}`, protocol.CodeBadJSON, "/name", "a string holds half a surrogate pair"},
		"half in a key":           {`{"\uDFFF":1}`, protocol.CodeBadJSON, "", "a string holds half a surrogate pair"},
		"wrong type":              {`{"count":"1"}`, protocol.CodeSchema, "/count", "/count: must be a whole number, not a string"},
		"fraction":                {`{"count":1.5}`, protocol.CodeSchema, "/count", "/count: must be a whole number, not 1.5"},
		"list for object":         {`[]`, protocol.CodeSchema, "", "document: must be an object, not an array"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var dst outer
			var refusal *protocol.Error
			if err := protocol.Decode([]byte(c.doc), limit, &dst); !errors.As(err, &refusal) {
				t.Fatalf("got %v", err)
			}
			if refusal.Code != c.code || refusal.Path != c.path || refusal.Message != c.say {
				t.Errorf("got %s %q %q\nwant %s %q %q", refusal.Code, refusal.Path, refusal.Message, c.code, c.path, c.say)
			}
			if english := regexp.MustCompile(`[a-z]{3,}[ ,]+[a-z]{3,}`); refusal.Hint == "" || !han(refusal.MessageZh) || !han(refusal.HintZh) || english.MatchString(refusal.MessageZh) {
				t.Errorf("got messageZh %q, hint %q, hintZh %q", refusal.MessageZh, refusal.Hint, refusal.HintZh)
			}
		})
	}
}

func TestDecodeTakesGoodDocuments(t *testing.T) {
	t.Parallel()
	for name, doc := range map[string]string{
		"plain":            `{"runId":"r","name":"n","unknown":{"RUNID":1}}`,
		"mark and CRLF":    "\ufeff{\r\n\"runId\":\"r\",\"name\":\"n\"}\r\n",
		"raw keeps keys":   `{"runId":"r","name":"n","raw":{"NAME":1,"runid":2}}`,
		"pair":             `{"runId":"r","name":"n","x":"\ud83d\ude00\\ud800"}`,
		"at the depth":     `{"runId":"r","name":"n","raw":` + strings.Repeat(`[`, 31) + strings.Repeat(`]`, 31) + `}`,
		"numbers":          `{"runId":"r","name":"n","raw":[9007199254740993,1.0,-0,1e308,1E-300]}`,
		"null":             `{"runId":"r","name":"n","list":null,"one":null,"map":null}`,
		"same key, 2 deep": `{"runId":"r","name":"n","raw":[{"a":1},{"a":2}],"list":[{"name":"a"},{"name":"b"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var dst outer
			if err := protocol.Decode([]byte(doc), limit, &dst); err != nil {
				t.Fatal(err)
			}
			if dst.RunID != "r" || dst.Name != "n" {
				t.Errorf("got %+v", dst)
			}
		})
	}
}

func TestOffersKeepTheirPromotedNames(t *testing.T) {
	t.Parallel()
	var refusal *protocol.Error
	err := protocol.Decode([]byte(`{"TaskId":"t"}`), limit, &protocol.Offer{})
	if !errors.As(err, &refusal) || refusal.Message != `the member "TaskId" must be spelled "taskId"` {
		t.Errorf("got %v", err)
	}
}

// FuzzScan holds Scan against the library: what passes is valid, and survives
// a round trip through Go values without loss.
func FuzzScan(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.50,"\ud83d\ude00",null]}`, `{"a":1,"A":2}`, `"\ud800"`, `1e400`, `[[[]]]`, "\ufeff{}",
		`{"\u0061":1,"a":1}`, `{"ſ":1,"s":1}`, `-0.0e+00`, `{"a":{"b":[{"c":"\\"}]}}`, "{\x00}\x00", `"\u00zz"`, `"a\`,
		"\"12345678\x01\"", "\"1234\x1f5678\"", "\"123456789\xff\"", "\"\x7f\u2028\"", `"\x"`, `"\u12"`, `"abc`, `01`, `-`, `1.`, `.5`, `+1`, `1e`, `1e+`, `-01`, `tru`, `nulll`, `[1,]`, `[,1]`,
		`[1 2]`, `{"a" 1}`, `{"a":}`, `{"a":1,}`, `{,}`, `{1:2}`, `[`, `{`, `]`, `[}`, `{"a":1]`, `"\ud83d`, `"\ud83d\ude`, `[1]x`, "[\v1]", `{"a":1 "b":2}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		clean, err := protocol.Scan(data, 1<<16)
		if err != nil {
			var refusal *protocol.Error
			if !errors.As(err, &refusal) || refusal.Code == "" || refusal.Message == "" || refusal.MessageZh == "" {
				t.Fatalf("an unworded refusal: %v", err)
			}
			if !utf8.ValidString(refusal.Message) || !utf8.ValidString(refusal.Path) {
				t.Fatalf("a refusal that is not UTF-8: %q", refusal.Message)
			}
			if json.Valid(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))) && (strings.HasPrefix(refusal.Message, "line ") || strings.HasPrefix(refusal.Message, "something")) {
				t.Fatalf("%q is called no JSON: %v", data, err)
			}
			return
		}
		var value any
		if err := json.Unmarshal(clean, &value); err != nil {
			t.Fatalf("Scan passed %q: %v", clean, err)
		}
		checkValue(t, value)
		var dst outer
		_ = protocol.Decode(data, 1<<16, &dst)
	})
}

// checkValue fails on what Scan must not let pass.
func checkValue(t *testing.T, value any) {
	switch v := value.(type) {
	case float64:
		if math.IsInf(v, 0) {
			t.Fatal("an infinite number passed")
		}
	case []any:
		for _, item := range v {
			checkValue(t, item)
		}
	case map[string]any:
		for name, item := range v {
			for other := range v {
				if name != other && strings.EqualFold(name, other) {
					t.Fatalf("%s and %s passed", strconv.Quote(name), strconv.Quote(other))
				}
			}
			checkValue(t, item)
		}
	}
}

func TestARefusalNamesTheMemberAsItStandsInTheDocument(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		doc  string
		dst  any
		path string
	}{
		{`{"seq":"x"}`, &protocol.Hello{}, "/seq"},
		{`{"protocol":1,"seq":1.5}`, &protocol.Claim{}, "/seq"},
		{`{"open":[{"attempt":"1"}]}`, &protocol.Hello{}, "/open/attempt"},
		{`{"attempt":"1"}`, &protocol.Result{}, "/attempt"},
		{`{"Meta":1,"seq":"x"}`, &protocol.Result{}, "/seq"},
		{`[]`, &protocol.Hello{}, ""},
		{`{"outer":[{"seq":"x"}]}`, &struct {
			Outer []*struct {
				*protocol.Alarm
			} `json:"outer"`
		}{}, "/outer/seq"},
		{`{"Meta":{"seq":true}}`, &struct{ Meta protocol.Meta }{}, "/Meta/seq"},
		{`{"m":{"seq":true}}`, &struct {
			protocol.Meta `json:"m"`
		}{}, "/m/seq"},
	} {
		err := protocol.Decode([]byte(c.doc), 1000, c.dst)
		var refusal *protocol.Error
		if !errors.As(err, &refusal) || refusal.Path != c.path {
			t.Errorf("%s into %T: %v", c.doc, c.dst, err)
		}
	}
}
