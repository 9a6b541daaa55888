// Package store keeps everything headquarters knows in one SQLite file: runs
// and their frozen targets, tasks, execution records, outcomes, terminals,
// requests, keys, approvals and the audit. It is the only truth and the only SQL of the house.
//
// It decides nothing that a policy should decide and publishes nothing: it
// applies moves of internal/task under their guards, commits, and then tells
// observers. It never asks the time; callers pass it.
//
// On a full disk a write is answered with ErrNoSpace and leaves nothing, and the
// writer goes on by itself when there is room. What SQLite needs to end in order
// is nothing: to roll back, to close and to read write no byte. To begin it
// needs some: on a full disk the file that readers share cannot be made. And the
// first write that fails is the first that anybody hears of. So a ballast file
// holds room (measured: 60 single commits a MiB). It is let go at the first
// refusal, which is told and yet not passed on: what was being reported is still
// stored, and a restart finds room. It is made again when twice as much is free.
// Once it is spent, a restart needs none: what a start writes is owed (Owed).
//
// Open refuses what is damaged. A database that was closed in order is compared
// with the SHA-256 that was noted then (<file>.sha256, up to 512 MiB), since
// SQLite has no checksum of a page. After a crash there is no such hash. Then a log
// that lost what was committed is told from one that was cut short: by the commits
// that follow, and after a kill by the index beside it. Left to see is the structure
// and whether each index fits its table (up to 5 s); a byte that changed inside
// another value goes unseen.
package store

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"muster/dispatcher/internal/store/internal/audit"
	"muster/dispatcher/internal/store/internal/gatehouse"
	"muster/dispatcher/internal/store/internal/ledger"
	"muster/dispatcher/internal/store/internal/roster"
	"muster/dispatcher/internal/store/internal/sqlite"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// applicationID marks our files: "Mstr".
const applicationID = 0x4d737472

// ballastBytes is the room held for a full disk, unless said otherwise: about
// 480 commits one by one, of up to 512 operations each.
const ballastBytes = 8 << 20

// Options says which file to open. Readers below 1 means 4; a nil Logger
// discards. BallastBytes is the room held for a full disk: 0 means 8 MiB, less
// means none. Early has Open return before all pages are checked, unless it has to
// change them for a new schema; see Sound.
//
// Trouble, if any, is told when the disk refuses writes (ErrNoSpace, or what
// the system said), the database is damaged (ErrCorrupt) or was taken away (ErrGone,
// after which nothing is stored any more: it names where all was saved) and, with nil,
// when it takes them again: about a second after there is room, written or not. It is
// called like an observer.
type Options struct {
	Path         string
	Readers      int
	Logger       *slog.Logger
	BallastBytes int64
	Early        bool
	Trouble      func(err error)
	// Timed is told how long each commit took. It must return at once.
	Timed func(took time.Duration)
}

// Store is the open database. All methods are safe for concurrent use. A
// write returns after its commit was synced to disk. When a write's ctx ends
// first, the write is done wholly or not at all, and the caller does not learn
// which.
type Store struct {
	*roster.Roster       // places and terminals
	*ledger.Ledger       // revisions
	*gatehouse.Gatehouse // tokens, keys and approvals
	*audit.Trail         // who did what

	db        *sqlite.DB
	seen      ledger.Seen
	observers []func([]Change)
	foreseers []func(Run, []NewTask) func(bool)
}

