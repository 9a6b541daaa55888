package settings

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"muster/internal/redact"
	"muster/internal/usage"
)

// checkTypes is stricter than the library, which takes 1.5 for a whole number
// and 7 for a text: an id such as 007 must be written in quotes.
func (f *File) checkTypes(dst any) error {
	for _, doc := range f.tree.Docs {
		if err := f.checkNode(doc.Body, reflect.TypeOf(dst), "$"); err != nil {
			return err
		}
	}
	return nil
}

func (f *File) checkNode(node ast.Node, t reflect.Type, path string) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch n := node.(type) {
	case nil, *ast.AliasNode, *ast.MergeKeyNode:
		return nil
	case *ast.NullNode: // a section may be empty; a value that is said must be one
		switch t.Kind() {
		case reflect.Struct, reflect.Map, reflect.Slice:
			return nil
		default:
			return f.checkScalar(node, t, path)
		}
	case *ast.AnchorNode:
		return f.checkNode(n.Value, t, path)
	case *ast.TagNode:
		return f.checkNode(n.Value, t, path)
	case *ast.MappingNode:
		if len(n.Values) == 0 && t.Kind() != reflect.Struct && t.Kind() != reflect.Map {
			return f.unlike(node, t, path)
		}
		for _, member := range n.Values {
			if err := f.checkMember(member, t, path); err != nil {
				return err
			}
		}
		return nil
	case *ast.MappingValueNode:
		return f.checkMember(n, t, path)
	case *ast.SequenceNode:
		if t.Kind() != reflect.Slice {
			return f.unlike(node, t, path)
		}
		for i, item := range n.Values {
			if err := f.checkNode(item, t.Elem(), fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
		return nil
	}
	return f.checkScalar(node, t, path)
}

func (f *File) checkMember(member *ast.MappingValueNode, t reflect.Type, path string) error {
	name := member.Key.String()
	text, isText := member.Key.(*ast.StringNode)
	if isText {
		name = text.Value
	}
	inner := path + "." + name
	switch t.Kind() {
	case reflect.Struct:
		var known []string
		for i := range t.NumField() {
			tag, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
			if tag == name {
				return f.checkNode(member.Value, t.Field(i).Type, inner)
			}
			known = append(known, tag)
		}
		if nearest := usage.Nearest(name, known); isText && nearest != "" { // else the library says it
			at := text.GetToken().Position
			return fmt.Errorf("%s:%d: unknown field %q; did you mean %q?%s", f.name, at.Line, name, nearest, quoted(f.source, at.Line, at.Column))
		}
	case reflect.Map:
		return f.checkNode(member.Value, t.Elem(), inner)
	default:
		return f.unlike(member.Key, t, path)
	}
	return nil
}

func (f *File) checkScalar(node ast.Node, t reflect.Type, path string) error {
	kind, like := node.Type(), true
	switch {
	case t == reflect.TypeFor[time.Duration]():
		text, ok := node.(*ast.StringNode)
		like = ok && isDuration(text.Value)
	case t.Kind() == reflect.String:
		like = kind == ast.StringType || kind == ast.LiteralType
		if strings.Contains(textOf(node), redact.Mark) {
			return f.must(node, path, "the secret itself, or go: "+redact.Mark+" is what is shown in its place")
		}
	case t.Kind() == reflect.Bool:
		like = kind == ast.BoolType
	case t.Kind() == reflect.Float64:
		like = kind == ast.IntegerType || kind == ast.FloatType || kind == ast.NanType || kind == ast.InfinityType
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64:
		like = kind == ast.IntegerType
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Map, t.Kind() == reflect.Struct:
		_, isScalar := node.(ast.ScalarNode)
		like = !isScalar // a comment and a directive are none
	}
	if like {
		return nil
	}
	return f.unlike(node, t, path)
}

// unlike is the error about a value that is of another kind than t, nil when t takes any.
func (f *File) unlike(node ast.Node, t reflect.Type, path string) error {
	kind := t.Kind()
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return f.must(node, path, "a duration with its unit, such as 45s")
	case kind == reflect.String:
		return f.must(node, path, "a text, in quotes")
	case kind == reflect.Bool:
		return f.must(node, path, "true or false")
	case kind == reflect.Float64:
		return f.must(node, path, "a number")
	case kind >= reflect.Int && kind <= reflect.Uint64:
		return f.must(node, path, "a whole number")
	case kind == reflect.Slice:
		return f.must(node, path, "a list, an item a line behind a -")
	case kind == reflect.Map, kind == reflect.Struct:
		return f.must(node, path, "keys with their values, such as key: value, a line each")
	}
	return nil
}

// must is the error that the value at a path must be something else.
func (f *File) must(node ast.Node, path, want string) error {
	at, key := node.GetToken().Position, strings.TrimPrefix(strings.TrimPrefix(path, "$"), ".")
	if key != "" {
		key += ": "
	}
	return fmt.Errorf("%s:%d: %smust be %s%s", f.name, at.Line, key, want, quoted(f.source, at.Line, at.Column))
}

// textOf is what a node that is a text says.
func textOf(node ast.Node) string {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value
	case *ast.LiteralNode:
		return n.Value.Value
	}
	return ""
}

// isDuration takes what Go takes, except for a 0 without unit.
func isDuration(text string) bool {
	_, err := time.ParseDuration(text)
	return err == nil && text != "0"
}
