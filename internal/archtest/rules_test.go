package archtest_test

import (
	"fmt"
	"go/ast"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

const maxFileLines = 500

// rule looks at the whole tree and says what breaks it, one line a finding.
type rule struct {
	name  string
	check func(tree) []string
}

// law is every rule, in the order in which ARCHITECTURE.md tells them.
func law() []rule {
	return []rule{
		{"task imports only the standard library", taskImports},
		{"protocol adds only task", protocolImports},
		{"shared code knows no program", sharedImports},
		{"programs do not import each other", programImports},
		{"only the store touches SQL", sqlImports},
		{"plan and report are pure", purity},
		{"only app sees the steps", stepImports},
		{"packages are named by their role", packageNames},
		{"every package says what it is for, once", packageComments},
		{"files stay short", fileLengths},
		{"every file in configs is loaded by a test", configsNamed},
		{"who says it in Chinese says all of it", bilingual},
		{"Chinese sentences hold no English ones", pureChinese},
	}
}

func programs() []string { return []string{"broker", "dispatcher", "edge-agent"} }

// shared are the folders that hold what several programs use.
func shared() []string { return []string{"internal", "schemas", "configs"} }

// steps are the packages of the flow that meet in the store only.
func steps() []string {
	return []string{"gate", "trigger", "plan", "offer", "grant", "backlog", "intake", "barrier", "report", "presence", "watch", "enrol"}
}

func stepFolder(step string) string { return "dispatcher/internal/" + step }

// eachImport calls f for every import of the sources that are chosen.
func (t tree) eachImport(chosen func(source) bool, f func(src source, imported string)) {
	for _, src := range t.sources {
		if !chosen(src) {
			continue
		}
		for _, imported := range src.imports {
			f(src, imported)
		}
	}
}

func productOf(dir string) func(source) bool {
	return func(src source) bool { return src.dir == dir && !src.test }
}

func productUnder(dir string) func(source) bool {
	return func(src source) bool { return within(src.dir, dir) && !src.test }
}

func taskImports(t tree) (found []string) {
	t.eachImport(productOf("internal/task"), func(src source, imported string) {
		if !standard(imported) {
			found = append(found, fmt.Sprintf("%s imports %s", src.path, imported))
		}
	})
	return found
}

func protocolImports(t tree) (found []string) {
	t.eachImport(productOf("internal/protocol"), func(src source, imported string) {
		if !standard(imported) && imported != module+"/internal/task" {
			found = append(found, fmt.Sprintf("%s imports %s", src.path, imported))
		}
	})
	return found
}

// sharedImports holds for tests too: a shared package that needs a program to
// be tested is not shared.
func sharedImports(t tree) (found []string) {
	inShared := func(src source) bool {
		return slices.ContainsFunc(shared(), func(root string) bool { return within(src.dir, root) })
	}
	t.eachImport(inShared, func(src source, imported string) {
		dir, ok := local(imported)
		if ok && slices.ContainsFunc(programs(), func(p string) bool { return within(dir, p) }) {
			found = append(found, fmt.Sprintf("%s imports %s", src.path, imported))
		}
	})
	return found
}

// programImports lets the dispatcher embed the broker's server, and tests
// start it.
func programImports(t tree) (found []string) {
	for _, own := range programs() {
		inOwn := func(src source) bool { return within(src.dir, own) }
		t.eachImport(inOwn, func(src source, imported string) {
			dir, ok := local(imported)
			if !ok || ((dir == "broker/server" || dir == "broker/server/users") && (own == "dispatcher" || src.test)) {
				return
			}
			for _, other := range programs() {
				if other != own && within(dir, other) {
					found = append(found, fmt.Sprintf("%s imports %s", src.path, imported))
				}
			}
		})
	}
	return found
}

// sqlImports lets what tests whole programs look into a database from outside.
func sqlImports(t tree) (found []string) {
	outside := func(src source) bool {
		return !within(src.dir, "dispatcher/internal/store") && !within(src.dir, "tests")
	}
	t.eachImport(outside, func(src source, imported string) {
		if imported == "database/sql" || strings.HasPrefix(imported, "database/sql/") || strings.HasPrefix(imported, "modernc.org/sqlite") {
			found = append(found, fmt.Sprintf("%s imports %s", src.path, imported))
		}
	})
	return found
}

// purity: the same arguments give the same bytes, whenever and wherever.
func purity(t tree) (found []string) {
	impure := []string{"os", "net", "database/sql", "syscall", "crypto/rand", "math/rand"}
	clock := []string{"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "NewTimer", "NewTicker", "Tick"}
	for _, step := range []string{"plan", "report"} {
		t.eachImport(productUnder(stepFolder(step)), func(src source, imported string) {
			if slices.ContainsFunc(impure, func(root string) bool { return within(imported, root) }) {
				found = append(found, fmt.Sprintf("%s imports %s", src.path, imported))
			}
		})
		for _, src := range t.sources {
			if !productUnder(stepFolder(step))(src) {
				continue
			}
			for _, name := range selected(src.syntax, "time") {
				if slices.Contains(clock, name) {
					found = append(found, fmt.Sprintf("%s uses time.%s", src.path, name))
				}
			}
		}
	}
	return found
}

// selected lists the names taken from a package in a file.
func selected(file *ast.File, pkg string) (names []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if id, ok := sel.X.(*ast.Ident); ok && id.Name == pkg {
			names = append(names, sel.Sel.Name)
		}
		return true
	})
	return names
}

