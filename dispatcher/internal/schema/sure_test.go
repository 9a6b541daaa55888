package schema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"muster/dispatcher/internal/schema"
	"muster/internal/protocol"
)

// TestWhatIsSureIsValid holds the quick answer against the library's, over schemas and
// documents of all kinds.
func TestWhatIsSureIsValid(t *testing.T) {
	t.Parallel()
	sure, valid := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		shape := shapes(3).Draw(t, "schema")
		if parts, isObject := shape.(map[string]any); isObject {
			parts["$schema"] = "http://json-schema.org/draft-07/schema#"
			parts["definitions"] = map[string]any{"a/b": shapes(1).Draw(t, "definition"), "c": map[string]any{"$ref": "#/definitions/a~1b"}}
		}
		source, err := json.Marshal(shape)
		if err != nil {
			t.Fatal(err)
		}
		s, err := schema.Compile("drawn", source)
		if err != nil {
			t.Skip(err.Error())
		}
		for range 8 {
			text := values(3).Draw(t, "document")
			doc, err := protocol.ScanDocument([]byte(text), protocol.MaxPayloadBytes)
			if err != nil {
				continue // a name twice
			}
			refusal := s.Ask(doc)
			if refusal == nil {
				valid++
			}
			for _, err := range []error{s.Validate([]byte(" " + text)), s.ValidateScanned(doc)} {
				if fmt.Sprint(err) != fmt.Sprint(refusal) {
					t.Fatalf("%s by %s: %v, the library %v", text, source, err, refusal)
				}
			}
			if s.Sure(doc) {
				sure++
				if refusal != nil {
					t.Fatalf("sure of %s by %s, and refused: %v", text, source, refusal)
				}
			}
		}
	})
	t.Logf("sure of %d of %d that are valid", sure, valid)
	if 2*sure < valid {
		t.Errorf("sure of %d, and %d are valid", sure, valid)
	}
}

// TestSureOrNot goes along the edges that drawn schemas seldom meet.
func TestSureOrNot(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		schema, doc string
		sure, valid bool
	}{
		{`"maximum":0.1`, `0.1000000000000000055`, false, false},
		{`"exclusiveMaximum":0.1000000000000000055`, `0.1`, false, true},
		{`"maximum":0.1`, `0.09`, true, true},
		{`"minimum":9007199254740993`, `9007199254740992`, false, false},
		{`"minimum":9007199254740993`, `9007199254740993`, true, true},
		{`"exclusiveMinimum":-1`, `-1`, false, false},
		{`"exclusiveMinimum":-1`, `0`, true, true},
		{`"minimum":1`, `1.0`, false, true},
		{`"type":"integer"`, `1.0`, false, true},
		{`"type":"integer"`, `123456789012345678901`, false, true},
		{`"enum":[1,"a"]`, `1.0`, false, true},
		{`"enum":[1,"a",null,true]`, `null`, true, true},
		{`"enum":[1,"1"]`, `"1"`, true, true},
		{`"enum":["1"]`, `1`, false, false},
		{`"enum":[1,2],"const":2`, `1`, false, false},
		{`"enum":[[1]]`, `[1]`, false, true},
		{`"required":["a"],"additionalProperties":false`, `{"a":1}`, false, false},
		{`"required":["a"],"additionalProperties":{"type":"string"}`, `{"a":1}`, false, false},
		{`"required":["a"],"additionalProperties":{"type":"string"}`, `{"a":""}`, true, true},
		{`"required":["a","b"]`, `{"\u0061":1,"b":2}`, true, true},
		{`"properties":{"a":{"type":"string"}},"required":["a"]`, `{"a":1}`, false, false},
		{`"maxLength":2`, `"店\u5e97"`, true, true},
		{`"minLength":2`, `"店"`, false, false},
		{`"uniqueItems":true`, `[]`, false, true},
		{`"items":[{"type":"string"}]`, `[1]`, false, false},
		{`"type":["string","null"],"minLength":1`, `null`, true, true},
		{`"type":"string","format":"date-time"`, `"2026-09-17T07:30:00.1234567890Z"`, false, false},
		{`"type":"string","format":"date-time"`, `"2026-09-17T07:30:00.Z"`, false, false},
		{`"type":"string","format":"date-time"`, `"2026-09-17T07:30:00.123456789-08:00"`, true, true},
		{`"type":"string","format":"date-time"`, `"2026-09-17T07:30:00"`, false, false},
	} {
		s, err := schema.Compile("edge", []byte(`{"$schema":"http://json-schema.org/draft-07/schema#",`+c.schema+`}`))
		if err != nil {
			t.Fatal(err)
		}
		doc, err := protocol.ScanDocument([]byte(c.doc), 1000)
		if err != nil {
			t.Fatal(err)
		}
		if sure, refusal := s.Sure(doc), s.Ask(doc); sure != c.sure || (refusal == nil) != c.valid {
			t.Errorf("%s by %s: sure %t, the library: %v", c.doc, c.schema, sure, refusal)
		}
	}
}

