package schema

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
)

const (
	draft07 = "http://json-schema.org/draft-07/schema"
	// maxExpanded bounds the schema with every $ref written out: nested
	// definitions that each use the next one twice grow without bound.
	maxExpanded = 20_000
)

// shape says what stands under a keyword.
type shape int

const (
	unknown    shape = iota
	note             // an annotation: no check, and nothing inside is a schema
	check            // a check without schemas inside
	rootOnly         // $schema and $id
	one              // a schema
	list             // a list of schemas
	oneOrList        // items
	named            // a map of schemas
	definition       // a map of schemas that apply only through $ref
	dependency       // a map of schemas or lists of names
	reference        // $ref
)

func shapeOf(keyword string) shape {
	switch keyword {
	case "title", "description", "$comment", "default", "examples", "readOnly", "writeOnly",
		"contentMediaType", "contentEncoding":
		return note
	case "type", "enum", "const", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
		"minLength", "maxLength", "pattern", "format", "minItems", "maxItems", "uniqueItems",
		"minProperties", "maxProperties", "required":
		return check
	case "$schema", "$id":
		return rootOnly
	case "additionalProperties", "additionalItems", "propertyNames", "contains", "not", "if", "then", "else":
		return one
	case "allOf", "anyOf", "oneOf":
		return list
	case "items":
		return oneOrList
	case "properties", "patternProperties":
		return named
	case "definitions":
		return definition
	case "dependencies":
		return dependency
	case "$ref":
		return reference
	}
	return unknown
}

// inspector walks a schema once and keeps, for each place that holds a schema,
// the places that are applied when it is.
type inspector struct {
	uses map[string][]string
	refs map[string]string   // place of a $ref -> where it points
	like map[string][]string // a pattern -> the examples beside it
}

// inspect checks the schema and takes out of it what the library would
// misread: $id moves the base of references, and a default or an example may
// hold something that looks like a schema. It returns the examples that stand beside a
// pattern, by the pattern.
func inspect(root any) (samples map[string][]string, err error) {
	in := &inspector{uses: map[string][]string{}, refs: map[string]string{}, like: map[string][]string{}}
	object, ok := root.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("a schema file must be an object")
	}
	version, _ := object["$schema"].(string)
	if strings.TrimSuffix(version, "#") != draft07 {
		return nil, fmt.Errorf("/$schema: must be %q", draft07+"#")
	}
	if err := in.schema(root, "", true); err != nil {
		return nil, err
	}
	places := make([]string, 0, len(in.refs))
	for place := range in.refs {
		places = append(places, place)
	}
	sort.Strings(places)
	for _, place := range places {
		target := in.refs[place]
		if _, ok := in.uses[target]; !ok {
			return nil, fmt.Errorf("%s/$ref: no schema stands at #%s", place, target)
		}
		in.uses[place] = append(in.uses[place], target)
	}
	_, err = in.expand("", map[string]int{})
	return in.like, err
}

func (in *inspector) schema(value any, place string, root bool) error {
	if _, ok := value.(bool); ok {
		in.uses[place] = nil
		return nil
	}
	object, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: must be a schema (an object, true or false)", place)
	}
	in.uses[place] = nil
	keywords := make([]string, 0, len(object))
	for keyword := range object {
		keywords = append(keywords, keyword)
	}
	sort.Strings(keywords)
	for _, keyword := range keywords {
		if err := in.keyword(object, keyword, place, root); err != nil {
			return err
		}
	}
	return checkFormat(object, place)
}

func (in *inspector) keyword(object map[string]any, keyword, place string, root bool) error {
	value, at := object[keyword], place+"/"+escape(keyword)
	switch shapeOf(keyword) {
	case note:
		delete(object, keyword)
		if keyword == "examples" {
			return in.examples(object["pattern"], value, at)
		}
	case check:
	case rootOnly:
		if !root {
			return fmt.Errorf("%s: may stand at the root alone", at)
		}
		delete(object, keyword)
	case reference:
		return in.reference(object, place)
	case one:
		return in.child(value, place, at)
	case list:
		return in.list(value, place, at)
	case oneOrList:
		if _, ok := value.([]any); ok {
			return in.list(value, place, at)
		}
		return in.child(value, place, at)
	case named, definition, dependency:
		return in.named(value, place, at, shapeOf(keyword))
	case unknown:
		return fmt.Errorf("%s: is no keyword of draft-07", at)
	}
	return nil
}

