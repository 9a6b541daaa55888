package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"muster/dispatcher/internal/store/internal/custody"
)

const (
	// maxBatch bounds how many operations share one commit, so that the first
	// of them does not wait for an endless stream behind it.
	maxBatch = 512
	// bulkRows is how many rows one INSERT statement takes.
	bulkRows = 100
)

// Op is one all-or-nothing operation. Run may be called twice: when another
// operation of its group fails, the group is rolled back and each runs alone.
type Op struct {
	// Run does the work. An error or a panic undoes all of it.
	Run func(*Tx) error
	// Pin, if any, runs after the commit and before anything else is
	// committed; its error is returned to the caller, the commit stays.
	Pin func() error
	// Committed, if any, runs after the callers of the group were answered, in
	// commit order, in one goroutine for all operations: it must return at
	// once, since what follows waits in memory.
	Committed func()
}

type request struct {
	op      Op
	ctx     context.Context
	done    chan struct{}
	skipped error // the caller went away before the work began
	err     error
}

type writer struct {
	conn   *sql.Conn
	queue  queue
	quit   chan struct{}
	once   sync.Once
	ended  chan struct{}
	stmts  map[string]*sql.Stmt // of reads
	direct direct
	told   *teller

	trouble trouble
	ballast ballast
	path    string
	guard   *custody.Guard
	pace    custody.Pace
	gone    error     // ErrGone: nothing is written any more
	checked time.Time // when damage was last looked for
	owed    []debt
	lost    func(name string, err error) // may be nil
	timed   func(took time.Duration)
}

func startWriter(conn *sql.Conn, path string, held ballast, guard *custody.Guard, o Options) *writer {
	w := &writer{
		conn:    conn,
		trouble: trouble{tell: o.Trouble, known: true}, // a calm start is no news
		ballast: held,
		path:    path,
		guard:   guard,
		pace:    custody.Paced(path),
		queue:   queue{wake: make(chan struct{}, 1)},
		quit:    make(chan struct{}),
		ended:   make(chan struct{}),
		stmts:   map[string]*sql.Stmt{},
		told:    startTeller(),
		lost:    o.Lost,
		timed:   o.Timed,
	}
	w.trouble.note(held.hold())
	go w.loop()
	return w
}

// Write hands the operation to the writer and waits for its commit. It returns
// ErrClosed when the database is closed, ErrCorrupt when it turned out to be damaged
// (see Early), ErrNoSpace when the disk is full (ErrOwed under a context of Owed), and
// ctx's error when the caller stopped waiting: the operation is then done wholly or not
// at all.
func (db *DB) Write(ctx context.Context, op Op) error {
	select {
	case <-db.writer.quit:
		return ErrClosed
	default:
	}
	if err := db.admit(ctx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	r := &request{op: op, ctx: ctx, done: make(chan struct{})}
	if !db.writer.queue.put(r) {
		return ErrClosed
	}
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		db.writer.queue.drop(r)
		return ctx.Err()
	}
}

func (w *writer) stop() error {
	w.once.Do(func() { close(w.quit) })
	<-w.ended
	w.told.stop()
	for _, stmt := range w.stmts {
		_ = stmt.Close() // the connection goes next
	}
	_ = w.direct.close(w.conn)
	w.pace.End(w.guard.LookAtFile() == nil)
	return w.conn.Close()
}

func (w *writer) loop() {
	defer close(w.ended)
	defer w.queue.close()
	look := time.NewTicker(calmInterval)
	defer look.Stop()
	for {
		if tell, fresh := w.trouble.news(); fresh {
			w.told.tell(tell)
		}
		select {
		case <-w.quit:
			return
		case <-w.queue.wake:
			// While one group is synced the next one gathers by itself.
			if group := w.queue.take(); len(group) > 0 {
				w.commit(group)
				clear(group) // results are large, and the next group may be a long time coming
			}
		case <-look.C:
			w.noteIfBad(w.whole())
			w.recover()
		}
	}
}

// recover ends a spell of trouble once the ballast is held again and something
// was written: a small commit may fit into the log of a disk that is still full.
func (w *writer) recover() {
	trouble := w.trouble.err()
	if trouble == nil || w.whole() != nil || w.ballast.hold() != nil || errors.Is(trouble, custody.ErrCorrupt) && !w.mended() {
		return
	}
	if err := w.write([]*request{{op: Op{Run: touch}, ctx: context.Background()}}); err == nil {
		w.trouble.note(nil)
	}
}

// mendedInterval is how often a damaged database is read whole: nothing is written
// meanwhile, 0.2 s for 100,000 tasks.
const mendedInterval = 30 * time.Second

// mended reports whether a database that was damaged is not any more.
func (w *writer) mended() bool {
	if time.Since(w.checked) < mendedInterval {
		return false
	}
	w.checked = time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), usualCheck)
	defer cancel()
	return Check(ctx, connection{w.conn}) == nil
}

