package sqlite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"time"
)

// UnfinishedMark stands between the name of a copy and the process that writes it, until
// the copy is known to be whole.
const UnfinishedMark = ".part-"

var unfinishedName = regexp.MustCompile(`.` + regexp.QuoteMeta(UnfinishedMark) + `[0-9]+$`)

// unfinishedLife is how long an unfinished copy stays after its last write: far longer
// than reading it once more takes, on this machine or another that shares the folder.
const unfinishedLife = 12 * time.Hour

// RemoveUnfinished removes the copies that were cut off from a folder, with the journals
// beside them. What may be anything else stays, and so does what cannot be removed.
func RemoveUnfinished(folder string, applicationID int32, now time.Time) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() || !unfinishedName.MatchString(entry.Name()) || now.Sub(info.ModTime()) < unfinishedLife ||
			runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
			continue
		}
		if path := filepath.Join(folder, entry.Name()); isCopy(path, applicationID) {
			_ = os.Remove(path + "-journal")
			_ = os.Remove(path)
		}
	}
}

// isCopy reports whether a file begins like a copy: SQLite writes the first page last, so
// it is empty, or zero, or of a database of the application.
func isCopy(path string, applicationID int32) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }() // it was only read
	header := make([]byte, 100)         // section 1.3 of the SQLite file format
	switch n, err := io.ReadFull(file, header); {
	case n == 0:
		return errors.Is(err, io.EOF)
	case err != nil:
		return false
	}
	return bytes.Count(header, []byte{0}) == len(header) ||
		bytes.HasPrefix(header, []byte("SQLite format 3\x00")) && binary.BigEndian.Uint32(header[68:]) == uint32(applicationID)
}
