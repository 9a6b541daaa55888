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

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxFileBytes bounds a configuration file: real ones are a few KiB.
const maxFileBytes = 8 << 20

// File is a decoded configuration file. It remembers where each key stands, so
// that later checks can name the line.
type File struct {
	name string
	tree *ast.File
}

// Load reads the file at path into dst, a pointer to a struct with yaml tags
// that already holds the defaults. Durations need a unit ("30s"). The error
// names file, line and key.
func Load(path string, dst any) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read configuration %s: %w", path, err)
	}
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("cannot read configuration %s: larger than %d bytes", path, maxFileBytes)
	}
	return Decode(path, data, dst)
}

// Decode is Load for bytes that are already read; name stands in errors.
func Decode(name string, data []byte, dst any) (*File, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	tree, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, located(name, err)
	}
	// Our own check comes first: the library does not say where a duration
	// lacks its unit.
	file := &File{name: name, tree: tree}
	if err := file.checkTypes(dst); err != nil {
		return nil, err
	}
	dec := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict())
	if err := dec.Decode(dst); err != nil && !errors.Is(err, io.EOF) {
		return nil, located(name, err)
	}
	return file, nil
}

// Errorf returns an error about the key at a YAML path such as
// "$.admission.max_running", naming file, line and key. A key that is absent
// (its default is at fault, or it is required) is named without a line.
func (f *File) Errorf(path, format string, args ...any) error {
	key := path
	if len(path) > 2 {
		key = path[2:]
	}
	message := fmt.Sprintf(format, args...)
	if line := f.line(path); line > 0 {
		return fmt.Errorf("%s:%d: %s: %s", f.name, line, key, message)
	}
	return fmt.Errorf("%s: %s: %s", f.name, key, message)
}

func (f *File) line(path string) int {
	if f.tree == nil {
		return 0
	}
	p, err := yaml.PathString(path)
	if err != nil {
		return 0
	}
	node, err := p.FilterFile(f.tree)
	if err != nil || node == nil || node.GetToken() == nil {
		return 0
	}
	return node.GetToken().Position.Line
}

func located(name string, err error) error {
	var at yaml.Error
	if errors.As(err, &at) && at.GetToken() != nil {
		position := at.GetToken().Position
		return fmt.Errorf("%s:%d: %s\n%s", name, position.Line, at.GetMessage(), excerpt(at))
	}
	return fmt.Errorf("%s: %s", name, yaml.FormatError(err, false, false))
}

// excerpt is the source around the fault with a caret under it.
func excerpt(at yaml.Error) string {
	text := at.FormatError(false, true)
	if _, source, found := strings.Cut(text, "\n"); found {
		return source
	}
	return text
}

// Resolve returns path as it stands when absolute or empty, and relative to
// the folder of the configuration file otherwise.
func Resolve(configPath, path string) string {
	if path == "" || filepath.IsAbs(path) || configPath == "" {
		return path
	}
	return filepath.Join(filepath.Dir(configPath), path)
}
