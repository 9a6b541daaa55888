package auditor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"

	"muster/dispatcher/internal/store"
)

const (
	headsFile  = "audit/heads.jsonl"
	folderMode = 0o755 // heads are for reading, and best copied elsewhere
	fileMode   = 0o644
)

// book is the file of heads: one line each, only ever added to. The folder is
// opened anew each time, since it may be a share that comes and goes.
type book struct{ folder string }

func (b *book) inFolder(do func(root *os.Root) error) error {
	root, err := os.OpenRoot(b.folder)
	if err != nil {
		return fmt.Errorf("cannot open the reports folder: %w", err)
	}
	defer func() { _ = root.Close() }() // every line was synced
	return do(root)
}

// open makes the file if it is not there and returns the newest head in it.
func (b *book) open() (newest store.AuditHead, ok bool, err error) {
	err = b.inFolder(func(root *os.Root) error {
		if err := root.MkdirAll(path.Dir(headsFile), folderMode); err != nil {
			return err
		}
		err := withFile(root, func(_ *os.File, last []byte) error {
			n, err := parse(last)
			if err == nil {
				newest, ok = n.head(), true
			}
			return nil // what cannot be read is for the verification to tell
		})
		if err != nil {
			return err
		}
		return syncFolders(root)
	})
	return newest, ok, err
}

// add puts one line at the end, on the disk when it returns.
func (b *book) add(line []byte) error {
	return b.inFolder(func(root *os.Root) error {
		return withFile(root, func(file *os.File, _ []byte) error {
			if _, err := file.Write(append(line, '\n')); err != nil {
				return err
			}
			return file.Sync()
		})
	})
}

// withFile opens the file behind its last whole line, which it hands over too.
func withFile(root *os.Root, do func(file *os.File, last []byte) error) (err error) {
	file, err := root.OpenFile(headsFile, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := file.Close(); err == nil {
			err = closeErr
		}
	}()
	last, err := lastLine(file)
	if err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	return do(file, last)
}

// lastLine returns the last whole line, and cuts off what stands behind it: a
// line that a crash or a full disk cut short said nothing, and would spoil the
// next one.
func lastLine(file *os.File) ([]byte, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	tail := make([]byte, min(info.Size(), 2*maxLine))
	if _, err := file.ReadAt(tail, info.Size()-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	whole := tail[:bytes.LastIndexByte(tail, '\n')+1]
	if torn := len(tail) - len(whole); torn > 0 {
		if err := file.Truncate(info.Size() - int64(torn)); err != nil {
			return nil, err
		}
		if len(whole) == 0 && int64(torn) < info.Size() {
			return lastLine(file) // more than a line of ours
		}
	}
	whole = bytes.TrimSuffix(whole, []byte("\n"))
	return whole[bytes.LastIndexByte(whole, '\n')+1:], nil
}

// syncFolders makes the file's name durable. Windows has no such call and needs
// none.
func syncFolders(root *os.Root) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	for _, name := range []string{path.Dir(headsFile), "."} {
		folder, err := root.Open(name)
		if err != nil {
			return err
		}
		err = folder.Sync()
		if closeErr := folder.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return err
		}
	}
	return nil
}
