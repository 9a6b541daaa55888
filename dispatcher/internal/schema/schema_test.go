package schema_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/dispatcher/internal/schema"
	"muster/internal/protocol"
)

const head = `"$schema":"http://json-schema.org/draft-07/schema#"`

func compile(t *testing.T, body string) *schema.Schema {
	t.Helper()
	s, err := schema.Compile("test", []byte("{"+head+","+body+"}"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// doubled defines d0 to d<levels>, each of which uses the next one twice.
func doubled(levels int) string {
	var b strings.Builder
	b.WriteString(`"$ref":"#/definitions/d0","definitions":{`)
	for i := range levels {
		fmt.Fprintf(&b, `"d%d":{"allOf":[{"$ref":"#/definitions/d%d"},{"$ref":"#/definitions/d%d"}]},`, i, i+1, i+1)
	}
	fmt.Fprintf(&b, `"d%d":{"type":"string"}}`, levels)
	return b.String()
}

func TestHostileSchemasAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ doc, want string }{
		"no $schema":            {`{"type":"object"}`, `/$schema: must be`},
		"draft 4":               {`{"$schema":"http://json-schema.org/draft-04/schema#"}`, `/$schema: must be`},
		"2020-12":               {`{"$schema":"https://json-schema.org/draft/2020-12/schema"}`, `/$schema: must be`},
		"$schema below":         {`{` + head + `,"not":{` + head + `}}`, `/not/$schema: may stand at the root alone`},
		"unknown keyword":       {`{` + head + `,"minlength":3}`, `/minlength: is no keyword of draft-07`},
		"draft 4 id":            {`{` + head + `,"id":"x"}`, `/id: is no keyword of draft-07`},
		"$id below":             {`{` + head + `,"not":{"$id":"#a"}}`, `/not/$id: may stand at the root alone`},
		"$defs":                 {`{` + head + `,"$defs":{}}`, `/$defs: is no keyword of draft-07`},
		"not an object":         {`[]`, `a schema file must be an object`},
		"true":                  {`true`, `a schema file must be an object`},
		"remote reference":      {`{` + head + `,"$ref":"http://127.0.0.1:1/x"}`, `/$ref: must start with #`},
		"file reference":        {`{` + head + `,"items":{"$ref":"file:///etc/passwd"}}`, `/items/$ref: must start with #`},
		"relative reference":    {`{` + head + `,"items":{"$ref":"other.json#/definitions/a"}}`, `/items/$ref: must start with #`},
		"reference of a number": {`{` + head + `,"$ref":1}`, `/$ref: must start with #`},
		"itself":                {`{` + head + `,"$ref":"#"}`, `the schema: refers to itself`},
		"itself by a property":  {`{` + head + `,"properties":{"a":{"$ref":"#"}}}`, `refers to itself`},
		"itself by the pointer": {`{` + head + `,"items":{"$ref":"#/items"}}`, `/items: refers to itself`},
		"a loop of two": {`{` + head + `,"$ref":"#/definitions/a","definitions":{"a":{"$ref":"#/definitions/b"},"b":{"$ref":"#/definitions/a"}}}`,
			`refers to itself`},
		"a loop in allOf": {`{` + head + `,"allOf":[{"$ref":"#"}]}`, `refers to itself`},
		"missing target":  {`{` + head + `,"$ref":"#/definitions/a"}`, `/$ref: no schema stands at #/definitions/a`},
		"target in enum":  {`{` + head + `,"items":{"$ref":"#/enum/0"},"enum":[{}]}`, `/items/$ref: no schema stands at #/enum/0`},
		"hijack by default": {`{` + head + `,"items":{"$ref":"#/definitions/a"},"default":{"$id":"#/definitions/a","$ref":"#"}}`,
			`/items/$ref: no schema stands at #/definitions/a`},
		"named anchor":       {`{` + head + `,"items":{"$ref":"#a"}}`, `is no JSON Pointer`},
		"beside reference":   {`{` + head + `,"items":{"$ref":"#/definitions/a","maxLength":3},"definitions":{"a":true}}`, `/items: maxLength beside $ref would be ignored`},
		"doubling":           {`{` + head + `,` + doubled(30) + `}`, `parts with every $ref written out`},
		"unknown format":     {`{` + head + `,"type":"string","format":"phone"}`, `/format: "phone" is not checked`},
		"format alone":       {`{` + head + `,"format":"date"}`, `needs "type":"string" beside it`},
		"bound out of range": {`{` + head + `,"minimum":1e1000001}`, `BAD_JSON`},
		"fraction as length": {`{` + head + `,"minLength":2.0}`, `minLength must be of an integer`},
		"bad pattern":        {`{` + head + `,"pattern":"("}`, `pattern must be a valid regex`},
		"bad example":        {`{` + head + `,"pattern":"^x","examples":["xy","y"]}`, `/examples/1: does not fit the pattern ^x`},
		"bad definitions":    {`{` + head + `,"definitions":true}`, `/definitions: must be an object`},
		"null as schema":     {`{` + head + `,"not":null}`, `/not: must be a schema`},
		"empty allOf":        {`{` + head + `,"allOf":[]}`, `/allOf: must be a list of schemas`},
		"zero multipleOf":    {`{` + head + `,"multipleOf":0}`, `must be strictly greater than 0`},
		"unknown type":       {`{` + head + `,"type":"text"}`, `given: /text/`},
		"key twice":          {`{` + head + `,"type":"string","type":"object"}`, `BAD_JSON`},
		"deep":               {`{` + head + `,"not":` + strings.Repeat(`{"not":`, 100) + `true` + strings.Repeat(`}`, 101), `BAD_JSON`},
		"empty":              {``, `EMPTY_PAYLOAD`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := schema.Compile("x.json", []byte(c.doc))
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "cannot compile schema x.json: ") {
				t.Errorf("got %v, want ...%s", err, c.want)
			}
		})
	}
}

