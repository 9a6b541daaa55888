package sqlite

import (
	"errors"
	"fmt"
	"os"
)

// ErrNoReserve says that what is written is stored, and there is no room for the ballast.
var ErrNoReserve = errors.New("no room is left in reserve")

// ballast is a file that holds room on the disk for the writer. It is let go
// when the disk is full and made again when there is room.
type ballast struct {
	path  string
	bytes int64 // below 1: there is none
}

// hold makes the file unless it is there. It asks for twice the room and gives
// half of it back, so that a disk with just enough does not let the ballast
// come and go.
func (b ballast) hold() error {
	if b.bytes < 1 {
		return nil
	}
	if info, err := os.Stat(b.path); err == nil && info.Size() == b.bytes {
		return nil
	}
	if err := b.make(); err != nil {
		b.release()
		return fmt.Errorf("%w: %w: %d MiB cannot be held in %s: %w", ErrNoSpace, ErrNoReserve, b.bytes>>20, b.path, err)
	}
	return nil
}

func (b ballast) make() error {
	file, err := os.OpenFile(b.path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err = reserve(file, 2*b.bytes); err == nil {
		err = file.Truncate(b.bytes)
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// release gives the room to the database, and tells whether there was any.
func (b ballast) release() bool {
	return b.bytes > 0 && os.Remove(b.path) == nil
}

// fill writes n bytes that no file system can leave out.
func fill(file *os.File, n int64) error {
	block := make([]byte, 64<<10)
	for i := range block {
		block[i] = byte(i*i>>7 + i)
	}
	for ; n > 0; n -= int64(len(block)) {
		if _, err := file.Write(block[:min(n, int64(len(block)))]); err != nil {
			return err
		}
	}
	return nil
}