// connection reads past the statements that are kept.
type connection struct{ *sql.Conn }

// whole fails when the database is not in its place any more; then it never is again.
func (w *writer) whole() error {
	if w.gone != nil {
		return w.gone
	}
	err := w.guard.Look()
	if errors.Is(err, custody.ErrGone) {
		w.gone = w.rescue(err)
		err = w.gone
	}
	return err
}

// noteIfBad notes what says that the medium, or the file on it, is to blame.
func (w *writer) noteIfBad(err error) {
	if failing(err) {
		w.trouble.note(named(err))
	}
}

// saw takes an error of a read.
func (w *writer) saw(err error) {
	if err = noSpace(err); !errors.Is(err, ErrNoSpace) { // which the next write says as well
		w.noteIfBad(err)
	}
}

// touch writes one page that says the same as before.
func touch(tx *Tx) error {
	version, err := One(context.Background(), tx, func(row Row) (n int64, err error) {
		err = row.Scan(&n)
		return n, err
	}, "PRAGMA user_version")
	if err == nil {
		err = tx.w.exec(fmt.Sprintf("PRAGMA user_version = %d", version))
	}
	return tx.fail(err)
}

func (w *writer) commit(group []*request) {
	err := w.attempt(group)
	if err == nil || len(group) == 1 || errors.Is(err, errCommitted) {
		w.answer(group, err)
		return
	}
	for _, r := range group {
		alone := []*request{r}
		w.answer(alone, w.attempt(alone))
	}
}

// attempt is write, and once more with the room that the ballast held when the
// disk is full.
func (w *writer) attempt(group []*request) error {
	began := time.Now()
	err := w.write(group)
	if !failing(err) {
		if err == nil && w.timed != nil {
			w.timed(time.Since(began))
		}
		return err
	}
	w.trouble.note(named(err))
	if errors.Is(err, ErrNoSpace) && w.ballast.release() {
		err = w.write(group)
	}
	return err
}

func (w *writer) answer(group []*request, err error) {
	told := make([]func(), 0, len(group))
	stored := err == nil || errors.Is(err, errCommitted) && !errors.Is(err, custody.ErrGone)
	for _, r := range group {
		switch r.err = err; {
		case err == nil:
			r.err = r.skipped
		case errors.Is(err, ErrNoSpace) && w.owe(r):
			r.err = ErrOwed
		}
		if r.err == nil && r.op.Pin != nil {
			r.err = guarded(r.op.Pin)
		}
		if stored && r.skipped == nil && r.op.Committed != nil {
			told = append(told, r.op.Committed)
		}
		close(r.done)
	}
	w.told.tell(told...)
}

// errCommitted says that a group is stored, in a file that turned out not to be sound
// right after. Its callers are told no more than that it failed. Who follows what is
// stored is told of it all the same, unless nothing follows any more: should the file be
// put right, what nobody knows of would wait there until the next start.
var errCommitted = errors.New("it was committed before this was seen")

// transact runs the group in one transaction, or leaves nothing of it, unless it fails
// with errCommitted. No caller's context reaches SQLite: a cancelled one would roll back
// in silence and let what follows commit by itself.
func (w *writer) transact(group []*request) (err error) {
	defer func() { err = noSpace(err) }()
	if err := w.whole(); err != nil {
		return err
	}
	if err := w.exec("BEGIN IMMEDIATE"); err != nil {
		return fmt.Errorf("cannot begin: %w", err)
	}
	tx := &Tx{w: w}
	for _, r := range group {
		if r.skipped = r.ctx.Err(); r.skipped != nil {
			continue
		}
		tx.failed = nil
		if err := runOne(r.op, tx); err != nil {
			return errors.Join(err, w.rollback())
		}
	}
	w.pace.Step()
	if err := w.exec("COMMIT"); err != nil {
		return errors.Join(fmt.Errorf("cannot commit: %w", err), w.rollback())
	}
	if err := w.whole(); err != nil { // it went where nobody finds it
		return fmt.Errorf("%w: %w", errCommitted, err)
	}
	if w.guard.Logged() { // what changed nothing is not
		w.pace.Begin()
	}
	return nil
}

func runOne(op Op, tx *Tx) error {
	if err := guarded(func() error { return op.Run(tx) }); err != nil {
		return broken(err)
	}
	return broken(tx.failed)
}

// guarded keeps a panic of one caller's work from ending all.
func guarded(work func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: it panicked: %v\n%s", ErrBroken, p, debug.Stack())
		}
	}()
	return work()
}

func (w *writer) exec(text string) error {
	_, err := w.conn.ExecContext(context.Background(), text)
	return err
}

// rollback tolerates that SQLite rolled back by itself, as it does when the
// disk is full.
func (w *writer) rollback() error {
	err := w.exec("ROLLBACK")
	if err != nil && strings.Contains(err.Error(), "no transaction is active") {
		return nil
	}
	return err
}
