package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"
	"weak"

	"muster/dispatcher/internal/store/internal/sqlite"
)

const schema = `CREATE TABLE words (id INTEGER PRIMARY KEY, word TEXT NOT NULL UNIQUE) STRICT;`

func files(scripts ...string) fstest.MapFS {
	out := fstest.MapFS{}
	for i, script := range scripts {
		out[fmt.Sprintf("%04d_step.sql", i+1)] = &fstest.MapFile{Data: []byte(script)}
	}
	return out
}

func setup(t *testing.T, change ...func(*sqlite.Options)) *sqlite.DB {
	t.Helper()
	o := sqlite.Options{Path: filepath.Join(t.TempDir(), "x.db"), Migrations: files(schema), ApplicationID: 7}
	for _, f := range change {
		f(&o)
	}
	db, err := sqlite.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n := db.Readers().InUse() + db.Streams().InUse(); n != 0 {
			t.Errorf("%d read connections are still in use", n)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func insert(word string) func(*sqlite.Tx) error {
	return func(tx *sqlite.Tx) error {
		_, err := tx.Exec("INSERT INTO words (word) VALUES (?)", word)
		return err
	}
}

func words(t *testing.T, q sqlite.Querier) []string {
	t.Helper()
	found, err := sqlite.List(t.Context(), q, func(row sqlite.Row) (w string, err error) {
		err = row.Scan(&w)
		return w, err
	}, "SELECT word FROM words ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// together makes the operations share one group: the writer is kept busy until
// all of them wait. It returns each one's error. The test runs in a synctest
// bubble, which knows when they do.
func together(ctx context.Context, t *testing.T, db *sqlite.DB, ops ...sqlite.Op) []error {
	t.Helper()
	release := make(chan struct{})
	errs := make([]error, len(ops))
	var wg sync.WaitGroup
	wg.Go(func() {
		err := db.Write(t.Context(), sqlite.Op{Run: func(*sqlite.Tx) error { <-release; return nil }})
		if err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	for i, op := range ops {
		wg.Go(func() { errs[i] = db.Write(ctx, op) })
		synctest.Wait() // so that they wait in this order
	}
	close(release)
	wg.Wait()
	return errs
}

func TestPoisonedOperationFailsAlone(t *testing.T) {
	t.Parallel()
	poisons := map[string]func(*sqlite.Tx) error{
		"error": func(tx *sqlite.Tx) error {
			return errors.Join(insert("half")(tx), errors.New("poison"))
		},
		"panic": func(tx *sqlite.Tx) error {
			if err := insert("half")(tx); err != nil {
				return err
			}
			panic("poison")
		},
		"hidden SQL error": func(tx *sqlite.Tx) error {
			if err := insert("half")(tx); err != nil {
				return err
			}
			_ = insert("half")(tx) // breaks UNIQUE, and is not told
			return nil
		},
	}
	for name, poison := range poisons {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { poisoned(t, poison) })
		})
	}
}

func poisoned(t *testing.T, poison func(*sqlite.Tx) error) {
	db := setup(t)
	var ops []sqlite.Op
	var mu sync.Mutex
	told := 0
	for i := range 20 {
		run := insert(fmt.Sprint("w", i))
		if i == 11 {
			run = poison
		}
		ops = append(ops, sqlite.Op{Run: run, Committed: func() {
			mu.Lock()
			defer mu.Unlock()
			told++
		}})
	}
	for i, err := range together(t.Context(), t, db, ops...) {
		if (err != nil) != (i == 11) {
			t.Errorf("operation %d: %v", i, err)
		}
	}
	if err := db.Write(t.Context(), sqlite.Op{Run: insert("after")}); err != nil {
		t.Error(err)
	}
	got := words(t, db.Readers())
	if len(got) != 20 || slices.Contains(got, "half") {
		t.Errorf("stored %v", got)
	}
	synctest.Wait()
	mu.Lock()
	defer mu.Unlock()
	if told != 19 {
		t.Errorf("%d were told of their commit, want 19", told)
	}
}

func TestFullDiskFailsOneWriteAndTheNextGoesOn(t *testing.T) {
	t.Parallel()
	db := setup(t)
	limit := func(pages int) func(*sqlite.Tx) error {
		return func(tx *sqlite.Tx) error {
			_, err := tx.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", pages))
			return err
		}
	}
	steps := []struct {
		run   func(*sqlite.Tx) error
		fails bool
	}{
		{limit(20), false},
		{insert("before"), false},
		{insert(strings.Repeat("x", 200_000)), true},
		{insert("between"), false},
		{limit(1000), false},
		{insert(strings.Repeat("x", 200_000)), false},
	}
	for i, step := range steps {
		err := db.Write(t.Context(), sqlite.Op{Run: step.run})
		if (err != nil) != step.fails || err != nil && !strings.Contains(err.Error(), "full") {
			t.Errorf("step %d: %v", i, err)
		}
	}
	if got := words(t, db.Readers()); len(got) != 3 || got[0] != "before" || got[1] != "between" {
		t.Errorf("%d rows", len(got))
	}
}

func TestGroupSharesOneCommitAndIsToldInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := setup(t)
		var inside, told []string
		var ops []sqlite.Op
		for i := range 50 {
			word := fmt.Sprint("w", i)
			ops = append(ops, sqlite.Op{
				Run: func(tx *sqlite.Tx) error {
					if len(words(t, db.Readers())) != 0 {
						t.Error("a part of the group is committed already")
					}
					inside = append(inside, word)
					return insert(word)(tx)
				},
				Committed: func() {
					if n := len(words(t, db.Readers())); n != 50 {
						t.Errorf("told before the commit: %d rows", n)
					}
					told = append(told, word)
				},
			})
		}
		for _, err := range together(t.Context(), t, db, ops...) {
			if err != nil {
				t.Error(err)
			}
		}
		if err := db.Close(); err != nil { // everything is told once Close returns
			t.Fatal(err)
		}
		if len(told) != 50 || !slices.Equal(inside, told) {
			t.Errorf("committed %v, told %v", inside, told)
		}
	})
}