// examples keeps the texts that stand beside a pattern. One that does not fit it would
// send people astray.
func (in *inspector) examples(beside, value any, at string) error {
	source, has := beside.(string)
	pattern, err := regexp.Compile(source)
	list, _ := value.([]any)
	if !has || err != nil { // of a bad one the library says why
		list = nil
	}
	for i, one := range list {
		text, isText := one.(string)
		if isText && !pattern.MatchString(text) {
			return fmt.Errorf("%s/%d: does not fit the pattern %s", at, i, source)
		}
		if isText && !slices.Contains(in.like[source], text) {
			in.like[source] = append(in.like[source], text)
		}
	}
	return nil
}

func (in *inspector) child(value any, place, at string) error {
	in.uses[place] = append(in.uses[place], at)
	return in.schema(value, at, false)
}

func (in *inspector) list(value any, place, at string) error {
	items, ok := value.([]any)
	if !ok || len(items) == 0 {
		return fmt.Errorf("%s: must be a list of schemas", at)
	}
	for i, item := range items {
		if err := in.child(item, place, at+"/"+strconv.Itoa(i)); err != nil {
			return err
		}
	}
	return nil
}

func (in *inspector) named(value any, place, at string, kind shape) error {
	members, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: must be an object", at)
	}
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		here := at + "/" + escape(name)
		if _, isList := members[name].([]any); isList && kind == dependency {
			continue
		}
		if kind != definition {
			in.uses[place] = append(in.uses[place], here)
		}
		if err := in.schema(members[name], here, false); err != nil {
			return err
		}
	}
	return nil
}

// reference notes where a $ref points. What stands beside a $ref is ignored
// in draft-07, so a check there would be a silent hole.
func (in *inspector) reference(object map[string]any, place string) error {
	ref, ok := object["$ref"].(string)
	if !ok || !strings.HasPrefix(ref, "#") {
		return fmt.Errorf("%s/$ref: must start with #; other documents are not read", place)
	}
	for keyword := range object {
		if kind := shapeOf(keyword); kind != note && kind != reference && kind != definition && kind != rootOnly {
			return fmt.Errorf("%s: %s beside $ref would be ignored; use allOf", place, keyword)
		}
	}
	target, err := url.PathUnescape(ref[1:])
	if err != nil || (target != "" && !strings.HasPrefix(target, "/")) {
		return fmt.Errorf("%s/$ref: %q is no JSON Pointer", place, ref)
	}
	in.refs[place] = target
	return nil
}

// expand counts the schema at place with every $ref written out, and fails on
// a loop. done holds finished counts; 0 marks a place that is being counted.
func (in *inspector) expand(place string, done map[string]int) (int, error) {
	if size, seen := done[place]; seen {
		if size == 0 {
			return 0, fmt.Errorf("%s: refers to itself", orRoot(place))
		}
		return size, nil
	}
	done[place] = 0
	size := 1
	for _, used := range in.uses[place] {
		more, err := in.expand(used, done)
		if err != nil {
			return 0, err
		}
		if size += more; size > maxExpanded {
			return 0, fmt.Errorf("%s: has more than %d parts with every $ref written out", orRoot(place), maxExpanded)
		}
	}
	done[place] = size
	return size, nil
}

// checkFormat refuses formats that nobody checks, and a format that a number
// would slip past.
func checkFormat(object map[string]any, place string) error {
	value, has := object["format"]
	if !has {
		return nil
	}
	format, _ := value.(string)
	if !slices.Contains(formats(), format) {
		return fmt.Errorf("%s/format: %q is not checked; known are %s", place, format, strings.Join(formats(), ", "))
	}
	if object["type"] != "string" {
		return fmt.Errorf(`%s/format: needs "type":"string" beside it`, place)
	}
	return nil
}

func formats() []string {
	return []string{"date", "date-time", "email", "hostname", "ipv4", "ipv6", "json-pointer", "regex", "uri", "uuid"}
}

func orRoot(place string) string {
	if place == "" {
		return "the schema"
	}
	return place
}

func escape(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
