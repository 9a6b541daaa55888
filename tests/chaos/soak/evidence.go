package main

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	_ "modernc.org/sqlite" // copies of the database are read as files

	"muster/tests/chaos/checker"
)

// fileOfRun is how a report file's name says what it belongs to.
var fileOfRun = regexp.MustCompile(`_([0-9]{8}-[0-9]{6}-[a-z0-9]+)_r([0-9]+)[_.]`)

// over are the runs that were closed in a backup, with everything published:
// what is to be said of them was said in the epoch of the backup.
const over = `SELECT run_id FROM runs r WHERE closed_at <> 0
	AND NOT EXISTS (SELECT 1 FROM tasks k WHERE k.run_id = r.run_id AND k.settled_at = 0)
	AND NOT EXISTS (SELECT 1 FROM revisions v WHERE v.run_id = r.run_id AND v.published_at = 0)
	AND revision > 0 AND late_count = (SELECT max(seen) FROM revisions v WHERE v.run_id = r.run_id)`

// views hide the runs that are over from whoever reads the tables by their
// names: temporary ones are found first.
var views = []string{
	`CREATE TEMP TABLE over (run_id TEXT PRIMARY KEY)`,
	`CREATE TEMP VIEW runs AS SELECT * FROM main.runs WHERE run_id NOT IN over`,
	`CREATE TEMP VIEW run_targets AS SELECT * FROM main.run_targets WHERE run_id NOT IN over`,
	`CREATE TEMP VIEW tasks AS SELECT * FROM main.tasks WHERE run_id NOT IN over`,
	`CREATE TEMP VIEW attempts AS SELECT a.* FROM main.attempts a JOIN main.tasks t USING (task_id) WHERE t.run_id NOT IN over`,
	`CREATE TEMP VIEW rejected_results AS SELECT a.* FROM main.rejected_results a JOIN main.tasks t USING (task_id) WHERE t.run_id NOT IN over`,
	`CREATE TEMP VIEW requests AS SELECT * FROM main.requests WHERE run_id NOT IN over`,
	`CREATE TEMP VIEW revisions AS SELECT * FROM main.revisions WHERE run_id NOT IN over`,
	`CREATE TEMP VIEW outcomes AS SELECT * FROM main.outcomes WHERE run_id NOT IN over`,
}

// kept says in SQL what a restored database must still hold of the backup, in
// main and old: what was settled, answered, published, judged or ordered.
var kept = map[string]string{
	"a settled task": `SELECT task_id, run_id, store_id, status, attempt, settled_at FROM old.tasks WHERE settled_at <> 0
		EXCEPT SELECT task_id, run_id, store_id, status, attempt, settled_at FROM main.tasks`,
	"an answer": `SELECT task_id, attempt, terminal_id, received_at, answer, sha256, result FROM old.attempts WHERE received_at <> 0
		EXCEPT SELECT task_id, attempt, terminal_id, received_at, answer, sha256, result FROM main.attempts`,
	"a revision": `SELECT run_id, revision, why, as_of, seen, files FROM old.revisions WHERE published_at <> 0
		EXCEPT SELECT run_id, revision, why, as_of, seen, files FROM main.revisions`,
	"a judged target": `SELECT run_id, store_id, revision, outcome, reason, row FROM old.outcomes
		EXCEPT SELECT run_id, store_id, revision, outcome, reason, row FROM main.outcomes`,
	"a target":  `SELECT run_id, store_id FROM old.run_targets EXCEPT SELECT run_id, store_id FROM main.run_targets`,
	"a request": `SELECT user, request_id, run_id FROM old.requests EXCEPT SELECT user, request_id, run_id FROM main.requests`,
}

