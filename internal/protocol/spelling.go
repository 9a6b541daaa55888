package protocol

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// checkSpelling refuses members that encoding/json would take for a field of t
// although their case differs. It descends only into structs, lists and maps;
// a type that decodes itself is left alone.
func checkSpelling(doc []byte, t reflect.Type) error {
	return spelling(doc, t, "")
}

func spelling(doc []byte, t reflect.Type, path string) error {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil
	}
	switch t.Kind() {
	case reflect.Struct:
		return spellingOfMembers(doc, path, fieldsOf(t), nil)
	case reflect.Map:
		return spellingOfMembers(doc, path, fields{}, t.Elem())
	case reflect.Slice, reflect.Array:
		return spellingOfItems(doc, t.Elem(), path)
	default:
		return nil
	}
}

func spellingOfItems(doc []byte, item reflect.Type, path string) error {
	if !holdsStruct(item) {
		return nil
	}
	var items []json.RawMessage
	_ = json.Unmarshal(doc, &items) // the wrong type is found when the value is decoded
	for i, value := range items {
		if err := spelling(value, item, path+"/"+strconv.Itoa(i)); err != nil {
			return err
		}
	}
	return nil
}

func spellingOfMembers(doc []byte, path string, own fields, elem reflect.Type) error {
	if elem != nil && !holdsStruct(elem) {
		return nil
	}
	var members map[string]json.RawMessage
	_ = json.Unmarshal(doc, &members) // the wrong type is found when the value is decoded
	for name, value := range members {
		t := elem
		if elem == nil {
			known, isField := own.byName[name]
			if meant, near := own.folded[fold(name)]; !isField && near {
				return badJSON(path, "the member "+strconv.Quote(clip(name))+" must be spelled "+strconv.Quote(meant),
					"字段 "+strconv.Quote(clip(name))+" 应写作 "+strconv.Quote(meant), "names are case-sensitive")
			}
			t = known
		}
		if err := spelling(value, t, path+"/"+escapePointer(clip(name))); err != nil {
			return err
		}
	}
	return nil
}

// holdsStruct reports whether a value of t can hold members with fixed names.
func holdsStruct(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Array || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct
}

// fields are the members that a struct knows: their types by name, and their
// names by folded name.
type fields struct {
	byName map[string]reflect.Type
	folded map[string]string
}

// fieldsByType remembers fieldsOf, which depends on the type alone.
var fieldsByType sync.Map

// fieldsOf lists the members of a struct, embedded ones included.
func fieldsOf(t reflect.Type) fields {
	if known, ok := fieldsByType.Load(t); ok {
		if own, ok := known.(fields); ok {
			return own
		}
	}
	own := fields{byName: map[string]reflect.Type{}, folded: map[string]string{}}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" || (f.Anonymous && name == "") {
			continue
		}
		if name == "" {
			name = f.Name
		}
		own.byName[name], own.folded[fold(name)] = f.Type, name
	}
	fieldsByType.Store(t, own)
	return own
}

// pointerOf turns the way to a field of t, as encoding/json tells it, into a
// JSON Pointer: embedded structs, which stand in no document, are left out.
func pointerOf(way string, t reflect.Type) string {
	if way == "" {
		return ""
	}
	pointer := ""
	for step := range strings.SplitSeq(way, ".") {
		t = bare(t)
		if t != nil && t.Kind() == reflect.Struct {
			if member, known := fieldsOf(t).byName[step]; known {
				t = member
			} else if f, found := t.FieldByName(step); found && f.Anonymous {
				t = f.Type
				continue
			}
		}
		pointer += "/" + escapePointer(step)
	}
	return pointer
}

// bare is what a list, a map or a pointer holds.
func bare(t reflect.Type) reflect.Type {
	for t != nil && (t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Array || t.Kind() == reflect.Map) {
		t = t.Elem()
	}
	return t
}
