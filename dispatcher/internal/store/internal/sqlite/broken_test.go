package sqlite_test

import (
	"errors"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"

	"muster/dispatcher/internal/store/internal/custody"
	"muster/dispatcher/internal/store/internal/sqlite"
)

// What breaks by itself must be told from a disk that refuses: the one breaks
// again however often it is tried, and must not undo its neighbours.
func TestAnOperationThatBreaksIsToldFromADiskThatRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := setup(t)
		mine := errors.New("mine")
		errs := together(t.Context(), t, db,
			sqlite.Op{Run: insert("a")},
			sqlite.Op{Run: func(*sqlite.Tx) error { panic("poisoned") }},
			sqlite.Op{Run: insert("a")}, // words are unique
			sqlite.Op{Run: func(*sqlite.Tx) error { return mine }},
			sqlite.Op{Run: insert("b")},
			sqlite.Op{Run: insert("c"), Pin: func() error { panic("poisoned after the commit") }})
		for i, broke := range []bool{false, true, true, false, false, true} {
			if got := errors.Is(errs[i], sqlite.ErrBroken); got != broke {
				t.Errorf("operation %d: broken %t, %v", i, got, errs[i])
			}
		}
		if !errors.Is(errs[3], mine) {
			t.Errorf("an operation's own error is %v", errs[3])
		}
		if got := words(t, db.Readers()); len(got) != 3 {
			t.Errorf("stored %v", got)
		}
		if db.Trouble() != nil {
			t.Errorf("the disk is blamed: %v", db.Trouble())
		}
	})
}

// What is owed and breaks although there is room must not keep all else from being
// written, as it would if it were tried before each write for ever.
func TestWhatIsOwedAndCannotBeDoneIsToldAndGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lost []string
		db := setup(t, func(o *sqlite.Options) {
			o.Lost = func(name string, err error) { lost = append(lost, name+": "+err.Error()) }
		})
		tries := 0
		err := db.Write(sqlite.Owed(t.Context(), "x"), sqlite.Op{Run: func(*sqlite.Tx) error {
			if tries++; tries == 1 {
				return syscall.ENOSPC
			}
			return errors.New("never again")
		}})
		if !errors.Is(err, sqlite.ErrOwed) {
			t.Fatalf("without room: %v", err)
		}
		for _, word := range []string{"a", "b"} {
			if err := db.Write(t.Context(), sqlite.Op{Run: insert(word)}); err != nil {
				t.Errorf("%s: %v", word, err)
			}
		}
		synctest.Wait()
		if tries != 2 || len(lost) != 1 || lost[0] != "x: never again" {
			t.Errorf("tried %d times, told %q", tries, lost)
		}
	})
}

// A database that is overwritten is not written to. What was committed right before
// that was seen is told to whoever follows, once, although its callers hear an error.
func TestWhatIsCommittedToABrokenFileIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var path string
		db := setup(t, func(o *sqlite.Options) { path = o.Path })
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = file.Close() })
		header := make([]byte, 16)
		if _, err = file.ReadAt(header, 0); err != nil {
			t.Fatal(err)
		}
		var told []string
		runs := 0
		op := func(word string, also func() error) sqlite.Op {
			return sqlite.Op{
				Run: func(tx *sqlite.Tx) error {
					runs++
					return errors.Join(insert(word)(tx), also())
				},
				Committed: func() { told = append(told, word) },
			}
		}
		nothing := func() error { return nil }
		errs := together(t.Context(), t, db, op("a", nothing), op("b", func() error {
			_, err := file.WriteAt(make([]byte, len(header)), 0)
			return err
		}))
		errs = append(errs, db.Write(t.Context(), op("never", nothing)))
		synctest.Wait()
		for i, err := range errs {
			if !errors.Is(err, custody.ErrCorrupt) {
				t.Errorf("write %d: %v", i, err)
			}
		}
		if _, err := file.WriteAt(header, 0); err != nil {
			t.Fatal(err)
		}
		if err := db.Write(t.Context(), op("c", nothing)); err != nil {
			t.Errorf("put right: %v", err)
		}
		synctest.Wait()
		if got := words(t, db.Readers()); !slices.Equal(got, []string{"a", "b", "c"}) || !slices.Equal(told, got) || runs != 3 {
			t.Errorf("stored %q, told %q, ran %d operations", got, told, runs)
		}
	})
}