// copyOf opens a copy of the database. Only one connection is made: temporary
// tables belong to it.
func copyOf(file string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", file, err)
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// texts are the only column of a SELECT.
func texts(ctx context.Context, db *sql.DB, statement string) (rows []string, err error) {
	found, err := db.QueryContext(ctx, statement)
	if err != nil {
		return nil, fmt.Errorf("cannot read a copy: %w", err)
	}
	defer found.Close()
	for found.Next() {
		var text string
		if err := found.Scan(&text); err != nil {
			return nil, fmt.Errorf("cannot read a copy: %w", err)
		}
		rows = append(rows, text)
	}
	return rows, found.Err()
}

// list is texts of a file.
func list(ctx context.Context, file, statement string) (rows []string, err error) {
	db, err := copyOf(file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return texts(ctx, db, statement)
}

// readStore reads a copy but for the runs that are hidden.
func readStore(ctx context.Context, file string, hidden []string, takenAt int64) (s checker.Store, err error) {
	db, err := copyOf(file)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, view := range views {
		if _, err := db.ExecContext(ctx, view); err != nil {
			return s, fmt.Errorf("cannot hide what is over: %w", err)
		}
	}
	for _, run := range hidden {
		if _, err := db.ExecContext(ctx, `INSERT INTO temp.over VALUES (?)`, run); err != nil {
			return s, fmt.Errorf("cannot hide what is over: %w", err)
		}
	}
	return checker.ReadStore(func(statement string) ([]string, error) { return texts(ctx, db, statement) }, takenAt)
}

// missing names, at most a few of each, what a restored database should have of
// the backup and has not.
func missing(ctx context.Context, file, backup string) (lost []string, err error) {
	db, err := copyOf(file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, err := db.ExecContext(ctx, `ATTACH ? AS old`, backup); err != nil {
		return nil, fmt.Errorf("cannot compare with the backup: %w", err)
	}
	for what, statement := range kept {
		first, _, _ := strings.Cut(strings.TrimPrefix(statement, "SELECT "), " FROM")
		one, two, _ := strings.Cut(first, ", ")
		two, _, _ = strings.Cut(two, ", ")
		rows, err := texts(ctx, db, fmt.Sprintf(`SELECT %s || ' ' || %s FROM (%s) LIMIT 5`, one, two, statement))
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			lost = append(lost, fmt.Sprintf("%s of the backup is not in the restored database: %s", what, row))
		}
	}
	slices.Sort(lost)
	return lost, nil
}

// forget takes the files of revisions that the backup does not know from the
// copy of the reports: headquarters will make these revisions anew, and never
// writes over a file.
func (s *soak) forget(ctx context.Context, backup, reports string) error {
	known, err := list(ctx, backup, `SELECT run_id || ' ' || revision FROM revisions`)
	if err != nil {
		return err
	}
	is := map[string]bool{}
	for _, one := range known {
		is[one] = true
	}
	return filepath.WalkDir(reports, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if m := fileOfRun.FindStringSubmatch(entry.Name()); m != nil && !is[m[1]+" "+m[2]] {
			return os.Remove(name)
		}
		return nil
	})
}

// changedFiles compares the files of the runs that are over with what the database
// says of them, one after the other.
func changedFiles(ctx context.Context, e epoch, hidden []string) (found []string, err error) {
	db, err := copyOf(filepath.Join(e.Folder, "muster.db"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	at := map[string]string{}
	err = filepath.WalkDir(filepath.Join(e.Folder, "reports"), func(name string, _ fs.DirEntry, err error) error {
		at[filepath.Base(name)] = name
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot list the reports: %w", err)
	}
	for _, run := range hidden {
		named, err := texts(ctx, db, fmt.Sprintf(`SELECT json_extract(f.value, '$.name') || ' ' || json_extract(f.value, '$.sha256')
			FROM revisions, json_each(files) f WHERE published_at <> 0 AND run_id = '%s'`, run))
		if err != nil {
			return nil, err
		}
		for _, one := range named {
			name, want, _ := strings.Cut(one, " ")
			content, err := os.ReadFile(at[name])
			if sum := sha256.Sum256(content); err != nil || hex.EncodeToString(sum[:]) != want {
				found = append(found, fmt.Sprintf("the published file %s of a run that was over is gone or changed (%v)", name, err))
			}
		}
	}
	return found, nil
}

// readReports reads the report files of the runs that are not hidden.
func readReports(folder string, hidden map[string]bool) (map[string][]byte, error) {
	files := map[string][]byte{}
	root := os.DirFS(folder)
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasPrefix(entry.Name(), ".") {
			return err
		}
		if m := fileOfRun.FindStringSubmatch(entry.Name()); m != nil && hidden[m[1]] {
			return nil
		}
		files[name], err = fs.ReadFile(root, name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the reports: %w", err)
	}
	return files, nil
}
