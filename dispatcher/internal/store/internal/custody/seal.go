package custody

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

const (
	// sealSuffix names the file that holds the hash of a database at rest. SQLite
	// keeps no checksum of a page: a byte that changes inside a value is no
	// damage to it.
	sealSuffix = ".sha256"
	// maxSealed bounds what is hashed at Close and at Open: half a second, at
	// 16 ms for the 17 MiB of 100,000 tasks.
	maxSealed = 512 << 20
)

// checkSeal compares the file with the hash that was noted when it was closed in
// order. After a crash, or when there is a log, there is nothing to compare with.
func checkSeal(path string) (sealed bool, err error) {
	noted, err := os.ReadFile(path + sealSuffix)
	if err != nil || !Settled(path) {
		return false, nil //nolint:nilerr // no seal says nothing
	}
	found, err := hashOf(path)
	if err != nil || found == strings.TrimSpace(string(noted)) {
		return err == nil, err
	}
	return false, fmt.Errorf("%w: it is not as the dispatcher left it: its SHA-256 is %s and %s says %s",
		ErrCorrupt, found, filepath.Base(path)+sealSuffix, strings.TrimSpace(string(noted)))
}

// checkHeader looks at what SQLite takes for a file that it may only read.
func checkHeader(path string) error {
	header, err := readHeader(path)
	if err != nil || len(header) < 20 {
		return err
	}
	// Section 1.3.3 of the SQLite file format: 1 is a rollback journal, 2 a log.
	if write, read := header[18], header[19]; write < 1 || write > 2 || read < 1 || read > 2 {
		return fmt.Errorf("%w: its header names the format %d/%d, which this program does not write", ErrCorrupt, write, read)
	}
	return nil
}

func readHeader(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	header := make([]byte, 100)
	n, err := io.ReadFull(file, header)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil // SQLite says what is wrong with a short file
	}
	return header[:n], err
}

// CrackSeal takes the hash away before a change that may fail; mend puts it back,
// for which a full disk has room. A crash in between leaves none, which is safe.
func CrackSeal(path string) (mend func() error, err error) {
	seal, cracked := path+sealSuffix, path+sealSuffix+".part"
	switch err := os.Rename(seal, cracked); {
	case os.IsNotExist(err):
		return func() error { return nil }, nil
	case err != nil:
		return nil, fmt.Errorf("cannot break the seal of the database: %w", err)
	}
	return func() error { return os.Rename(cracked, seal) }, SyncFolder(filepath.Dir(path))
}

// BreakSeal takes the hash away for good before anything is written.
func BreakSeal(path string) error {
	_ = os.Remove(path + sealSuffix + ".part") // it says nothing, and is overwritten
	if err := os.Remove(path + sealSuffix); err != nil {
		if os.IsNotExist(err) {
			return nil
		}
		return fmt.Errorf("cannot break the seal of the database: %w", err)
	}
	return SyncFolder(filepath.Dir(path))
}

// Seal notes the hash of a file that nobody has open. A file that cannot be
// sealed, because a reader keeps the log or there is no room, goes without.
func Seal(path string) {
	info, err := os.Stat(path)
	if err != nil || info.Size() > maxSealed || !Settled(path) {
		return
	}
	hash, err := hashOf(path)
	if err != nil {
		return
	}
	part := path + sealSuffix + ".part"
	if err := writeSynced(part, hash+"\n"); err == nil {
		err = os.Rename(part, path+sealSuffix)
		if err == nil {
			return
		}
	}
	_ = os.Remove(part) // the database is complete without it
}

func writeSynced(path, text string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = file.WriteString(text); err == nil {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	return err
}

func hashOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // it was only read
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
