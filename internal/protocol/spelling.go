package protocol

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"
)

// expect says what the frame's members or items are decoded into, a value of t being
// expected there: encoding/json would take a member whose name differs from a field's
// in case alone for that field. A type that decodes itself is left alone.
func (f *frame) expect(t reflect.Type) {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || !holdsStruct(t) || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return
	}
	switch kind := t.Kind(); {
	case kind == reflect.Struct && f.object:
		f.fields = fieldsOf(t)
	case kind == reflect.Map && f.object, kind != reflect.Map && kind != reflect.Struct && !f.object:
		f.inner = t.Elem()
	}
}

// holdsStruct reports whether a value of t can hold members with fixed names.
func holdsStruct(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Array || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct
}

// find returns the type of the member, nil when it is none of them; meant is the name
// of one that it differs from in case alone.
func (f *fields) find(name []byte) (t reflect.Type, meant string) {
	if t, known := f.byName[string(name)]; known {
		return t, ""
	}
	return nil, f.folded[fold(string(name))]
}

// fields are the members that a struct knows: their types by name, their names by
// folded name, and of those that are decoded as they are the field's number.
type fields struct {
	byName map[string]reflect.Type
	folded map[string]string
	direct map[string]int
}

var rawMessage = reflect.TypeFor[json.RawMessage]()

// numberedType is what SeqOf reads.
var numberedType = reflect.TypeFor[struct {
	Seq json.RawMessage `json:"seq"`
}]()

// fieldsByType remembers fieldsOf, which depends on the type alone.
var fieldsByType sync.Map

// fieldsOf lists the members of a struct, embedded ones included.
func fieldsOf(t reflect.Type) *fields {
	if known, ok := fieldsByType.Load(t); ok {
		if own, ok := known.(*fields); ok {
			return own
		}
	}
	own := &fields{byName: map[string]reflect.Type{}, folded: map[string]string{}, direct: map[string]int{}}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" || (f.Anonymous && name == "") {
			continue
		}
		if name == "" {
			name = f.Name
		}
		own.byName[name], own.folded[fold(name)] = f.Type, name
		if len(f.Index) == 1 && f.Type == rawMessage {
			own.direct[name] = f.Index[0]
		}
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