// TestNothingIsKeptOfWhatWasCommitted, not even until the next commit: a result may have
// megabytes.
func TestNothingIsKeptOfWhatWasCommitted(t *testing.T) {
	t.Parallel()
	db := setup(t)
	kept := commitLarge(t, db)
	for end := time.Now().Add(5 * time.Second); kept.Value() != nil; runtime.GC() {
		if time.Now().After(end) {
			t.Fatal("what was committed is kept")
		}
	}
}

// commitLarge commits something large, and returns where it was.
func commitLarge(t *testing.T, db *sqlite.DB) weak.Pointer[[1 << 20]byte] {
	t.Helper()
	result := new([1 << 20]byte)
	err := db.Write(t.Context(), sqlite.Op{
		Run:       func(tx *sqlite.Tx) error { return insert(fmt.Sprint(len(result), result[0]))(tx) },
		Committed: func() { runtime.KeepAlive(result) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return weak.Make(result)
}

func TestCallerThatLeavesCutsNothing(t *testing.T) {
	t.Parallel()
	db := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	goOn := make(chan struct{})
	committed := make(chan struct{})
	result := make(chan error, 1)
	go func() {
		result <- db.Write(ctx, sqlite.Op{
			Run: func(tx *sqlite.Tx) error {
				if err := insert("first")(tx); err != nil {
					return err
				}
				cancel()
				<-goOn
				return insert("second")(tx)
			},
			Committed: func() { close(committed) },
		})
	}()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller was told %v", err)
	}
	close(goOn)
	<-committed
	if got := words(t, db.Readers()); len(got) != 2 {
		t.Errorf("stored %v, want all of it", got)
	}
	if err := db.Write(ctx, sqlite.Op{Run: insert("never")}); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that ended before: %v", err)
	}
	if got := words(t, db.Readers()); len(got) != 2 {
		t.Errorf("stored %v", got)
	}
}

func TestCallersThatLeaveAGroupAreLeftOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := setup(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		// The second begins before its caller leaves and is done wholly, the
		// third would begin after.
		errs := together(ctx, t, db,
			sqlite.Op{Run: insert("a")},
			sqlite.Op{Run: func(tx *sqlite.Tx) error { cancel(); return insert("b")(tx) }},
			sqlite.Op{Run: insert("never")},
		)
		if !errors.Is(errs[2], context.Canceled) {
			t.Errorf("the caller that left was told %v", errs[2])
		}
		if err := db.Write(t.Context(), sqlite.Op{Run: insert("c")}); err != nil {
			t.Error(err)
		}
		if got := words(t, db.Readers()); !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("stored %v", got)
		}
	})
}

func TestPinnedViewEndsItsGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := setup(t)
		view, err := db.View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var ops []sqlite.Op
		for i := range 10 {
			ops = append(ops, sqlite.Op{Run: insert(fmt.Sprint("w", i))})
		}
		ops = append(ops, sqlite.Op{Run: insert("mark"), Pin: view.Pin})
		for i := range 10 {
			ops = append(ops, sqlite.Op{Run: insert(fmt.Sprint("x", i))})
		}
		for _, err := range together(t.Context(), t, db, ops...) {
			if err != nil {
				t.Error(err)
			}
		}
		all := words(t, db.Readers())
		seen := words(t, view)
		if len(all) != 21 {
			t.Errorf("%d rows", len(all))
		}
		if len(seen) != 11 || seen[10] != "mark" || !slices.Equal(seen, all[:11]) {
			t.Errorf("the view sees %v of %v", seen, all)
		}
		for range 2 {
			if err := view.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestPinThatFailsKeepsTheCommit(t *testing.T) {
	t.Parallel()
	db := setup(t)
	err := db.Write(t.Context(), sqlite.Op{Run: insert("a"), Pin: func() error { return errors.New("no pin") }})
	if err == nil || err.Error() != "no pin" {
		t.Errorf("told %v", err)
	}
	if got := words(t, db.Readers()); len(got) != 1 {
		t.Errorf("stored %v", got)
	}
}

func TestReadersCannotWrite(t *testing.T) {
	t.Parallel()
	db := setup(t)
	for name, pool := range map[string]*sqlite.Pool{"readers": db.Readers(), "streams": db.Streams()} {
		err := sqlite.Each(t.Context(), pool, func(*sql.Rows) error { return nil }, "INSERT INTO words (word) VALUES ('x') RETURNING id")
		if err == nil {
			t.Errorf("%s wrote", name)
		}
	}
	if got := words(t, db.Readers()); len(got) != 0 {
		t.Errorf("stored %v", got)
	}
}

func TestRowsAreGivenBackWhateverHappens(t *testing.T) {
	t.Parallel()
	db := setup(t)
	for i := range 10 {
		if err := db.Write(t.Context(), sqlite.Op{Run: insert(fmt.Sprint("w", i))}); err != nil {
			t.Fatal(err)
		}
	}
	scan := func(row sqlite.Row) (w string, err error) { return w, row.Scan(&w) }
	const query = "SELECT word FROM words"
	for _, err := range sqlite.Stream(t.Context(), db.Streams(), scan, query) {
		if err != nil {
			t.Error(err)
		}
		break
	}
	func() {
		defer func() { _ = recover() }()
		for _, err := range sqlite.Stream(t.Context(), db.Streams(), scan, query) {
			panic(fmt.Sprint("in the loop", err))
		}
	}()
	_, err := sqlite.List(t.Context(), db.Readers(), func(sqlite.Row) (int, error) { return 0, errors.New("bad row") }, query)
	if err == nil || err.Error() != "bad row" {
		t.Errorf("told %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	for _, err := range sqlite.Stream(ctx, db.Streams(), scan, query) {
		if n++; n == 1 {
			cancel()
		} else if err == nil {
			continue
		}
	}
	if used := db.Readers().InUse() + db.Streams().InUse(); used != 0 {
		t.Errorf("%d connections are still in use", used)
	}
}

func TestInsertOfAnyNumberOfRows(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 99, 100, 101, 250} {
		db := setup(t)
		err := db.Write(t.Context(), sqlite.Op{Run: func(tx *sqlite.Tx) error {
			return tx.Insert("INSERT INTO words (id, word)", sqlite.Placeholders(2), n, func(i int) []any { return []any{i + 1, fmt.Sprint(i)} })
		}})
		got := words(t, db.Readers())
		if err != nil || len(got) != n || n > 0 && got[n-1] != fmt.Sprint(n-1) {
			t.Errorf("%d rows: %d stored, %v", n, len(got), err)
		}
	}
}

func TestMigrationsRunOnceAndWholly(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	second := `INSERT INTO words (word) VALUES ('from the second');`
	steps := []struct {
		scripts []string
		fails   string
		words   []string
	}{
		{[]string{schema}, "", nil},
		{[]string{schema, second + "INSERT INTO nowhere VALUES (1);"}, "cannot migrate to schema version 2", nil},
		{[]string{schema, second}, "", []string{"from the second"}},
		{[]string{schema, second}, "", []string{"from the second"}},
		{[]string{schema}, "has schema version 2, this program knows up to 1", nil},
	}
	for i, step := range steps {
		db, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Migrations: files(step.scripts...), ApplicationID: 7})
		if step.fails != "" {
			if err == nil || !strings.Contains(err.Error(), step.fails) {
				t.Errorf("step %d: %v", i, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		if got := words(t, db.Readers()); !slices.Equal(got, step.words) {
			t.Errorf("step %d: %v", i, got)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
	gap := fstest.MapFS{"0002_late.sql": &fstest.MapFile{}}
	_, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "y.db"), Migrations: gap})
	if err == nil || !strings.Contains(err.Error(), "number 0001 is next") {
		t.Errorf("a gap: %v", err)
	}
}

func TestCheckThatTakesTooLongDoesNotHoldUpTheStart(t *testing.T) {
	t.Parallel()
	o := sqlite.Options{Path: filepath.Join(t.TempDir(), "x.db"), Migrations: files(schema), ApplicationID: 7}
	db, err := sqlite.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Write(t.Context(), sqlite.Op{Run: func(tx *sqlite.Tx) error {
		return tx.Insert("INSERT INTO words (word)", "(?)", 50_000, func(i int) []any { return []any{fmt.Sprint("word ", i)} })
	}})
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	o.CheckFor = 1
	if db, err = sqlite.Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Write(t.Context(), sqlite.Op{Run: insert("more")}); err != nil {
		t.Error(err)
	}
	if n := len(words(t, db.Readers())); n != 50_001 {
		t.Errorf("%d words", n)
	}
}
