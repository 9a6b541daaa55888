package files

import (
	"context"
	"fmt"
	"io/fs"
	"os"
)

// CheckPlain refuses what stands in the place of a file and may never be read to its
// end: a pipe, a socket, a device. A start may read a pipe, once; what is read again,
// or while others wait, is a regular file. What is not there, and a folder, reading
// itself refuses.
func CheckPlain(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return nil //nolint:nilerr // whoever reads it says why not
	}
	if err := Plain(info.Mode()); err != nil {
		return fmt.Errorf("%s %w", path, err)
	}
	return nil
}

// Plain is CheckPlain by the mode of a file; its error goes on from the file's name.
func Plain(mode fs.FileMode) error {
	what := "a device"
	switch {
	case mode.IsRegular(), mode.IsDir():
		return nil
	case mode&fs.ModeNamedPipe != 0:
		what = "a pipe"
	case mode&fs.ModeSocket != 0:
		what = "a socket"
	}
	return fmt.Errorf("is %s, not a regular file: put a regular file in its place", what)
}

// ReadPlain is Read after CheckPlain.
func ReadPlain(path string) ([]byte, error) {
	if err := CheckPlain(path); err != nil {
		return nil, err
	}
	return Read(path)
}

// Await returns what read returns, or ctx's error, which is wrapped, once ctx ends: a
// pipe into which nobody writes, or a disk that is away, may hold read up for ever. It
// is left behind then, and what it returns is lost. A panic of read is the caller's.
func Await[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type outcome struct {
		value    T
		err      error
		panicked any
	}
	ended := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() {
			o.panicked = recover()
			ended <- o
		}()
		o.value, o.err = read()
	}()
	select {
	case o := <-ended:
		if o.panicked != nil {
			panic(o.panicked)
		}
		return o.value, o.err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("files were not read to their end; one of them may be a pipe into which nobody writes, or on a disk that is away: %w", ctx.Err())
	}
}
