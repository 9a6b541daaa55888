package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/store/internal/audit"
	"muster/dispatcher/internal/store/internal/custody"
	"muster/dispatcher/internal/store/internal/sqlite"
	"muster/internal/protocol"
	"muster/internal/task"
)

const (
	// attemptsAnEpoch is how far the floors of two epochs lie apart: more than a
	// task may have attempts.
	attemptsAnEpoch = 16
	_               = uint(attemptsAnEpoch - job.MaxAttempts - 1) // or it does not compile
)

// epochZero is where epochs are counted from, in minutes.
var epochZero = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Restored tells what a restore did.
type Restored struct {
	Backup Backup
	Kept   string // where the replaced database is; "" when there was none
	Epoch  int64
	Lost   int // attempts that ran at the backup, and count as lost
	Open   int // tasks that go on, with attempts of the new epoch
}

// Restore puts a backup in the place of the database, which it keeps beside as
// <name>.replaced-<time>. It fails with ErrLocked while a dispatcher holds the
// database, and with ErrCorrupt or ErrNewerSchema when the backup is no good;
// nothing is changed then. by is who restores, for the audit. A restore that is
// cut off leaves a database that Open refuses with ErrRestoring.
//
// The restored database knows nothing of what was granted after the backup, and
// the terminals do. So it begins a new epoch: attempts that ran at the backup
// are ended as lost, and the open tasks' next attempts are numbered from the
// epoch's floor, above all that was ever granted. An answer to an older attempt
// is stale, and a terminal that did the work answers the next grant with what it
// holds. Tasks of runs that are ordered later are numbered from 1 as ever.
//
// The epoch follows the clock, at least one above those of both databases: two
// machines that restore the same backup, and know nothing of each other, do not
// use the same numbers unless they do it in the same minute.
func Restore(ctx context.Context, file, databasePath, by string, now time.Time) (Restored, error) {
	r, err := restore(ctx, file, databasePath, by, now)
	if err != nil {
		return Restored{}, fmt.Errorf("cannot restore %s from %s: %w", databasePath, file, err)
	}
	return r, nil
}

func restore(ctx context.Context, file, databasePath, by string, now time.Time) (r Restored, err error) {
	if folder := filepath.Dir(databasePath); absent(folder) {
		return Restored{}, fmt.Errorf("there is no folder %s: %w; make it, owned by whom the dispatcher runs as: mkdir -p -m 750 %s",
			folder, fs.ErrNotExist, folder)
	}
	path, err := custody.Resolve(databasePath)
	if err != nil {
		return Restored{}, err
	}
	release, err := custody.Take(path)
	if err != nil {
		return Restored{}, err
	}
	defer func() { err = errors.Join(err, release()) }()
	if r.Backup, err = InspectBackup(ctx, file); err != nil {
		return Restored{}, err
	}
	fresh := path + ".new"
	if err := custody.Remove(fresh); err != nil { // of a restore that was cut off
		return Restored{}, err
	}
	defer func() { err = errors.Join(err, custody.Remove(fresh)) }()
	if err := sqlite.Copy(ctx, file, fresh, applicationID); err != nil {
		return Restored{}, err
	}
	if err := r.begin(ctx, fresh, path, by, now); err != nil {
		return Restored{}, err
	}
	r.Kept, err = replace(path, fresh, now)
	return r, err
}

// begin lets the copy begin a new epoch. The replaced database is asked for what
// it knows, if it can still be read.
func (r *Restored) begin(ctx context.Context, fresh, replaced, by string, now time.Time) error {
	var epoch, number int64
	_ = sqlite.Look(ctx, replaced, applicationID, 1, func(q sqlite.Querier) (err error) {
		if epoch, err = noted(ctx, q, "epoch"); err == nil {
			number, err = noted(ctx, q, "number")
		}
		return err
	})
	r.Epoch = max(int64(now.Sub(epochZero)/time.Minute), epoch+1, r.Backup.Epoch+1)
	s, err := Open(ctx, Options{Path: fresh, BallastBytes: -1})
	if err != nil {
		return err
	}
	err = s.beginEpoch(ctx, r, by, now)
	if err == nil {
		err = s.NoteNumber(ctx, number)
	}
	if err = errors.Join(err, s.Close()); err != nil {
		return err
	}
	if info, err := os.Stat(fresh + "-wal"); err == nil && info.Size() > 0 {
		return fmt.Errorf("the log of %s was not taken in", fresh)
	}
	return nil
}

