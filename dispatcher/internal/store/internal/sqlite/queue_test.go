package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"
	"weak"

	"muster/dispatcher/internal/store/internal/sqlite"
)

// TestNothingIsKeptOfCallersThatLeave while the writer hangs: each retry would wait
// behind the one before.
func TestNothingIsKeptOfCallersThatLeave(t *testing.T) {
	t.Parallel()
	db := setup(t)
	hangs, release := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- db.Write(t.Context(), sqlite.Op{Run: func(*sqlite.Tx) error { close(hangs); <-release; return nil }})
	}()
	<-hangs
	left := leave(t, db)
	for end := time.Now().Add(5 * time.Second); left.Value() != nil; runtime.GC() {
		if time.Now().After(end) {
			close(release)
			t.Fatal("what a caller left behind is kept")
		}
	}
	close(release)
	if err := errors.Join(<-done, db.Write(t.Context(), sqlite.Op{Run: insert("after")})); err != nil {
		t.Error(err)
	}
	if got := words(t, db.Readers()); !slices.Equal(got, []string{"after"}) {
		t.Errorf("stored %v", got)
	}
}

// leave asks for something large to be written, does not wait for it, and returns
// where it was.
func leave(t *testing.T, db *sqlite.DB) weak.Pointer[[1 << 20]byte] {
	t.Helper()
	result := new([1 << 20]byte)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := db.Write(ctx, sqlite.Op{Run: func(tx *sqlite.Tx) error { return insert(fmt.Sprint(len(result), result[0]))(tx) }})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("told %v", err)
	}
	return weak.Make(result)
}
