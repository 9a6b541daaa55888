// Package settings reads YAML configuration files the strict way that every
// program of the house shares: an unknown key, a wrong type, a missing unit or a
// value out of range is refused, naming file, line and key.
//
// It knows no program and no key; a program owns its structures and defaults.
package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"muster/internal/files"
)

// maxFileBytes bounds a configuration file: real ones are a few KiB.
const maxFileBytes = 8 << 20

// File is a decoded configuration file. It remembers where each key stands, so
// that later checks can name the line.
type File struct {
	name   string
	source []byte
	tree   *ast.File
	over   map[string]string // by key: what put another value over the file's
}

// Load reads the file at path into dst, a pointer to a struct with yaml tags
// that already holds the defaults. Durations need a unit ("30s"). The error
// names file, line and key. A file that holds no setting is refused: it was most
// likely cut off.
func Load(path string, dst any) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read configuration: %w", files.Mended(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read configuration: %w", files.Mended(err))
	}
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("cannot read configuration %s: larger than %d bytes", path, maxFileBytes)
	}
	file, err := Decode(path, data, dst)
	if err == nil && said(file.tree) == nil {
		return nil, cutOff(path)
	}
	return file, err
}

// CheckSaid refuses what a configuration file holds when that is no setting: it was most
// likely cut off. What is no YAML it leaves to who reads it.
func CheckSaid(path string, data []byte) error {
	if tree, err := parser.ParseBytes(bytes.TrimPrefix(data, bom), 0); err == nil && said(tree) == nil {
		return cutOff(path)
	}
	return nil
}

func cutOff(path string) error {
	return fmt.Errorf("%s: holds no setting, as a file that was cut off, and every default would count: put the file back, or write one key, such as log: {level: info}", path)
}

// bom is the byte order mark of UTF-8, with which some editors begin a file.
var bom = []byte("\xef\xbb\xbf")

// Decode is Load for bytes that are already read; name stands in errors.
func Decode(name string, data []byte, dst any) (*File, error) {
	data = bytes.TrimPrefix(data, bom)
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		return nil, fmt.Errorf("%s: is not UTF-8; save it as UTF-8", name)
	}
	if line := secondDocument(data); line > 0 {
		return nil, fmt.Errorf("%s:%d: a second document begins here; write one", name, line)
	}
	tree, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, located(name, data, err)
	}
	file := &File{name: name, source: data, tree: tree}
	body := said(tree)
	if body == nil {
		return file, nil // the library would wipe the defaults
	}
	// Our own check comes first: the library does not say where a duration
	// lacks its unit.
	if err := file.checkTypes(dst); err != nil {
		return nil, err
	}
	if err := yaml.NodeToValue(body, dst, yaml.Strict()); err != nil {
		return nil, located(name, data, err)
	}
	return file, nil
}

// secondDocument returns the line at which a second YAML document begins, 0 when
// there is none. Nobody would read it, and the library loses even the first one
// when nothing stands between two markers. A marker at the start of a line is
// one wherever it stands (YAML 1.2.2, section 9.1.2).
func secondDocument(data []byte) int {
	began, ended := false, false
	number := 0
	for line := range bytes.Lines(data) {
		number++
		text := bytes.TrimRight(line, " \t\r\n")
		switch {
		case len(bytes.TrimLeft(text, " \t")) == 0, bytes.TrimLeft(text, " \t")[0] == '#', !began && text[0] == '%':
		case isMarker(text, "..."):
			ended = began
		case ended, began && isMarker(text, "---"):
			return number
		default:
			began = true
		}
	}
	return 0
}

// isMarker tells whether a line without its end opens with a document marker.
func isMarker(line []byte, marker string) bool {
	rest, found := bytes.CutPrefix(line, []byte(marker))
	return found && (len(rest) == 0 || rest[0] == ' ' || rest[0] == '\t')
}

// said is what the one document that holds a setting says, nil when there is none.
func said(tree *ast.File) ast.Node {
	for _, doc := range tree.Docs {
		switch doc.Body.(type) {
		case nil, *ast.NullNode, *ast.CommentGroupNode, *ast.DirectiveNode:
		default:
			return doc.Body
		}
	}
	return nil
}

// Errorf returns an error about the key at a YAML path such as
// "$.admission.max_running", naming file, line and key, with a caret under the
// value. A key that is absent (its default is at fault, or it is required) is
// named without a line, one that environment or command line gave by these. The
// format may wrap an error (%w).
func (f *File) Errorf(path, format string, args ...any) error {
	key := strings.TrimPrefix(path, "$.")
	fault := fmt.Errorf(format, args...)
	if from := f.overlaid(key); from != "" {
		return fmt.Errorf("%s: %s: %w", from, key, fault)
	}
	if at := f.position(path); at != nil {
		return fmt.Errorf("%s:%d: %s: %w%s", f.name, at.Line, key, fault, quoted(f.source, at.Line, at.Column))
	}
	return fmt.Errorf("%s: %s: %w", f.name, key, fault)
}

// CheckPlain refuses a key of the configuration that names a file, and what stands there
// is none; see files.CheckPlain. Such keys end in _file.
func (f *File) CheckPlain(config any) error {
	for _, key := range Keys(config) {
		path, isText := key.value.Interface().(string)
		if !isText || path == "" || !strings.HasSuffix(key.Name, "_file") {
			continue
		}
		if err := files.CheckPlain(path); err != nil {
			return f.Errorf("$."+key.Name, "%w", err)
		}
	}
	return nil
}

// Given says whether a key, such as admission.max_running, stands in the file or
// was put over it.
func (f *File) Given(key string) bool { return f.overlaid(key) != "" || f.position("$."+key) != nil }

// position is where the value at a path stands, nil when it is absent.
func (f *File) position(path string) *token.Position {
	if f.tree == nil {
		return nil
	}
	p, err := yaml.PathString(path)
	if err != nil {
		return nil
	}
	node, err := p.FilterFile(f.tree)
	if err != nil || node == nil || node.GetToken() == nil {
		return nil
	}
	return node.GetToken().Position
}

func located(name string, source []byte, err error) error {
	var at yaml.Error
	if errors.As(err, &at) && at.GetToken() != nil {
		position := at.GetToken().Position
		return fmt.Errorf("%s:%d: %s%s", name, position.Line, at.GetMessage(), quoted(source, position.Line, position.Column))
	}
	return fmt.Errorf("%s: %s", name, yaml.FormatError(err, false, false))
}

// Resolve returns path as it stands when absolute or empty, and relative to
// the folder of the configuration file otherwise.
func Resolve(configPath, path string) string {
	if path == "" || filepath.IsAbs(path) || configPath == "" {
		return path
	}
	return filepath.Join(filepath.Dir(configPath), path)
}

// Absolute is a path as it means the same in every folder; "" stays.
func Absolute(path string) string {
	if whole, err := filepath.Abs(path); path != "" && err == nil { // else the folder where the program runs is gone
		return whole
	}
	return path
}
