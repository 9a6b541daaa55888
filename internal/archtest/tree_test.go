package archtest_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"testing"
)

const module = "muster"

// source is one parsed Go file of the tree.
type source struct {
	path    string // from the module's root, slashes
	dir     string
	test    bool
	lines   int
	imports []string
	syntax  *ast.File
}

// tree is the module as the rules see it.
type tree struct {
	files   fs.FS
	sources []source
}

// load parses every Go file below the root of files. Folders that git ignores
// or that hold another module are left out.
func load(t *testing.T, files fs.FS) tree {
	t.Helper()
	out := tree{files: files}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return skipFolder(name)
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		src, err := parse(files, name)
		if err != nil {
			return err
		}
		out.sources = append(out.sources, src)
		return nil
	})
	if err != nil {
		t.Fatalf("cannot read the tree: %v", err)
	}
	return out
}

func skipFolder(name string) error {
	base := path.Base(name)
	switch {
	case name == ".":
		return nil
	case strings.HasPrefix(base, "."), base == "testdata":
		return fs.SkipDir
	}
	switch name {
	case "bin", "demo", "reports", "muster-data", "edge-agent-data", "scripts/tools":
		return fs.SkipDir
	}
	return nil
}

func parse(files fs.FS, name string) (source, error) {
	text, err := fs.ReadFile(files, name)
	if err != nil {
		return source{}, err
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
	if err != nil {
		return source{}, fmt.Errorf("cannot parse %s: %w", name, err)
	}
	src := source{
		path:   name,
		dir:    path.Dir(name),
		test:   strings.HasSuffix(name, "_test.go"),
		lines:  bytes.Count(text, []byte("\n")),
		syntax: file,
	}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return source{}, fmt.Errorf("cannot read an import of %s: %w", name, err)
		}
		src.imports = append(src.imports, imported)
	}
	return src, nil
}

// local returns the folder of a package of this module, ok is false for any
// other package.
func local(imported string) (dir string, ok bool) {
	return strings.CutPrefix(imported, module+"/")
}

// standard reports whether the import is of the standard library: its first
// level has no dot and is not this module.
func standard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return first != module && !strings.Contains(first, ".")
}

// within reports whether dir is the folder or lies below it.
func within(dir, folder string) bool {
	return dir == folder || strings.HasPrefix(dir, folder+"/")
}

// literals returns the values of the string literals of a file.
func literals(file *ast.File) []string {
	var out []string
	ast.Inspect(file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if value, err := strconv.Unquote(lit.Value); err == nil {
				out = append(out, value)
			}
		}
		return true
	})
	return out
}