func TestNoDocumentIsNoValidDocument(t *testing.T) {
	t.Parallel()
	s, err := schema.Compile("anything", []byte(`{"$schema":"http://json-schema.org/draft-07/schema#"}`))
	if err != nil {
		t.Fatal(err)
	}
	var refusal *protocol.Error
	if err := s.ValidateScanned(protocol.Document{}); !errors.As(err, &refusal) || refusal.Code != protocol.CodeEmptyPayload {
		t.Errorf("got %v", err)
	}
}

// TestShippedExamplesNeedNoSecondLook keeps what is received all day off the slow way.
func TestShippedExamplesNeedNoSecondLook(t *testing.T) {
	t.Parallel()
	s := compileShipped(t, "collect_log_output")
	files, err := filepath.Glob(shippedFolder + "examples/collect_log_output/valid-*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no examples", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := protocol.ScanDocument(text, protocol.MaxPayloadBytes)
		if err != nil || !s.Sure(doc) {
			t.Errorf("not sure of %s: %v", file, err)
		}
	}
}

var (
	memberNames = rapid.SampledFrom([]string{"a", "b", "c", "店", "x y", `q"`})
	numbers     = rapid.SampledFrom([]string{"0", "1", "-1", "2", "3", "-0", "1.0", "0.5", "2e0", "1e2", "9007199254740993", "9007199254740992",
		"123456789012345678901234567890", "-1.5", "1e308", "0.1", "0.1000000000000000055"})
	texts = rapid.SampledFrom([]string{"", "a", "ab", "abc", "店", "店店", "a\n", `"`, "2026-09-17", "2026-09-17T07:30:00Z", "2026-02-30T07:30:00Z",
		"2026-09-17T07:30:00.123+08:00", "2026-09-17T07:30:00+0800", "\U0001f600", "1"})
)

// scalars are literals of JSON.
func scalars() *rapid.Generator[string] {
	return rapid.OneOf(numbers, rapid.SampledFrom([]string{"true", "false", "null"}), rapid.Custom(quoted))
}

// quoted writes a text with escapes or without.
func quoted(t *rapid.T) string {
	doc, _ := json.Marshal(texts.Draw(t, "text"))
	if rapid.Bool().Draw(t, "escape") {
		return strings.ReplaceAll(string(doc), "a", `\u0061`)
	}
	return string(doc)
}

// values are documents of JSON, as they are written.
func values(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		kind := rapid.SampledFrom([]string{"scalar", "list", "object", "object"}).Draw(t, "kind")
		if depth == 0 || kind == "scalar" {
			return scalars().Draw(t, "scalar")
		}
		parts := make([]string, rapid.IntRange(0, 4).Draw(t, "size"))
		for i := range parts {
			if kind == "object" {
				name, _ := json.Marshal(memberNames.Draw(t, "name"))
				parts[i] = string(name) + " : "
			}
			parts[i] += values(depth-1).Draw(t, "part")
		}
		if kind == "list" {
			return "[ " + strings.Join(parts, ", ") + "]"
		}
		return "{" + strings.Join(parts, ",\n") + " }"
	})
}

