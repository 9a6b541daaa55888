// Package schema compiles JSON Schemas of draft-07 and checks documents
// against them, so that neither a hostile document nor a careless schema can
// end the process, burn it, or make it read a file or an address.
//
// What is sound by its bytes alone needs no more; the library judges all else, and words
// what it refuses. Both go by the same schema, and must never disagree.
//
// It knows no job and no message and keeps no state. A number is compared with
// enum and const as a float64; everything else keeps its exact value.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/xeipuuv/gojsonreference"
	"github.com/xeipuuv/gojsonschema"

	"muster/internal/protocol"
)

// maxSchemaBytes bounds one schema file; real ones stay below 30 KiB.
const maxSchemaBytes = 1 << 20

// Schema is a compiled schema. It is safe for concurrent use; make it with
// Compile.
type Schema struct {
	root    any                 // as the library has it
	samples map[string][]string // what fits a pattern, as people are told

	name     string
	compiled *gojsonschema.Schema
	names    []string // of the members that it names in the document's own object
	members  []string // the same where it allows no others, or nil
	sure     *sure    // asked first
}

// Compile checks and compiles a schema document; name is said in errors.
//
// It refuses: any $schema but draft-07 (and none), an $id below the root,
// unknown keywords and formats, a format without "type":"string", a $ref that
// leaves the document, misses or has checks beside it, and recursion of any
// kind, because a loop of references ends the process.
func Compile(name string, doc []byte) (s *Schema, err error) {
	defer func() {
		if r := recover(); r != nil {
			s, err = nil, fmt.Errorf("cannot compile schema %s: it breaks the compiler: %v", name, r)
		}
	}()
	clean, err := protocol.Scan(doc, maxSchemaBytes)
	if err != nil {
		return nil, fmt.Errorf("cannot compile schema %s: %w", name, err)
	}
	root, err := decode(clean)
	if err != nil {
		return nil, fmt.Errorf("cannot compile schema %s: %w", name, err)
	}
	samples, err := inspect(root)
	if err != nil {
		return nil, fmt.Errorf("cannot compile schema %s: %w", name, err)
	}
	// The library lets a bare time or date pass as date-time. Adding the same
	// checker again is harmless and safe for concurrent use.
	gojsonschema.FormatCheckers.Add("date-time", dateTime{})
	loader := gojsonschema.NewSchemaLoader()
	loader.AutoDetect = false
	loader.Draft = gojsonschema.Draft7
	compiled, err := loader.Compile(sealedLoader{root})
	if err != nil {
		return nil, fmt.Errorf("cannot compile schema %s: %w", name, err)
	}
	return &Schema{name: name, compiled: compiled, names: namesOf(root), members: membersOf(root), sure: reduce(root), root: root, samples: samples}, nil
}

// Name returns the name given to Compile.
func (s *Schema) Name() string { return s.name }

// Validate checks one document of at most protocol.MaxPayloadBytes. It returns
// nil or a *protocol.Error: one of the codes of protocol.Scan, or SCHEMA with
// Path as the JSON Pointer of the first fault and Message as at most 20 sorted
// lines "pointer: reason".
func (s *Schema) Validate(doc []byte) error {
	clean, err := protocol.ScanDocument(doc, protocol.MaxPayloadBytes)
	if err != nil {
		return err
	}
	return s.validate(clean)
}

// ValidateScanned is Validate for a document that was scanned before.
func (s *Schema) ValidateScanned(doc protocol.Document) error {
	if len(doc.Bytes()) == 0 || len(doc.Bytes()) > protocol.MaxPayloadBytes {
		return s.Validate(doc.Bytes())
	}
	return s.validate(doc)
}

func (s *Schema) validate(doc protocol.Document) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = s.refusal([]fault{{reason: "cannot be checked against the schema", reasonZh: "无法按格式要求检查"}})
		}
	}()
	if c := protocol.NewCursor(doc.Bytes()); s.sure.admits(&c) {
		return nil
	}
	return s.ask(doc.Bytes())
}

// ask has the library judge a document, and words what it finds.
func (s *Schema) ask(clean []byte) error {
	value, err := decode(clean)
	if err != nil {
		return s.refusal([]fault{{reason: "cannot be read", reasonZh: "无法读取"}})
	}
	if list := s.strangers(value); len(list) > maxLines { // the library would word each
		return s.refusal(list)
	}
	result, err := s.compiled.Validate(gojsonschema.NewRawLoader(value))
	if err != nil {
		return s.refusal([]fault{{reason: "cannot be checked against the schema", reasonZh: "无法按格式要求检查"}})
	}
	if result.Valid() {
		return nil
	}
	return s.refusal(s.faults(result.Errors()))
}

// membersOf lists the members that a schema allows at its root, in order; nil where it
// allows any.
func membersOf(root any) []string {
	object, _ := root.(map[string]any)
	if closed, _ := object["additionalProperties"].(bool); closed || object["additionalProperties"] == nil || object["patternProperties"] != nil {
		return nil
	}
	return namesOf(root)
}

// namesOf lists the members that a schema names at its root, in order.
func namesOf(root any) []string {
	object, _ := root.(map[string]any)
	properties, _ := object["properties"].(map[string]any)
	return slices.Sorted(maps.Keys(properties))
}

func decode(clean []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(clean))
	dec.UseNumber()
	var value any
	if err := dec.Decode(&value); err != nil {
		return nil, fmt.Errorf("cannot decode: %w", err)
	}
	return value, nil
}

// errSealed is what a reference out of the document meets, should inspect
// ever let one pass.
var errSealed = errors.New("references out of the document are not followed")

// sealedLoader hands one document to the library and can load no other.
type sealedLoader struct{ doc any }

func (l sealedLoader) JsonSource() any { return l.doc } //nolint:revive // the library's spelling

func (l sealedLoader) LoadJSON() (any, error) {
	if l.doc == nil {
		return nil, errSealed
	}
	return l.doc, nil
}

func (l sealedLoader) JsonReference() (gojsonreference.JsonReference, error) { //nolint:revive // the library's spelling
	return gojsonreference.NewJsonReference("#")
}

func (l sealedLoader) LoaderFactory() gojsonschema.JSONLoaderFactory { return sealedFactory{} }

type sealedFactory struct{}

func (sealedFactory) New(string) gojsonschema.JSONLoader { return sealedLoader{} }