func TestHarmlessSchemasCompile(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"$id at the root":          `"$id":"https://example.com/a.json","items":{"$ref":"#/definitions/a"},"definitions":{"a":{"type":"string"}}`,
		"reference to a property":  `"properties":{"a":{"type":"string"},"b":{"$ref":"#/properties/a"}}`,
		"escaped names":            `"items":{"$ref":"#/definitions/a~1b%25"},"definitions":{"a/b%":{"type":"string"}}`,
		"described reference":      `"items":{"$ref":"#/definitions/a","description":"d"},"definitions":{"a":true}`,
		"properties named as keys": `"properties":{"$ref":{"type":"string"},"id":{"type":"string"},"$id":true,"enum":true,"properties":true}`,
		"dependencies":             `"dependencies":{"a":["b"],"c":{"required":["d"]}}`,
		"doubling a little":        doubled(8),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compile(t, body)
		})
	}
}

// The library takes whatever has an $id for a schema of that name, wherever it
// stands.
func TestAnAnnotationCannotReplaceADefinition(t *testing.T) {
	t.Parallel()
	for _, keyword := range []string{"default", "examples"} {
		s := compile(t, `"items":{"$ref":"#/definitions/a"},"definitions":{"a":{"type":"string"}},
			"`+keyword+`":[{"$id":"#/definitions/a","type":"integer"}]`)
		if s.Validate([]byte(`["x"]`)) != nil || s.Validate([]byte(`[1]`)) == nil {
			t.Errorf("%s replaced a definition", keyword)
		}
	}
	s := compile(t, `"$id":"#/definitions/a","items":{"$ref":"#/definitions/a"},"definitions":{"a":{"type":"string"}}`)
	if s.Validate([]byte(`["x"]`)) != nil || s.Validate([]byte(`[1]`)) == nil {
		t.Error("the root replaced a definition")
	}
}

