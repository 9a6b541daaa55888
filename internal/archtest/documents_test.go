package archtest_test

import (
	"bufio"
	"fmt"
	"go/ast"
	"io/fs"
	"os"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"muster/internal/task"
)

func read(t *testing.T, files fs.FS, name string) string {
	t.Helper()
	text, err := fs.ReadFile(files, name)
	if err != nil {
		t.Fatalf("cannot read %s: %v", name, err)
	}
	return string(text)
}

func TestDocumentedMovesAreTheMovesTable(t *testing.T) {
	t.Parallel()
	var want []string
	for _, m := range task.Moves() {
		settles := "no"
		if m.Settles {
			settles = "yes"
		}
		want = append(want, fmt.Sprintf("| %s | %s | %s | %s |", m.From, m.Event, m.To, settles))
	}
	got := tableUnder(read(t, os.DirFS(root), "docs/state-machine.md"), "| from | event | to | settles |")
	if !slices.Equal(got, want) {
		t.Errorf("docs/state-machine.md has the moves\n%s\nthe code has\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestDocumentedOutcomesAreTheReasons(t *testing.T) {
	t.Parallel()
	var want []string
	for _, outcome := range task.Outcomes() {
		var reasons []string
		for _, reason := range outcome.Reasons() {
			if reason != task.ReasonNone {
				reasons = append(reasons, "`"+string(reason)+"`")
			}
		}
		cell := strings.Join(reasons, ", ")
		if cell == "" {
			cell = "none"
		}
		want = append(want, fmt.Sprintf("| `%s` | %s |", outcome, cell))
	}
	got := tableUnder(read(t, os.DirFS(root), "docs/state-machine.md"), "| outcome | reasons |")
	if !slices.Equal(got, want) {
		t.Errorf("docs/state-machine.md has the outcomes\n%s\nthe code has\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// tableUnder returns the rows of the Markdown table with that head.
func tableUnder(text, head string) (rows []string) {
	_, after, _ := strings.Cut(text, head+"\n")
	lines := strings.Split(after, "\n")
	for i, line := range lines {
		if !strings.HasPrefix(line, "|") {
			break
		}
		if i > 0 { // the rule under the head
			rows = append(rows, line)
		}
	}
	return rows
}

// TestTheProtocolIsDocumented: every member of a message and every code stands
// in docs/protocol, so that an agent can be written from the documents alone.
func TestTheProtocolIsDocumented(t *testing.T) {
	t.Parallel()
	files := os.DirFS(root)
	pages := protocolPages(t, files)
	names := wireNames(load(t, files))
	if len(names) < 100 {
		t.Fatalf("only %d names found on the wire: the test looks in the wrong place", len(names))
	}
	for _, name := range undocumented(pages, names) {
		t.Errorf("docs/protocol does not say what %s is", name)
	}
}

func TestAnUndocumentedNameIsFound(t *testing.T) {
	t.Parallel()
	planted := load(t, fstest.MapFS{"internal/protocol/x.go": &fstest.MapFile{Data: []byte(
		"package protocol\n\ntype M struct {\n\tA string `json:\"known\"`\n\tB string `json:\"hidden,omitempty\"`\n}\n\n" +
			"const CodeLost Code = \"LOST\"\nconst MaxBytes = 8\n")}})
	got := undocumented("the member `known` and `hiddenOther`", wireNames(planted))
	if want := []string{"LOST", "hidden"}; !slices.Equal(got, want) {
		t.Errorf("undocumented: got %v, want %v", got, want)
	}
}

func protocolPages(t *testing.T, files fs.FS) string {
	t.Helper()
	var all strings.Builder
	entries, err := fs.ReadDir(files, "docs/protocol")
	if err != nil {
		t.Fatalf("cannot read docs/protocol: %v", err)
	}
	for _, entry := range entries {
		if path.Ext(entry.Name()) != ".md" { // the page of the schemas would name whatever they name
			continue
		}
		all.WriteString(read(t, files, path.Join("docs/protocol", entry.Name())))
	}
	return all.String()
}

// wireNames lists what a peer can see of internal/protocol: the members of its
// structures and the values of its typed string constants.
func wireNames(t tree) []string {
	var names []string
	for _, src := range t.sources {
		if src.dir != "internal/protocol" || src.test {
			continue
		}
		ast.Inspect(src.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Field:
				names = append(names, jsonName(n)...)
			case *ast.ValueSpec:
				names = append(names, wireValue(n)...)
			}
			return true
		})
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func jsonName(field *ast.Field) []string {
	if field.Tag == nil {
		return nil
	}
	tag, err := strconv.Unquote(field.Tag.Value)
	if err != nil {
		return nil
	}
	name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	if name == "" || name == "-" {
		return nil
	}
	return []string{name}
}

// wireValue is the value of a constant with a named type, such as a Code.
func wireValue(spec *ast.ValueSpec) []string {
	if _, named := spec.Type.(*ast.Ident); !named || len(spec.Values) != 1 {
		return nil
	}
	lit, ok := spec.Values[0].(*ast.BasicLit)
	if !ok {
		return nil
	}
	value, err := strconv.Unquote(lit.Value)
	if err != nil || value == "" {
		return nil
	}
	return []string{value}
}

// undocumented lists the names that stand nowhere on the pages as a word of
// code or as a level of a topic.
func undocumented(pages string, names []string) (missing []string) {
	for _, name := range names {
		if !strings.Contains(pages, "`"+name+"`") && !strings.Contains(pages, "/"+name+"`") &&
			!strings.Contains(pages, "`"+name+"/") {
			missing = append(missing, name)
		}
	}
	return missing
}

func TestDependenciesAreAccountedFor(t *testing.T) {
	t.Parallel()
	files := os.DirFS(root)
	page, mod := read(t, files, "docs/dependencies.md"), read(t, files, "go.mod")
	for _, dependency := range directDependencies(mod) {
		if !strings.Contains(page, "\n### `"+dependency+"` (") {
			t.Errorf("docs/dependencies.md does not say why %s is here", dependency)
		}
	}
	for line := range strings.Lines(page) {
		entry, ok := strings.CutPrefix(line, "### `")
		if module, _, _ := strings.Cut(entry, "`"); ok && !strings.Contains(mod, module+" v") {
			t.Errorf("docs/dependencies.md accounts for %s, which is gone", module)
		}
	}
}

func TestDirectDependenciesAreReadFromGoMod(t *testing.T) {
	t.Parallel()
	got := directDependencies("module x\n\nrequire (\n\ta.org/b v1.0.0\n\tc.org/d v1.0.0 // indirect\n)\n\nrequire e.org/f v0.1.0\n")
	if want := []string{"a.org/b", "e.org/f"}; !slices.Equal(got, want) {
		t.Errorf("direct dependencies: got %v, want %v", got, want)
	}
}

func directDependencies(mod string) (out []string) {
	inside := false
	lines := bufio.NewScanner(strings.NewReader(mod))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		switch line {
		case "require (":
			inside = true
			continue
		case ")":
			inside = false
		}
		single, isSingle := strings.CutPrefix(line, "require ")
		if (inside || isSingle) && !strings.HasSuffix(line, "// indirect") {
			out = append(out, strings.Fields(single)[0])
		}
	}
	return out
}

// TestMakeTargetsAreDocumented: the targets that people are told of exist, and
// say what they do.
func TestMakeTargetsAreDocumented(t *testing.T) {
	t.Parallel()
	makefile := read(t, os.DirFS(root), "Makefile")
	for _, target := range []string{"help", "check", "test", "race", "e2e", "demo", "bench", "build", "clean"} {
		documented := slices.ContainsFunc(strings.Split(makefile, "\n"), func(line string) bool {
			return strings.HasPrefix(line, target+":") && strings.Contains(line, "## ")
		})
		if !documented {
			t.Errorf("make %s is missing, or has no ## line", target)
		}
	}
}
