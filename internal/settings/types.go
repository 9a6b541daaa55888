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
			return nil
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
	}
	return nil
}

func (f *File) checkScalar(node ast.Node, t reflect.Type, path string) error {
	kind, want := node.Type(), ""
	switch {
	case t == reflect.TypeFor[time.Duration]():
		if text, ok := node.(*ast.StringNode); !ok || !isDuration(text.Value) {
			want = "a duration with its unit, such as 45s"
		}
	case t.Kind() == reflect.String:
		switch {
		case kind != ast.StringType && kind != ast.LiteralType:
			want = "a text, in quotes"
		case strings.Contains(textOf(node), redact.Mark):
			want = "the secret itself, or go: " + redact.Mark + " is what is shown in its place"
		}
	case t.Kind() == reflect.Bool:
		if kind != ast.BoolType {
			want = "true or false"
		}
	case t.Kind() == reflect.Float64:
		if kind != ast.IntegerType && kind != ast.FloatType && kind != ast.NanType && kind != ast.InfinityType {
			want = "a number"
		}
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64:
		if kind != ast.IntegerType {
			want = "a whole number"
		}
	}
	if want == "" {
		return nil
	}
	at := node.GetToken().Position
	return fmt.Errorf("%s:%d: %s: must be %s%s", f.name, at.Line, strings.TrimPrefix(strings.TrimPrefix(path, "$"), "."), want, quoted(f.source, at.Line, at.Column))
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
