package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// errForm is a document that this program does not read.
var errForm = errors.New("cannot be rendered")

// node is a mapping of YAML or JSON whose members keep their order. A nil one has none.
type node yaml.MapSlice

// decode reads JSON too, which is YAML.
func decode(text []byte) (node, error) {
	var doc any
	if err := yaml.UnmarshalWithOptions(text, &doc, yaml.UseOrderedMap()); err != nil {
		return nil, err
	}
	members, ok := doc.(yaml.MapSlice)
	if !ok {
		return nil, fmt.Errorf("%w: it is no mapping", errForm)
	}
	return node(members), nil
}

func (n node) get(name string) any {
	for _, member := range n {
		if member.Key == name {
			return member.Value
		}
	}
	return nil
}

func (n node) has(name string) bool { return n.get(name) != nil }

// child is a member that is a mapping itself, or nil.
func (n node) child(name string) node { return asNode(n.get(name)) }

func asNode(value any) node {
	members, _ := value.(yaml.MapSlice)
	return node(members)
}

// list is a member that is a list, or a single value as a list of one.
func (n node) list(name string) []any {
	switch value := n.get(name).(type) {
	case nil:
		return nil
	case []any:
		return value
	default:
		return []any{value}
	}
}

// text is a member as it is written in JSON, without the quotes of a string; "" if absent.
func (n node) text(name string) string { return plain(n.get(name)) }

func plain(value any) string {
	switch value := value.(type) {
	case nil:
		return ""
	case float64:
		return strconv.FormatFloat(value, 'f', -1, 64)
	default:
		return fmt.Sprint(value)
	}
}

// quoted is a value as JSON shows it.
func quoted(value any) string {
	if text, ok := value.(string); ok {
		return strconv.Quote(text)
	}
	return plain(value)
}

// resolve follows $ref inside the document root. What stands beside the reference, such as
// a description, counts before what stands at its end.
func (n node) resolve(root node) (node, error) {
	pointer, ok := n.get("$ref").(string)
	if !ok {
		return n, nil
	}
	target := root
	for name := range strings.SplitSeq(strings.TrimPrefix(pointer, "#/"), "/") {
		target = target.child(name)
	}
	if target == nil {
		return nil, fmt.Errorf("%w: %s is not there", errForm, pointer)
	}
	target, err := target.resolve(root)
	if err != nil {
		return nil, err
	}
	var merged node
	for _, member := range n {
		if member.Key != "$ref" {
			merged = append(merged, member)
		}
	}
	for _, member := range target {
		if name, _ := member.Key.(string); !merged.has(name) {
			merged = append(merged, member)
		}
	}
	return merged, nil
}
