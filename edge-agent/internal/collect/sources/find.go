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

// Find returns at most limit files that the glob names, sorted by path, whether there were more, and why there are
// none where there are none. It gives up with the error of ctx.
func (g *Glob) Find(ctx context.Context, limit int) (found []Match, more bool, problem *Problem, err error) {
	tree := cancellable{ctx: ctx, inner: os.DirFS(g.base)}
	walk := func(name string, entry fs.DirEntry) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		canonical, ok := g.accept(name)
		if !ok || entry.IsDir() {
			return nil
		}
		if len(found) == limit {
			more = true
			return errEnough
		}
		found = append(found, Match{
			Path:      filepath.Join(g.base, filepath.FromSlash(name)),
			Canonical: filepath.Join(g.base, filepath.FromSlash(canonical)),
		})
		return nil
	}
	err = doublestar.GlobWalk(tree, g.wide, walk, globOptions()...)
	if ctx.Err() != nil {
		return nil, false, nil, ctx.Err()
	}
	if err != nil && !errors.Is(err, errEnough) {
		return nil, false, &Problem{Code: NoMatch, Detail: err.Error()}, nil
	}
	slices.SortFunc(found, func(a, b Match) int { return strings.Compare(a.Path, b.Path) })
	if len(found) == 0 {
		return nil, false, g.whyNone(), nil
	}
	return found, more, nil, nil
}

var errEnough = errors.New("enough files")

func globOptions() []doublestar.GlobOption {
	if runtime.GOOS == "windows" {
		return []doublestar.GlobOption{doublestar.WithCaseInsensitive()}
	}
	return nil
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

// cancellable is a file system that stops answering once its context has ended, so that a walk over a large tree that
// matches nothing can be broken off.
type cancellable struct {
	ctx   context.Context
	inner fs.FS
}

// Open implements fs.FS.
func (c cancellable) Open(name string) (fs.File, error) {
	if err := c.ctx.Err(); err != nil {
		return nil, err
	}
	return c.inner.Open(name)
}

// ReadDir implements fs.ReadDirFS.
func (c cancellable) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := c.ctx.Err(); err != nil {
		return nil, err
	}
	return fs.ReadDir(c.inner, name)
}

// Stat implements fs.StatFS. Without it a pattern would be opened to see whether it exists, and opening a pipe waits.
func (c cancellable) Stat(name string) (fs.FileInfo, error) {
	if err := c.ctx.Err(); err != nil {
		return nil, err
	}
	return fs.Stat(c.inner, name)
}