// shapes are schemas of draft-07, true and false included. Some do not compile.
func shapes(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		if rapid.IntRange(0, 15).Draw(t, "plain") == 0 {
			return rapid.Bool().Draw(t, "verdict")
		}
		if depth < 3 && rapid.IntRange(0, 9).Draw(t, "reference") == 0 {
			return map[string]any{"$ref": rapid.SampledFrom([]string{"#/definitions/a~1b", "#/definitions/c", "#/definitions/a%7E1b"}).Draw(t, "place")}
		}
		out := map[string]any{}
		for range rapid.IntRange(0, 3).Draw(t, "keywords") {
			addKeyword(t, out, depth)
		}
		return out
	})
}

func addKeyword(t *rapid.T, out map[string]any, depth int) {
	small := func() json.Number {
		return json.Number(rapid.SampledFrom([]string{"0", "1", "2", "2.0", "3"}).Draw(t, "bound"))
	}
	list := func(n int) []any {
		list := make([]any, n)
		for i := range list {
			list[i] = shapes(depth-1).Draw(t, "part")
		}
		return list
	}
	keyword := rapid.SampledFrom([]string{"type", "type", "types", "enum", "const", "minLength", "maxLength", "minItems", "maxItems", "minProperties",
		"maxProperties", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "required", "uniqueItems", "multipleOf",
		"properties", "properties", "items", "list", "additionalProperties", "patternProperties", "propertyNames", "allOf", "anyOf", "oneOf", "not",
		"contains", "if", "dependencies"}).Draw(t, "keyword")
	types := rapid.SampledFrom([]string{"object", "array", "string", "number", "integer", "boolean", "null"})
	switch keyword {
	case "type":
		out["type"] = types.Draw(t, "type")
	case "types":
		out["type"] = rapid.SliceOfNDistinct(types, 1, 3, rapid.ID[string]).Draw(t, "types")
	case "enum":
		out["enum"] = rapid.Map(rapid.SliceOfNDistinct(values(1), 1, 4, rapid.ID[string]), raw).Draw(t, "enum")
	case "const":
		out["const"] = json.RawMessage(values(1).Draw(t, "const"))
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
		out[keyword] = small()
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
		out[keyword] = json.Number(numbers.Draw(t, "bound"))
	case "multipleOf":
		out[keyword] = json.Number(rapid.SampledFrom([]string{"1", "2", "0.1"}).Draw(t, "of"))
	case "pattern":
		out[keyword] = rapid.SampledFrom([]string{"a", "^a?$", "^..$", "^店+$", `\n`, "^[0-9-]+$"}).Draw(t, "pattern")
	case "format":
		out["format"], out["type"] = rapid.SampledFrom([]string{"date-time", "date-time", "date", "email", "ipv4", "uuid"}).Draw(t, "format"), "string"
	case "required":
		out[keyword] = rapid.SliceOfNDistinct(memberNames, 0, 3, rapid.ID[string]).Draw(t, "required")
	case "uniqueItems":
		out[keyword] = rapid.Bool().Draw(t, "unique")
	}
	if depth == 0 {
		return
	}
	switch keyword {
	case "properties", "patternProperties":
		out[keyword] = rapid.MapOfN(memberNames, shapes(depth-1), 0, 3).Draw(t, "members")
	case "items", "additionalProperties", "propertyNames", "not", "contains":
		out[keyword] = shapes(depth-1).Draw(t, "part")
	case "list":
		out["items"], out["additionalItems"] = list(2), shapes(depth-1).Draw(t, "rest")
	case "allOf", "anyOf", "oneOf":
		out[keyword] = list(rapid.IntRange(1, 2).Draw(t, "parts"))
	case "if":
		out["if"], out["then"], out["else"] = shapes(depth-1).Draw(t, "if"), shapes(depth-1).Draw(t, "then"), shapes(depth-1).Draw(t, "else")
	case "dependencies":
		out[keyword] = map[string]any{"a": []string{"b"}, "b": shapes(depth-1).Draw(t, "part")}
	}
}

func raw(list []string) []json.RawMessage {
	out := make([]json.RawMessage, len(list))
	for i, doc := range list {
		out[i] = json.RawMessage(doc)
	}
	return out
}