// beginEpoch ends what runs, raises the floor of what is open, and says so.
func (s *Store) beginEpoch(ctx context.Context, r *Restored, by string, now time.Time) error {
	_, err := write(ctx, s, func(tx *sqlite.Tx, changes *[]Change) (struct{}, error) {
		lost, err := loseRunning(ctx, tx, now, changes)
		if err != nil {
			return struct{}{}, err
		}
		open, err := tx.Exec(`UPDATE tasks SET floor = ? WHERE settled_at = 0`, r.Epoch*attemptsAnEpoch)
		if err != nil {
			return struct{}{}, err
		}
		_, err = tx.Exec(`INSERT INTO meta (key, value) VALUES ('epoch', CAST(? AS TEXT))
			ON CONFLICT (key) DO UPDATE SET value = excluded.value`, r.Epoch)
		if err != nil {
			return struct{}{}, err
		}
		r.Lost, r.Open = lost, int(open)
		detail := fmt.Sprintf("from a backup whose audit ends with entry %d, into epoch %d: %s lost, %s open",
			r.Backup.Audit.Head.ID, r.Epoch, audit.Many(lost, "running attempt"), audit.Many(r.Open, "task"))
		return struct{}{}, audit.Append(ctx, tx, audit.Entry{At: now, Actor: by, Action: "restored", Subject: "headquarters", Detail: detail})
	})
	return err
}

// loseRunning ends what runs as if its lease had ended: whether it was done
// nobody here knows. It counts as an attempt, since it may have been.
func loseRunning(ctx context.Context, tx *sqlite.Tx, now time.Time, changes *[]Change) (int, error) {
	running, err := sqlite.List(ctx, tx, scanTask, openTasks+` AND k.status = 'RUNNING'`)
	if err != nil {
		return 0, err
	}
	for _, t := range running {
		_, err := settle(ctx, tx, Answer{
			Attempt: Attempt{
				TaskID: t.TaskID, Attempt: t.State.Attempt, StoreID: t.StoreID, TerminalID: t.HolderID,
				Failure: &protocol.Failure{Code: protocol.CodeLeaseExpired, Message: "headquarters was restored from a backup that was made while the attempt ran"},
			},
			Event: task.Fail, Reason: task.ReasonLeaseExpired, RetryAt: now,
		}, now, changes)
		if err != nil {
			return 0, err
		}
	}
	return len(running), nil
}

// replace swaps the files. As long as the copy is there under its middle name,
// Open refuses what may be half of a database.
func replace(path, fresh string, now time.Time) (kept string, err error) {
	ready := path + sqlite.RestoringSuffix
	if err := os.Rename(fresh, ready); err != nil {
		return "", err
	}
	if err := custody.SyncFolder(filepath.Dir(path)); err != nil {
		return "", err
	}
	kept, err = setAside(path, now)
	if err == nil {
		err = os.Rename(ready, path)
	}
	return kept, errors.Join(err, custody.SyncFolder(filepath.Dir(path)))
}

// setAside moves the database, with the log that belongs to it, to a name that
// nothing has.
func setAside(path string, now time.Time) (kept string, err error) {
	name := path + ".replaced-" + now.UTC().Format("20060102T150405Z")
	kept = name
	for n := 2; taken(kept) || taken(kept+"-wal"); n++ {
		kept = fmt.Sprintf("%s-%d", name, n)
	}
	if err := os.Remove(path + "-shm"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if custody.Settled(path) { // a reader makes a log, and leaves it empty
		if err := os.Remove(path + "-wal"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	moved := false
	for _, suffix := range custody.Beside() {
		switch err := os.Rename(path+suffix, kept+suffix); {
		case err == nil:
			moved = true
		case !errors.Is(err, fs.ErrNotExist):
			return "", err
		}
	}
	if !moved {
		return "", nil
	}
	return kept, nil
}

func taken(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Epoch is how the database was begun: 0, or the number of the restore.
func (s *Store) Epoch(ctx context.Context) (int64, error) {
	epoch, err := noted(ctx, s.db.Readers(), "epoch")
	if err != nil {
		return 0, fmt.Errorf("cannot read the epoch: %w", err)
	}
	return epoch, nil
}
