package files_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/internal/files"
)

func TestOnlyRegularFilesArePlain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := files.ReadPlain(path); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := files.ReadPlain(os.DevNull); err == nil || !strings.Contains(err.Error(), os.DevNull+" is a device, not a regular file") {
		t.Errorf("%v", err)
	}
	if err := files.CheckPlain(path + ".gone"); err != nil {
		t.Errorf("what is not there, reading refuses: %v", err)
	}
}

func TestAwaitLeavesBehindWhatNeverEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	never := make(chan int)
	defer close(never)
	began := make(chan struct{})
	go func() { <-began; cancel() }()
	if n, err := files.Await(ctx, func() (int, error) { close(began); return <-never + 1, nil }); !errors.Is(err, context.Canceled) || n != 0 {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := files.Await(t.Context(), func() (int, error) { return 7, nil }); n != 7 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	defer func() {
		if cause := recover(); cause != "no" {
			t.Errorf("the panic was %v", cause)
		}
	}()
	_, _ = files.Await(t.Context(), func() (int, error) { panic("no") })
}
