package sim

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // the database is copied and read here

	"muster/tests/chaos/checker"
)

// file is how a file looks from outside; two equal looks mean that nobody wrote
// in between.
type file struct{ size, modified int64 }

// copyExactly copies a folder as it is at one moment, as kill -9 leaves it.
// Programs may go on writing: it is copied again until nothing changed meanwhile.
// Files that skip names are left out.
func copyExactly(from, to string, skip func(name string) bool) error {
	for range 200 {
		before, err := look(from, skip)
		if err != nil {
			return err
		}
		if err := os.RemoveAll(to); err != nil {
			return err
		}
		if err := copyFiles(from, to, before); errors.Is(err, fs.ErrNotExist) {
			continue // one of them is gone meanwhile
		} else if err != nil {
			return err
		}
		after, err := look(from, skip)
		if err != nil {
			return err
		}
		if maps.Equal(before, after) {
			return nil
		}
	}
	return fmt.Errorf("cannot copy %s: it changes all the time", from)
}

func look(folder string, skip func(string) bool) (map[string]file, error) {
	seen := map[string]file{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		name, _ := filepath.Rel(folder, path)
		if err != nil || skip(name) {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		seen[name] = file{-1, 0}
		if !entry.IsDir() {
			seen[name] = file{info.Size(), info.ModTime().UnixNano()}
		}
		return nil
	})
	return seen, err
}

func copyFiles(from, to string, names map[string]file) error {
	for name, f := range names {
		target := filepath.Join(to, name)
		if f.size < 0 {
			if err := os.MkdirAll(target, 0o700); err != nil {
				return err
			}
			continue
		}
		content, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(target), 0o700)
		}
		if err == nil {
			err = os.WriteFile(target, content, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lose does to the journal in a work folder what the fault says.
func lose(folder string, loss Loss) error {
	journal := filepath.Join(folder, "journal.log")
	switch loss {
	case Gone:
		return os.Remove(journal)
	case Emptied:
		return os.Truncate(journal, 0)
	case Garbled:
		text, err := os.ReadFile(journal)
		if err != nil {
			return err
		}
		lines := bytes.SplitAfter(text, []byte("\n"))
		for _, line := range lines {
			for _, phase := range []string{`"granted"`, `"started"`} {
				if at := bytes.Index(line, []byte(phase)); at >= 0 {
					line[at+1] ^= 1
				}
			}
		}
		return os.WriteFile(journal, bytes.Join(lines, nil), 0o600)
	case Swapped:
		text, err := os.ReadFile(journal)
		if err != nil {
			return err
		}
		lines := bytes.SplitAfter(text, []byte("\n"))
		if last := len(lines) - 2; last > 1 { // 0 is the header, and nothing stands behind the last
			lines[last], lines[last-1] = lines[last-1], lines[last]
		}
		return os.WriteFile(journal, bytes.Join(lines, nil), 0o600)
	case Nothing:
	}
	return nil
}

// everything skips nothing.
func everything(string) bool { return false }

// copyHeadquarters copies data and reports at one moment: the database's writer
// is stopped meanwhile.
func copyHeadquarters(ctx context.Context, from, to string) (err error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(from, "data", "muster.db")+"?_txlock=immediate&_pragma=busy_timeout(20000)")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("cannot stop the writer: %w", err)
	}
	defer func() { err = errors.Join(err, tx.Rollback()) }()
	return copyExactly(from, to, func(name string) bool { return strings.HasSuffix(name, "-shm") })
}

// readStore reads the database in one transaction.
func readStore(ctx context.Context, folder string, takenAt int64) (store checker.Store, err error) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(folder, "data", "muster.db")+"?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		return store, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return store, err
	}
	defer func() { err = errors.Join(err, tx.Rollback()) }()
	return checker.ReadStore(func(statement string) (rows []string, err error) {
		found, err := tx.QueryContext(ctx, statement)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, found.Close()) }()
		for found.Next() {
			var text string
			if err := found.Scan(&text); err != nil {
				return nil, err
			}
			rows = append(rows, text)
		}
		return rows, found.Err()
	}, takenAt)
}