func TestHostileDocumentsAreRefusedQuickly(t *testing.T) {
	t.Parallel()
	s := compile(t, `"properties":{
		"e":{"enum":[1,"a"]},"c":{"const":1},"u":{"uniqueItems":true},
		"n":{"type":"number","minimum":0,"maximum":10,"multipleOf":0.5},"i":{"type":"integer"}}`)
	for name, c := range map[string]struct {
		doc  string
		code protocol.Code
	}{
		"enum 1e400":          {`{"e":1e400}`, protocol.CodeBadJSON},
		"const 1e400":         {`{"c":-1e400}`, protocol.CodeBadJSON},
		"unique 1e400":        {`{"u":[1e400,1]}`, protocol.CodeBadJSON},
		"bound 1e1000001":     {`{"n":1e1000001}`, protocol.CodeBadJSON},
		"tiny":                {`{"n":1e-1000001}`, protocol.CodeBadJSON},
		"zero, huge exponent": {`{"n":0e1000001}`, protocol.CodeBadJSON},
		"integer 1e999999999": {`{"i":1e999999999}`, protocol.CodeBadJSON},
		"1 MB of digits":      {`{"n":` + strings.Repeat("7", 1<<20) + `}`, protocol.CodeTooLarge},
		"300 KB of digits":    {`{"n":` + strings.Repeat("7", 300<<10) + `}`, protocol.CodeBadJSON},
		"deep":                {strings.Repeat("[", 200_000), protocol.CodeBadJSON},
		"deep and closed":     {strings.Repeat("[", 90_000) + strings.Repeat("]", 90_000), protocol.CodeBadJSON},
		"key twice":           {`{"n":1,"n":2}`, protocol.CodeBadJSON},
		"key in two cases":    {`{"n":1,"N":2}`, protocol.CodeBadJSON},
		"trailing":            {`{} {}`, protocol.CodeBadJSON},
		"bad UTF-8":           {"{\"n\":\"\xff\"}", protocol.CodeBadJSON},
		"largest number":      {`{"n":1.7e308}`, protocol.CodeSchema},
		"not unique":          {`{"u":[1,1.0]}`, protocol.CodeSchema},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			started := time.Now()
			err := s.Validate([]byte(c.doc))
			var refusal *protocol.Error
			if !errors.As(err, &refusal) || refusal.Code != c.code {
				t.Errorf("got %v, want %s", err, c.code)
			}
			if took := time.Since(started); took > 2*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestRefusalShowsBoundsAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	s := compile(t, `"type":"object","properties":{
		"most":{"maximum":253402300799999},"least":{"minimum":-9007199254740993},"above":{"exclusiveMinimum":1234567890123},
		"below":{"exclusiveMaximum":12345678.875},"small":{"minimum":0.1},"tiny":{"minimum":1e-100},"vast":{"minimum":1e100},
		"step":{"multipleOf":86400000000},"part":{"multipleOf":0.05},"zero":{"minimum":0}}`)
	for doc, want := range map[string]string{
		`{"most":1e30}`:   "/most: must be at most 253402300799999",
		`{"least":-1e30}`: "/least: must be at least -9007199254740993",
		`{"above":0}`:     "/above: must be more than 1234567890123",
		`{"below":1e30}`:  "/below: must be less than 12345678.875",
		`{"small":0}`:     "/small: must be at least 0.1",
		`{"tiny":0}`:      "/tiny: must be at least 1e-100",
		`{"vast":0}`:      "/vast: must be at least 1e+100",
		`{"step":1}`:      "/step: must be a multiple of 86400000000",
		`{"part":0.07}`:   "/part: must be a multiple of 0.05",
		`{"zero":-1}`:     "/zero: must be at least 0",
	} {
		var refusal *protocol.Error
		if !errors.As(s.Validate([]byte(doc)), &refusal) || refusal.Message != want {
			t.Errorf("%s: got %v, want %q", doc, refusal, want)
		}
	}
}

// TestAFormIsToldInWords: all of several, by what they look like, and never a pattern
// alone where the schema has an example beside it.
func TestAFormIsToldInWords(t *testing.T) {
	t.Parallel()
	s := compile(t, `"type":"object","properties":{
		"day":{"type":"string","anyOf":[{"type":"string","format":"date"},{"const":"yesterday"}]},
		"who":{"anyOf":[{"$ref":"#/definitions/code"},{"enum":["all","none"]}]},
		"list":{"type":"array","items":{"$ref":"#/definitions/hour"}},
		"code":{"$ref":"#/definitions/code"},
		"big":{"anyOf":[{"type":"string","format":"uuid"},{"type":"object","required":["n"]}]},
		"odd":{"anyOf":[{"const":1},{"const":2}],"if":{"const":2},"then":{"anyOf":[{"const":3}]}}},
		"additionalProperties":{"allOf":[{"$ref":"#/definitions/hour"}]},
		"definitions":{"code":{"type":"string","pattern":"^[A-Z]{2}-[0-9]+$","examples":["SH-1","BJ-20"]},
			"hour":{"anyOf":[{"enum":["now","noon"]},{"const":12},{"const":null}]}}`)
	const hour = `must be "now" or "noon", or 12, or null`
	const hourZh = `应为 "now"、"noon"，或 12，或 null`
	for doc, want := range map[string][2]string{
		`{"day":"2026-02-30"}`: {`/day: must be a valid date such as 2026-09-17, or "yesterday"`, `/day：应为有效的日期，例如 2026-09-17，或 "yesterday"`},
		`{"day":"tomorrow"}`:   {`/day: must be a valid date such as 2026-09-17, or "yesterday"`, `/day：应为有效的日期，例如 2026-09-17，或 "yesterday"`},
		`{"code":"x"}`:         {`/code: must look like SH-1 or BJ-20 (^[A-Z]{2}-[0-9]+$)`, `/code：格式应如 SH-1、BJ-20（^[A-Z]{2}-[0-9]+$）`},
		`{"list":["now",13]}`:  {"/list/1: " + hour, "/list/1：" + hourZh},
		`{"x":"then"}`:         {"/x: " + hour, "/x：" + hourZh},
		`{"day":"2026-09-17","list":["noon",12,null],"code":"SH-7","who":"all"}`: {},
	} {
		err := s.Validate([]byte(doc))
		var refusal *protocol.Error
		if errors.As(err, &refusal) != (want[0] != "") || refusal != nil && (refusal.Message != want[0] || refusal.MessageZh != want[1]) {
			t.Errorf("%s: got %v, want %q", doc, refusal, want)
		}
	}
	for _, doc := range []string{`{"who":"x"}`, `{"big":"x"}`, `{"odd":2}`} { // more than words: as the library has it
		var refusal *protocol.Error
		if !errors.As(s.Validate([]byte(doc)), &refusal) || !strings.Contains(refusal.Message, "fits none of the allowed forms") {
			t.Errorf("%s: got %v", doc, refusal)
		}
	}
}

func TestRefusalNamesEveryFaultInOrder(t *testing.T) {
	t.Parallel()
	s := compile(t, `"type":"object","required":["b","a"],"additionalProperties":false,
		"properties":{
			"a":{"type":["integer","null"],"minimum":1,"maximum":10},"b":{"type":"string","maxLength":2,"pattern":"^x"},
			"l":{"type":"array","minItems":1,"items":{"type":"object","properties":{"a/b~c":{"enum":["u","v"]}}}},
			"t":{"type":"string","format":"date-time"},"limit":{"type":"integer"}}`)
	for name, c := range map[string]struct{ doc, path, want string }{
		"required":    {`{}`, "/a", "/a: is required\n/b: is required"},
		"type":        {`[]`, "", "document: must be object, not array"},
		"null":        {`null`, "", "document: must be object, not null"},
		"several":     {`{"a":0,"b":"yyy","other":1}`, "/a", "/a: must be at least 1\n/b: must have at most 2 characters\n/b: must match ^x\n/other: is not allowed"},
		"misspelt":    {`{"a":1,"b":"x","limt":1}`, "/limt", `/limt: is not allowed; did you mean "limit"?`},
		"union":       {`{"a":"1","b":"x"}`, "/a", "/a: must be integer or null, not string"},
		"escaped":     {`{"a":1,"b":"x","l":[{},{"a/b~c":1}]}`, "/l/1/a~1b~0c", `/l/1/a~1b~0c: must be one of "u", "v"`},
		"empty list":  {`{"a":1,"b":"x","l":[]}`, "/l", "/l: must have at least 1 items"},
		"date alone":  {`{"a":1,"b":"x","t":"2026-09-17"}`, "/t", "/t: must be a valid date-time such as 2026-09-17T08:15:00+08:00"},
		"30 February": {`{"a":1,"b":"x","t":"2026-02-30T00:00:00Z"}`, "/t", "/t: must be a valid date-time such as 2026-09-17T08:15:00+08:00"},
		"no offset":   {`{"a":1,"b":"x","t":"2026-02-03T00:00:00"}`, "/t", "/t: must be a valid date-time such as 2026-09-17T08:15:00+08:00"},
		"dotted":      {`{"a":1,"b":"x","x.y":1}`, "/x.y", "/x.y: is not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var refusal *protocol.Error
			if !errors.As(s.Validate([]byte(c.doc)), &refusal) {
				t.Fatal("it passed")
			}
			if refusal.Code != protocol.CodeSchema || refusal.Path != c.path || refusal.Message != c.want {
				t.Errorf("got %s at %q:\n%s\nwant %q:\n%s", refusal.Code, refusal.Path, refusal.Message, c.path, c.want)
			}
			if refusal.MessageZh == "" || refusal.Hint != "document: takes a, b, l, limit, t" || refusal.HintZh != "整个文档：可用字段为 a、b、l、limit、t" {
				t.Errorf("got messageZh %q, hint %q, %q", refusal.MessageZh, refusal.Hint, refusal.HintZh)
			}
		})
	}
	if err := s.Validate([]byte(`{"a":null,"b":"x","t":"2026-02-03T00:00:00.123+08:00"}`)); err != nil {
		t.Errorf("a good document: %v", err)
	}
}

