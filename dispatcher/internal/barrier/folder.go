package barrier

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"syscall"

	"muster/internal/protocol"
)

const (
	folderMode = 0o755 // reports are shared for reading
	fileMode   = 0o644
	bufferSize = 64 << 10
)

// errTaken: another file already has the name. Published bytes never change.
var errTaken = errors.New("a different file has this name; move it elsewhere, and the report is published within a minute")

// folder writes files that are either whole or not there, and never leaves
// its root, whatever a name holds.
type folder struct{ root *os.Root }

// openFolder opens the report folder as it is now, for one publication: it may be
// a share that comes and goes. One that is missing is not made, since files in its
// place would be hidden when the share is back.
func openFolder(name string) (*folder, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, fmt.Errorf("cannot open the report folder: %w; mount what belongs there, or make the folder", err)
	}
	return &folder{root: root}, nil
}

func (f *folder) close() { _ = f.root.Close() } // every file was synced

// put writes dir/name: to a temporary file beside it, synced, renamed, and the
// folder synced. A file of that name with the same bytes is kept, one with
// other bytes is errTaken.
func (f *folder) put(dir, name string, format protocol.FileFormat, write func(io.Writer) error) (protocol.ManifestFile, error) {
	file, err := f.tryPut(dir, name, format, write)
	return file, remedied(err)
}

// remedied says what to do about an error of the disk, after errTaken and what the
// report itself says.
func remedied(err error) error {
	switch {
	case err == nil, errors.Is(err, errTaken):
		return err
	case errors.Is(err, fs.ErrExist), errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%w; a file stands where a folder of reports belongs: move it elsewhere, and the report is published within a minute", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; let headquarters' account write there, and the report is published within a minute", err)
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("%w; make room there, and the report is published within a minute", err)
	}
	return err
}

// at is where a name below the root stands, for people.
func (f *folder) at(name string) string { return filepath.Join(f.root.Name(), name) }

func (f *folder) tryPut(dir, name string, format protocol.FileFormat, write func(io.Writer) error) (protocol.ManifestFile, error) {
	file := protocol.ManifestFile{Name: name, MediaType: format.MediaType, Rules: format.Rules}
	if err := f.root.MkdirAll(dir, folderMode); err != nil {
		return file, fmt.Errorf("cannot make folder %s: %w", f.at(dir), err)
	}
	target, temporary := path.Join(dir, name), path.Join(dir, "."+name+".tmp")
	var err error
	if file.Bytes, file.SHA256, err = f.writeSynced(temporary, write); err != nil {
		_ = f.root.Remove(temporary)
		return file, fmt.Errorf("cannot write %s: %w", f.at(target), err)
	}
	switch sum, err := f.sum(target); {
	case errors.Is(err, fs.ErrNotExist):
		err = f.root.Rename(temporary, target)
		if err == nil {
			err = f.syncFolders(dir)
		}
		if err != nil {
			_ = f.root.Remove(temporary)
			return file, fmt.Errorf("cannot put %s in its place: %w", f.at(target), err)
		}
	case err != nil:
		return file, fmt.Errorf("cannot read %s: %w", f.at(target), err)
	case sum != file.SHA256:
		_ = f.root.Remove(temporary)
		return file, fmt.Errorf("cannot write %s: %w", f.at(target), errTaken)
	default: // an earlier try may have ended between the rename and the sync
		if err := f.root.Remove(temporary); err != nil {
			return file, fmt.Errorf("cannot remove %s: %w", f.at(temporary), err)
		}
		if err := f.syncFolders(dir); err != nil {
			return file, fmt.Errorf("cannot make %s last: %w", f.at(target), err)
		}
	}
	return file, nil
}

func (f *folder) writeSynced(name string, write func(io.Writer) error) (size int64, sum string, err error) {
	file, err := f.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return 0, "", err
	}
	defer func() {
		if closeErr := file.Close(); err == nil {
			err = closeErr
		}
	}()
	hash := sha256.New()
	counted := &counter{w: io.MultiWriter(file, hash)}
	out := bufio.NewWriterSize(counted, bufferSize)
	if err := write(out); err != nil {
		return 0, "", err
	}
	if err := out.Flush(); err != nil {
		return 0, "", err
	}
	return counted.n, hex.EncodeToString(hash.Sum(nil)), file.Sync()
}

// sum is the hash of a file, "" of what is none.
func (f *folder) sum(name string) (string, error) {
	info, err := f.root.Stat(name)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", nil // no report; to open a pipe would wait for its other end
	}
	file, err := f.root.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// syncFolders makes the names in dir and in the folders above it durable.
// Windows has no such call and needs none.
func (f *folder) syncFolders(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	for {
		if err := f.syncFolder(dir); err != nil || dir == "." {
			return err
		}
		dir = path.Dir(dir)
	}
}

func (f *folder) syncFolder(dir string) error {
	opened, err := f.root.Open(dir)
	if err != nil {
		return err
	}
	err = opened.Sync()
	if closeErr := opened.Close(); err == nil {
		err = closeErr
	}
	return err
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