// Open opens or creates the file, checks it, brings its schema up to date and
// drops revisions that were not completed. It fails with ErrLocked, ErrCorrupt,
// ErrNewerSchema, ErrRestoring or ErrNoSpace.
func Open(ctx context.Context, o Options) (*Store, error) {
	scripts, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return nil, fmt.Errorf("cannot read migrations: %w", err)
	}
	logger := o.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	db, err := sqlite.Open(ctx, sqlite.Options{
		Path: o.Path, Readers: o.Readers, Migrations: scripts, ApplicationID: applicationID,
		BallastBytes: cmp.Or(o.BallastBytes, ballastBytes), Early: o.Early, Trouble: o.Trouble, Timed: o.Timed,
		Lost: func(name string, err error) {
			logger.Error("what was owed since the start cannot be stored; start again", "owed", name, "error", err)
		},
	})
	if err != nil {
		return nil, err
	}
	s := &Store{Roster: roster.New(db), Gatehouse: gatehouse.New(db), db: db}
	if s.Trail, err = audit.Open(ctx, db); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot open database %s: %w", o.Path, db.Damaged(err)), s.Close())
	}
	s.Ledger, err = ledger.Open(Owed(ctx, "unfinished revisions"), db, &s.seen, logger, func(runID string, revision int) {
		s.tell([]Change{{Kind: RevisionReady, RunID: runID, Revision: revision}})
	})
	if err != nil && !errors.Is(err, ErrOwed) {
		return nil, errors.Join(fmt.Errorf("cannot open database %s: %w", o.Path, db.Damaged(err)), s.Close())
	}
	return s, nil
}

// ErrOwed says that a write under a context of Owed waits for room. Nothing of it
// is stored yet.
var ErrOwed = sqlite.ErrOwed

// Owed marks the context of a write that a start must not fail for. Without room
// for it, it fails with ErrOwed, and is done before anything else is written as
// soon as there is some. Of what is owed under one name the last counts.
func Owed(ctx context.Context, name string) context.Context { return sqlite.Owed(ctx, name) }

// Close finishes the writes that were handed over, and gives the file back.
// Calling it again is harmless.
func (s *Store) Close() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("cannot close the store: %w", err)
	}
	return nil
}

// Sound waits until the database is known to be sound, and returns ErrCorrupt with the
// way to restore when it is not, ErrClosed, or ctx's error. What was read before may be
// wrong: nothing follows from it that cannot be taken back, such as that a task is not
// known.
func (s *Store) Sound(ctx context.Context) error { return s.db.Sound(ctx) }

// Health returns nil when the disk takes writes, what it last refused when it
// does not (ErrNoSpace when it is full), and ErrClosed. It also reads a row.
func (s *Store) Health(ctx context.Context) error {
	err := s.db.Trouble()
	if errors.Is(err, sqlite.ErrNoReserve) {
		return fmt.Errorf("everything is stored still, but the disk is nearly full: %w", err)
	}
	if err != nil {
		return fmt.Errorf("cannot store anything: %w", err)
	}
	_, err = s.LastNumber(ctx)
	return err
}

// Observe adds an observer; call it before the first use. Observers are called
// after each commit, in commit order, from one goroutine that is not the
// writer's, after the writing caller was answered. They must return at once:
// what is committed meanwhile waits in memory. They must not change what they
// are given. Close returns after the last call.
func (s *Store) Observe(observer func([]Change)) {
	s.observers = append(s.observers, observer)
}

// Foresee adds who is told of a run that is about to be created, before its commit
// and at once before the caller waits for it; call it before the first use. What f
// returns is called once that ended, and told whether the run is there: RunCreated
// says so too, before or after. f and that must return at once, change nothing of
// what they are given, and tell nobody: all may have been for nothing.
func (s *Store) Foresee(f func(run Run, tasks []NewTask) (over func(created bool))) {
	s.foreseers = append(s.foreseers, f)
}

func (s *Store) tell(changes []Change) {
	for _, observe := range s.observers {
		observe(changes)
	}
}

// op is one write. It may run twice, so it starts from nothing each time and
// appends what observers are to be told.
type op[T any] func(tx *sqlite.Tx, changes *[]Change) (T, error)

func write[T any](ctx context.Context, s *Store, run op[T]) (T, error) {
	return writePinned(ctx, s, run, nil)
}

func writePinned[T any](ctx context.Context, s *Store, run op[T], pin func() error) (T, error) {
	var out, none T
	var changes []Change
	err := s.db.Write(ctx, sqlite.Op{
		Run: func(tx *sqlite.Tx) (err error) {
			changes = nil
			out, err = run(tx, &changes)
			return err
		},
		Pin: pin,
		Committed: func() {
			if len(changes) > 0 {
				s.tell(changes)
			}
		},
	})
	if err != nil {
		// out may still be written by the writer when ctx ended.
		return none, err
	}
	return out, nil
}