// TestTypesAreNamedInTheLanguageOfTheSentence, and a number that is not whole is told
// from one that is.
func TestTypesAreNamedInTheLanguageOfTheSentence(t *testing.T) {
	t.Parallel()
	s := compile(t, `"properties":{"i":{"type":"integer"},"n":{"type":"number"},"s":{"type":"string"},"a":{"type":"array"},
		"o":{"type":"object"},"b":{"type":"boolean"},"u":{"type":["integer","null"]}}`)
	for doc, want := range map[string][2]string{
		`{"i":"1"}`:  {"/i: must be integer, not string", "/i：类型应为整数，实际为字符串"},
		`{"i":1.5}`:  {"/i: must be integer, not number", "/i：类型应为整数，实际为小数"},
		`{"n":{}}`:   {"/n: must be number, not object", "/n：类型应为数字，实际为对象"},
		`{"s":7}`:    {"/s: must be string, not integer", "/s：类型应为字符串，实际为整数"},
		`{"a":true}`: {"/a: must be array, not boolean", "/a：类型应为数组，实际为 true 或 false"},
		`{"o":[]}`:   {"/o: must be object, not array", "/o：类型应为对象，实际为数组"},
		`{"b":null}`: {"/b: must be boolean, not null", "/b：类型应为 true 或 false，实际为 null"},
		`{"u":"1"}`:  {"/u: must be integer or null, not string", "/u：类型应为整数或 null，实际为字符串"},
	} {
		var refusal *protocol.Error
		if !errors.As(s.Validate([]byte(doc)), &refusal) || refusal.Message != want[0] || refusal.MessageZh != want[1] {
			t.Errorf("%s: got %+v, want %q", doc, refusal, want)
		}
	}
}

