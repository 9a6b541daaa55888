package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"muster/dispatcher/internal/store/internal/audit"
	"muster/dispatcher/internal/store/internal/custody"
	"muster/dispatcher/internal/store/internal/sqlite"
	"muster/internal/files"
)

// Backup is a copy of a database, as it was found after it was written or
// before it is used.
type Backup struct {
	Path    string
	Bytes   int64
	Version int         // of the schema
	Epoch   int64       // see Restore
	Audit   AuditReport // its head is the newest deed in the backup
	number  int64       // headquarters' highest number that was noted
}

// MakeBackup writes what is committed in the database at one moment to a new
// file of mode 0600, syncs it, and reads all of it once more. It works beside a
// running dispatcher, which goes on writing. A file that is there already is
// never touched (fs.ErrExist). When it fails, no file of that name is left.
//
// The folder of the file needs room for the whole database. What a backup that was
// killed left there is removed first, half a day after its last write.
func MakeBackup(ctx context.Context, databasePath, file string) (Backup, error) {
	b, err := makeBackup(ctx, databasePath, file)
	if err != nil {
		return Backup{}, fmt.Errorf("cannot back up %s: %w", databasePath, err)
	}
	return b, nil
}

func makeBackup(ctx context.Context, databasePath, file string) (b Backup, err error) {
	if _, err := os.Lstat(file); err == nil {
		return Backup{}, fmt.Errorf("%s: %w; a backup never takes another file's place", file, fs.ErrExist)
	}
	if folder := filepath.Dir(file); absent(folder) {
		return Backup{}, fmt.Errorf("there is no folder %s: %w; make it: mkdir -p %s", folder, fs.ErrNotExist, folder)
	}
	sqlite.RemoveUnfinished(filepath.Dir(file), applicationID, time.Now())
	part := fmt.Sprintf("%s%s%d", file, sqlite.UnfinishedMark, os.Getpid())
	if err := sqlite.Copy(ctx, databasePath, part, applicationID); err != nil {
		return Backup{}, err
	}
	defer func() {
		if removeErr := os.Remove(part); err == nil && !errors.Is(removeErr, fs.ErrNotExist) {
			err = removeErr
		}
	}()
	if b, err = InspectBackup(ctx, part); err != nil {
		return Backup{}, fmt.Errorf("the copy does not hold: %w", err)
	}
	// A rename would take the place of what came there meanwhile.
	if err := os.Link(part, file); err != nil {
		return Backup{}, err
	}
	b.Path = file
	return b, custody.SyncFolder(filepath.Dir(file))
}

// absent reports whether nothing has that name.
func absent(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// InspectBackup reads every page of a database file, compares every result with
// its hash, and walks its audit. It fails with ErrCorrupt or ErrNewerSchema; what
// is wrong with the audit stands in the report.
func InspectBackup(ctx context.Context, file string) (Backup, error) {
	b := Backup{Path: file}
	info, err := os.Stat(file)
	if err != nil {
		return Backup{}, fmt.Errorf("cannot read backup: %w", files.Mended(err))
	}
	b.Bytes = info.Size()
	err = sqlite.Look(ctx, file, applicationID, 1, func(q sqlite.Querier) error {
		return b.inspect(ctx, q)
	})
	return b, err
}

func (b *Backup) inspect(ctx context.Context, q sqlite.Querier) (err error) {
	if b.Version, err = sqlite.Version(ctx, q); err != nil {
		return err
	}
	if known := schemaVersion(); b.Version > known {
		return fmt.Errorf("%w: it has schema version %d, this program knows up to %d; use the program that wrote it, or an older backup",
			ErrNewerSchema, b.Version, known)
	}
	if err = sqlite.Check(ctx, q); err != nil {
		return err
	}
	if b.Epoch, err = noted(ctx, q, "epoch"); err != nil {
		return err
	}
	if b.number, err = noted(ctx, q, "number"); err != nil || b.Version < chainVersion {
		return err
	}
	if err = checkResults(ctx, q); err != nil {
		return err
	}
	b.Audit, err = audit.Verify(ctx, q, nil)
	return err
}

// schemaVersion is the newest that this program knows.
func schemaVersion() int {
	entries, err := fs.ReadDir(migrationFiles, "migrations")
	if err != nil {
		return 0 // Open says why
	}
	return len(entries)
}

// noted reads a number of the meta table, 0 when it is not there.
func noted(ctx context.Context, q sqlite.Querier, key string) (int64, error) {
	return sqlite.One(ctx, q, func(row sqlite.Row) (n int64, err error) {
		err = row.Scan(&n)
		return n, err
	}, `SELECT coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE key = ?), 0)`, key)
}