// stepImports: a step is reached by app alone. A test may start a step as the
// real far end of its wire, unless it is a step's own: steps meet in the store,
// also while they are tested.
func stepImports(t tree) (found []string) {
	inStep := func(src source) bool {
		return slices.ContainsFunc(steps(), func(step string) bool { return within(src.dir, stepFolder(step)) })
	}
	t.eachImport(func(source) bool { return true }, func(src source, imported string) {
		dir, ok := local(imported)
		if !ok || within(src.dir, "dispatcher/app") || (src.test && !inStep(src)) {
			return
		}
		for _, step := range steps() {
			if folder := stepFolder(step); within(dir, folder) && !within(src.dir, folder) {
				found = append(found, fmt.Sprintf("%s imports %s", src.path, imported))
			}
		}
	})
	return found
}

func packageNames(t tree) (found []string) {
	banned := []string{"util", "utils", "common", "types", "helper", "helpers", "manager", "misc", "shared", "base", "lib"}
	for _, src := range t.sources {
		name := strings.TrimSuffix(src.syntax.Name.Name, "_test")
		base := path.Base(src.dir)
		if slices.Contains(banned, name) || slices.Contains(banned, base) {
			found = append(found, fmt.Sprintf("%s: package %s says nothing about its role", src.path, name))
		}
		if name != "main" && name != base {
			found = append(found, fmt.Sprintf("%s: package %s stands in folder %s", src.path, name, base))
		}
	}
	return found
}

func packageComments(t tree) (found []string) {
	comments := map[string][]string{}
	for _, src := range t.sources {
		if src.test {
			continue
		}
		if _, seen := comments[src.dir]; !seen {
			comments[src.dir] = nil
		}
		if src.syntax.Doc != nil {
			comments[src.dir] = append(comments[src.dir], src.path)
		}
	}
	for dir, files := range comments {
		switch len(files) {
		case 0:
			found = append(found, dir+" has no package comment")
		case 1:
		default:
			found = append(found, fmt.Sprintf("%s has %d package comments: %s", dir, len(files), strings.Join(files, ", ")))
		}
	}
	slices.Sort(found)
	return found
}

func fileLengths(t tree) (found []string) {
	for _, src := range t.sources {
		if src.lines > maxFileLines {
			found = append(found, fmt.Sprintf("%s has %d lines, at most %d are taken", src.path, src.lines, maxFileLines))
		}
	}
	return found
}

// bilingual: a literal that words one member in Chinese (XZh beside X) words each of
// its sentences in both languages.
func bilingual(t tree) (found []string) {
	for _, src := range t.sources {
		if src.test {
			continue
		}
		ast.Inspect(src.syntax, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			members := keys(lit)
			if !slices.ContainsFunc(members, func(name string) bool { return strings.HasSuffix(name, "Zh") && name != "Zh" }) {
				return true
			}
			for _, name := range members {
				other, zh := strings.CutSuffix(name, "Zh")
				if !zh {
					other += "Zh"
				}
				if (zh || name == "Message" || name == "Hint") && !slices.Contains(members, other) {
					found = append(found, fmt.Sprintf("%s gives a %s without %s", src.path, name, other))
				}
			}
			return true
		})
	}
	return found
}

// pureChinese: beside names of members, commands and files a Chinese sentence has no two
// words of English in a row. A text in both languages has a line for each, or is mostly
// English and cites Chinese.
func pureChinese(t tree) (found []string) {
	names := regexp.MustCompile(`(dispatcher|edge-agent|broker|cat) [a-z-]+|<[a-z]+ [a-z-]+|%[-+0-9.# ]*[a-zA-Z]`)
	english := regexp.MustCompile(`\b[a-z]{2,},? [a-z]{2,}\b`)
	for _, src := range t.sources {
		if src.test {
			continue
		}
		for _, text := range literals(src.syntax) {
			for line := range strings.Lines(text) {
				han, latin := 0, 0
				for _, r := range line {
					switch {
					case unicode.Is(unicode.Han, r):
						han++
					case unicode.IsLetter(r):
						latin++
					}
				}
				if clean := names.ReplaceAllString(line, ""); latin <= 10*han && english.MatchString(clean) {
					found = append(found, fmt.Sprintf("%s says in Chinese %q", src.path, english.FindString(clean)))
				}
			}
		}
	}
	return found
}

// keys lists the members that a literal of a structure names.
func keys(lit *ast.CompositeLit) (names []string) {
	for _, element := range lit.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			if id, ok := pair.Key.(*ast.Ident); ok {
				names = append(names, id.Name)
			}
		}
	}
	return names
}

// configsNamed looks for a test that names the file, or the folder below
// configs that it loads whole.
func configsNamed(t tree) (found []string) {
	var named []string
	for _, src := range t.sources {
		// This package's own planted trees load nothing.
		if src.test && !within(src.dir, "internal/archtest") {
			named = append(named, literals(src.syntax)...)
		}
	}
	err := fs.WalkDir(t.files, "configs", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) == ".go" {
			return err
		}
		folder := path.Dir(name)
		byName := func(lit string) bool {
			return path.Base(lit) == path.Base(name) ||
				(folder != "configs" && (strings.HasSuffix(lit, folder) || strings.Contains(lit, folder+"/*")))
		}
		if !slices.ContainsFunc(named, byName) {
			found = append(found, name+" is loaded by no test")
		}
		return nil
	})
	if err != nil {
		found = append(found, fmt.Sprintf("cannot read configs: %v", err))
	}
	return found
}