// TestARefusedIdSaysWhichCharacterIsOdd: a space or a letter of another alphabet is not
// seen.
func TestARefusedIdSaysWhichCharacterIsOdd(t *testing.T) {
	t.Parallel()
	s := compile(t, `"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"`)
	const rule, ruleZh = "document: must be 1 to 63 of A-Z a-z 0-9 . _ - and start with a letter or digit", "整个文档：须由 1 至 63 个 A-Z a-z 0-9 . _ - 组成，以字母或数字开头"
	for doc, want := range map[string][2]string{
		`"A001 "`: {rule + "; its character 5 is U+0020 (a space)", ruleZh + "；第 5 个字符是 U+0020（空格）"},
		`"А001"`:  {rule + "; its character 1 is 'А' (U+0410)", ruleZh + "；第 1 个字符是 'А'（U+0410）"},
		`""`:      {rule, ruleZh},
	} {
		var refusal *protocol.Error
		if !errors.As(s.Validate([]byte(doc)), &refusal) || refusal.Message != want[0] || refusal.MessageZh != want[1] {
			t.Errorf("%s: got %+v, want %q", doc, refusal, want)
		}
		if refusal != nil && (refusal.Hint != protocol.MendIt || refusal.HintZh != protocol.MendItZh) {
			t.Errorf("%s: hint %q, %q", doc, refusal.Hint, refusal.HintZh)
		}
	}
}

