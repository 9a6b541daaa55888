package schema

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/xeipuuv/gojsonschema"

	"muster/internal/protocol"
)

// maxFitting bounds the faults of a document for which it is looked up what would fit: a
// document with more was made to cost time.
const maxFitting = 200

// fitting words what would fit, as the schema has it and the library does not tell; "" if
// that is no more than what the library tells. e is one of so many faults.
func (s *Schema) fitting(e gojsonschema.ResultError, of int) (en, zh string) {
	switch {
	case of > maxFitting:
	case e.Type() == "number_any_of":
		return s.formsOf(e)
	case e.Type() == "pattern":
		pattern := shown(e.Details()["pattern"])
		if like := s.samples[pattern]; like != nil {
			return fmt.Sprintf("must look like %s (%s)", clip(strings.Join(like, " or ")), clip(pattern)),
				fmt.Sprintf("格式应如 %s（%s）", clip(strings.Join(like, "、")), clip(pattern))
		}
	}
	return "", ""
}

// formsOf words all the forms that anyOf allows a value, of which the library tells but
// one. It returns "" where one of them is more than a word, a list of words or a format.
func (s *Schema) formsOf(e gojsonschema.ResultError) (en, zh string) {
	var found []any
	levels := strings.Split(e.Context().String(separator), separator)
	for _, object := range applied(s.root, s.root, levels[1:]) {
		if forms, isList := object["anyOf"].([]any); isList && found == nil {
			found = forms
		} else if isList {
			return "", "" // which of the two is not said
		}
	}
	if found == nil {
		return "", ""
	}
	value, err := protocol.Encode(e.Value())
	if c := protocol.NewCursor(value); err != nil || (&reducer{s.root, map[string]*sure{}}).schema(map[string]any{"anyOf": found}).admits(&c) {
		return "", "" // it is another one that the value fits none of, behind an if for example
	}
	var all, allZh []string
	for _, form := range found {
		word, wordZh := formOf(form)
		if word == "" {
			return "", ""
		}
		all, allZh = append(all, word), append(allZh, wordZh)
	}
	return "must be " + clip(strings.Join(all, ", or ")), "应为" + clip(strings.Join(allZh, "，或"))
}

func formOf(form any) (en, zh string) {
	object, _ := form.(map[string]any)
	checks := len(object)
	if object["type"] == "string" {
		checks--
	}
	if checks != 1 {
		return "", ""
	}
	list, _ := object["enum"].([]any)
	if value, has := object["const"]; has {
		list = []any{value}
	}
	var words []string
	for _, value := range list {
		word, err := protocol.Encode(value)
		if err != nil {
			return "", ""
		}
		words = append(words, string(word))
	}
	if words != nil {
		return strings.Join(words, " or "), " " + strings.Join(words, "、")
	}
	if format, has := object["format"].(string); has {
		return formatWords(format)
	}
	return "", ""
}

// formatWords names a format with what one looks like.
func formatWords(format string) (en, zh string) {
	var name, like string
	switch format {
	case "date":
		name, like = "日期", "2026-09-17"
	case "date-time":
		name, like = "时间", "2026-09-17T08:15:00+08:00"
	case "email":
		name, like = "邮箱地址", "wang@example.com"
	case "hostname":
		name, like = "主机名", "hq.example.com"
	case "ipv4":
		name, like = " IPv4 地址", "192.0.2.1"
	case "ipv6":
		name, like = " IPv6 地址", "2001:db8::1"
	case "json-pointer":
		name, like = " JSON Pointer", "/files/0"
	case "regex":
		name, like = "正则表达式", "^[a-z]+$"
	case "uri":
		name, like = " URI", "https://example.com/a"
	case "uuid":
		name, like = " UUID", "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"
	}
	return "a valid " + format + " such as " + like, "有效的" + name + "，例如 " + like
}

// applied are the parts of a schema that judge the value at the path, as far as they do
// whatever else the document holds.
func applied(root, schema any, path []string) (found []map[string]any) {
	object, _ := schema.(map[string]any)
	if ref, has := object["$ref"].(string); has {
		return applied(root, referred(root, ref), path)
	}
	if object == nil {
		return nil
	}
	if len(path) == 0 {
		found = append(found, object)
	}
	all, _ := object["allOf"].([]any)
	for _, part := range all {
		found = append(found, applied(root, part, path)...)
	}
	if len(path) == 0 {
		return found
	}
	members, _ := object["properties"].(map[string]any)
	if member, named := members[path[0]]; named {
		return append(found, applied(root, member, path[1:])...)
	}
	if _, err := strconv.Atoi(path[0]); err == nil {
		found = append(found, applied(root, object["items"], path[1:])...)
	}
	if object["patternProperties"] != nil {
		return found
	}
	return append(found, applied(root, object["additionalProperties"], path[1:])...)
}

// referred is the schema that a $ref names, nil if there is none.
func referred(root any, ref string) any {
	pointer, err := url.PathUnescape(strings.TrimPrefix(ref, "#"))
	if err != nil {
		return nil
	}
	at := root
	if pointer == "" {
		return at
	}
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		step = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
		switch in := at.(type) {
		case map[string]any:
			at = in[step]
		case []any:
			at = nil
			if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(in) {
				at = in[i]
			}
		default:
			return nil
		}
	}
	return at
}
