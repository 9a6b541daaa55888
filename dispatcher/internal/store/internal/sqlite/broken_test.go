package sqlite_test

import (
	"errors"
	"testing"
	"testing/synctest"

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
			sqlite.Op{Run: insert("b")})
		for i, broke := range []bool{false, true, true, false, false} {
			if got := errors.Is(errs[i], sqlite.ErrBroken); got != broke {
				t.Errorf("operation %d: broken %t, %v", i, got, errs[i])
			}
		}
		if !errors.Is(errs[3], mine) {
			t.Errorf("an operation's own error is %v", errs[3])
		}
		if got := words(t, db.Readers()); len(got) != 2 {
			t.Errorf("stored %v", got)
		}
		if db.Trouble() != nil {
			t.Errorf("the disk is blamed: %v", db.Trouble())
		}
	})
}