func TestRefusalIsBounded(t *testing.T) {
	t.Parallel()
	s := compile(t, `"type":"object","additionalProperties":false`)
	var doc strings.Builder
	doc.WriteString("{")
	for i := range 500 {
		fmt.Fprintf(&doc, `"%s%03d":1,`, strings.Repeat("k", 400), i)
	}
	doc.WriteString(`"last":1}`)
	var refusal *protocol.Error
	if !errors.As(s.Validate([]byte(doc.String())), &refusal) {
		t.Fatal("it passed")
	}
	if lines := strings.Count(refusal.Message, "\n") + 1; lines > 20 || len(refusal.Message) > 20*300 {
		t.Errorf("%d lines, %d bytes", lines, len(refusal.Message))
	}
}

func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	s := compile(t, `"type":"object","required":["a"],"properties":{"a":{"$ref":"#/definitions/a"}},"definitions":{"a":{"type":"string","format":"date-time"}}`)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if s.Validate([]byte(`{"a":"2026-02-03T00:00:00Z"}`)) != nil || s.Validate([]byte(`{"a":1}`)) == nil {
					t.Error("wrong answer under load")
					return
				}
			}
		})
	}
	wg.Go(func() {
		for range 50 {
			compile(t, `"type":"object"`)
		}
	})
	wg.Wait()
}

// TestManyStrangersAreToldAtOnce: a message of a third of a MiB may have 30,000 members,
// and each line of a refusal costs as much as a whole document.
//
//nolint:paralleltest // it counts what is allocated
func TestManyStrangersAreToldAtOnce(t *testing.T) {
	s := compile(t, `"type":"object","additionalProperties":false,"properties":{"limit":{"type":"integer"}}`)
	var b strings.Builder
	b.WriteString(`{"limit":"x","limits":1`)
	for i := range 30_000 {
		fmt.Fprintf(&b, `,"k%05d":1`, i)
	}
	b.WriteString("}")
	var refusal *protocol.Error
	if !errors.As(s.Validate([]byte(b.String())), &refusal) {
		t.Fatal("it passed")
	}
	lines := strings.Split(refusal.Message, "\n")
	if len(lines) != 20 || lines[0] != "/k00000: is not allowed" || lines[19] != "/k00019: is not allowed" || refusal.Path != "/k00000" {
		t.Errorf("%d lines at %s: %q", len(lines), refusal.Path, lines)
	}
	allocs := testing.AllocsPerRun(3, func() { _ = s.Validate([]byte(b.String())) })
	if most := 30_000 * 10.0; allocs > most {
		t.Errorf("%.0f allocations, %.0f at most", allocs, most)
	}
}
