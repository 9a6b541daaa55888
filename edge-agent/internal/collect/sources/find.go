package sources

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Glob is one pattern of the configuration, checked.
type Glob struct {
	text     string
	base     string
	pattern  string
	wide     string
	siblings bool
}

// Match is a file that a glob names.
type Match struct {
	// Path is the file's absolute path.
	Path string
	// Canonical is the path without what rotation added to its name, where the glob names it only without that.
	Canonical string
}

// NewGlob checks a pattern of package doublestar ("**" crosses directories). A relative one starts at the working
// directory of the moment. With siblings set, the rotated siblings of what the pattern names are found, too: with a
// number, a date or a compression's ending added in any of the usual places.
func NewGlob(text string, siblings bool) (*Glob, error) {
	if strings.TrimSpace(text) == "" {
		return nil, errors.New("the pattern is empty")
	}
	slashed := filepath.ToSlash(text)
	if !doublestar.ValidatePattern(slashed) {
		return nil, errors.New("the pattern is malformed")
	}
	base, pattern := doublestar.SplitPattern(slashed)
	absolute, err := filepath.Abs(filepath.FromSlash(base))
	if err != nil {
		return nil, fmt.Errorf("cannot resolve the directory: %w", err)
	}
	if pattern == "" || pattern == "." || pattern == ".." {
		return nil, errors.New("the pattern names a directory, not files")
	}
	glob := &Glob{text: text, base: absolute, pattern: pattern, wide: pattern, siblings: siblings}
	if siblings {
		glob.wide = widen(pattern)
	}
	return glob, nil
}

// String returns the pattern as it was configured.
func (g *Glob) String() string { return g.text }

// Found is what a glob names.
type Found struct {
	// Files are sorted by path.
	Files []Match
	// More says that there were more than the limit.
	More bool
	// Problem says why there are none where there are none, or that the search was broken off and some may be missing.
	Problem *Problem
}

// Find returns at most limit files that the glob names. Linked folders are not gone into: what they lead to has another
// name, and a link to a folder above has no end. A link that the glob names is found, whatever it leads to. The search
// is bounded in time and in what it looks at. Its error is that of ctx.
func (g *Glob) Find(ctx context.Context, limit int) (Found, error) {
	return g.find(ctx, limit, searchBounds{entries: maxEntries, time: maxSearch})
}

func (g *Glob) find(ctx context.Context, limit int, bounds searchBounds) (found Found, err error) {
	tree := newTree(ctx, os.DirFS(g.base), bounds)
	walk := func(name string, entry fs.DirEntry) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		canonical, ok := g.accept(name)
		whole := filepath.Join(g.base, filepath.FromSlash(name))
		if !ok || entry.IsDir() {
			return nil
		}
		if len(found.Files) == limit {
			found.More = true
			return errEnough
		}
		found.Files = append(found.Files, Match{
			Path: whole, Canonical: filepath.Join(g.base, filepath.FromSlash(canonical)),
		})
		return nil
	}
	err = doublestar.GlobWalk(tree, g.wide, walk, globOptions()...)
	if ctx.Err() != nil {
		return Found{}, ctx.Err()
	}
	slices.SortFunc(found.Files, func(a, b Match) int { return strings.Compare(a.Path, b.Path) })
	switch {
	case found.More:
	case tree.spent() != "":
		found.Problem = &Problem{Code: SearchCut, Detail: "broken off " + tree.spent() + "; files may be missing"}
	case err != nil:
		found = Found{Problem: &Problem{Code: NoMatch, Detail: err.Error()}}
	case len(found.Files) == 0:
		found.Problem = g.whyNone()
	}
	return found, nil
}

var errEnough = errors.New("enough files")

func globOptions() []doublestar.GlobOption {
	options := []doublestar.GlobOption{doublestar.WithNoFollow()}
	if runtime.GOOS == "windows" {
		options = append(options, doublestar.WithCaseInsensitive())
	}
	return options
}

func (g *Glob) whyNone() *Problem {
	if _, err := os.ReadDir(g.base); err != nil {
		problem := describe(err, NoMatch)
		return &Problem{Code: NoMatch, Detail: "directory " + g.base + ": " + problem.Detail}
	}
	return &Problem{Code: NoMatch, Detail: "no file matches"}
}

// accept reports whether the pattern names the file or one that it is a rotated sibling of, and the latter's name.
func (g *Glob) accept(name string) (canonical string, ok bool) {
	if g.matches(name) {
		return name, true
	}
	if !g.siblings {
		return "", false
	}
	dir, file := path.Split(name)
	for _, stem := range unrotated(file) {
		if g.matches(dir + stem) {
			return dir + stem, true
		}
	}
	return "", false
}

func (g *Glob) matches(name string) bool {
	pattern := g.pattern
	if runtime.GOOS == "windows" {
		pattern, name = strings.ToLower(pattern), strings.ToLower(name)
	}
	ok, err := doublestar.Match(pattern, name)
	return err == nil && ok
}

// widen returns a pattern that also catches the rotated siblings of what the pattern names: its last part with room
// before, behind and between the name and its ending. Accept then tells siblings from strangers.
func widen(pattern string) string {
	cut, dot, depth := 0, -1, 0
	for i, c := range pattern {
		switch {
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		case c == '/':
			if depth > 0 {
				return pattern
			}
			cut, dot = i+1, -1
		case c == '.' && depth == 0 && i > cut:
			dot = i
		}
	}
	dir, last := pattern[:cut], pattern[cut:]
	if last == "" || strings.Contains(last, "**") {
		return pattern
	}
	wide := "*" + last + "*"
	if dot > 0 {
		wide = "*" + pattern[cut:dot] + "*" + pattern[dot:] + "*"
	}
	for strings.Contains(wide, "**") {
		wide = strings.ReplaceAll(wide, "**", "*")
	}
	return dir + wide
}
