package sources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"
)

const (
	// maxEntries bounds how many names the search for one glob looks at: ten times a large folder of logs, and a small
	// part of a disk, which a glob such as "/**" would walk through.
	maxEntries = 100_000
	// maxSearch bounds how long that takes on a slow disk, well within the time that a run has.
	maxSearch = 10 * time.Second
	// readAtOnce is how many names of a folder are read before the bounds are looked at.
	readAtOnce = 1024
)

// searchBounds bound one search.
type searchBounds struct {
	entries int
	time    time.Duration
}

var errSpent = errors.New("the search is broken off")

// tree is a file system that stops answering once its context has ended or its bounds are spent, so that a walk over a
// large tree can be broken off. It is not safe for concurrent use.
type tree struct {
	ctx    context.Context
	inner  fs.FS
	bounds searchBounds
	until  time.Time
	seen   int
	late   bool
}

func newTree(ctx context.Context, inner fs.FS, bounds searchBounds) *tree {
	return &tree{ctx: ctx, inner: inner, bounds: bounds, until: time.Now().Add(bounds.time)}
}

// spent says which bound broke the search off, "" when none did.
func (t *tree) spent() string {
	switch {
	case t.seen > t.bounds.entries:
		return fmt.Sprintf("after %d names", t.bounds.entries)
	case t.late:
		return "after " + t.bounds.time.String()
	}
	return ""
}

// ended returns why the search must end, or nil.
func (t *tree) ended() error {
	if err := t.ctx.Err(); err != nil {
		return err
	}
	t.late = t.late || time.Now().After(t.until)
	if t.spent() != "" {
		return errSpent
	}
	return nil
}

// Open implements fs.FS.
func (t *tree) Open(name string) (fs.File, error) {
	if err := t.ended(); err != nil {
		return nil, err
	}
	return t.inner.Open(name)
}

// ReadDir implements fs.ReadDirFS. A folder of which the bounds allow a part alone gives that part.
func (t *tree) ReadDir(name string) ([]fs.DirEntry, error) {
	folder, err := t.Open(name)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	reader, ok := folder.(fs.ReadDirFile)
	if !ok {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: errors.ErrUnsupported}
	}
	var entries []fs.DirEntry
	for t.ended() == nil {
		some, err := reader.ReadDir(readAtOnce)
		entries = append(entries, some...)
		t.seen += len(some)
		if errors.Is(err, io.EOF) || err != nil && len(entries) > 0 {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// Stat implements fs.StatFS. Without it a pattern would be opened to see whether it exists, and opening a pipe waits.
func (t *tree) Stat(name string) (fs.FileInfo, error) {
	if err := t.ended(); err != nil {
		return nil, err
	}
	return fs.Stat(t.inner, name)
}
