package journal

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"syscall"
	"time"

	"muster/edge-agent/internal/durable"
)

// mendAfter is how long a file that cannot be written is left alone: writing all
// of it anew is work, and a full disk does not empty within the second.
const mendAfter = time.Second

// errGone: the file is not at its place any more.
var errGone = errors.New("the journal was removed or replaced by others")

// ready sees to it that a line may be appended: it writes the file anew when the
// old one does not take lines, or is not the one at its place any more.
func (j *Journal) ready(sync bool) error {
	if j.broken == nil && sync {
		if found, err := os.Stat(j.path); err != nil || !os.SameFile(found, j.info) {
			j.broken, j.mendAt = errGone, time.Time{}
		}
	}
	if j.broken == nil {
		return nil
	}
	now := time.Now()
	if errors.Is(j.broken, os.ErrClosed) || now.Before(j.mendAt) {
		return j.broken
	}
	j.mendAt = now.Add(mendAfter)
	if err := os.MkdirAll(j.folder, 0o700); err != nil {
		return err
	}
	if err := j.rewrite(); err != nil {
		return err
	}
	j.log.Warn("journal was written anew", "path", j.path, "because", j.broken)
	j.broken = nil
	return nil
}

// Mend writes the file anew when it takes no lines, and says whether it does now.
func (j *Journal) Mend() error { return j.ready(true) }

// append writes the next line, and takes a half-written one back, so that no later
// line ever joins it. What can be neither, or may not have reached the disk, is
// written anew before the next line.
func (j *Journal) append(line []byte, sync bool) error {
	_, err := j.file.Write(line)
	written := err == nil
	if written && sync {
		err = j.file.Sync()
	}
	if err == nil {
		j.size += int64(len(line))
		j.lines++
		return nil
	}
	if undo := j.truncate(j.size); undo != nil || written || errors.Is(err, syscall.EFBIG) {
		j.broken, j.mendAt = err, time.Now().Add(mendAfter)
		return errors.Join(err, undo)
	}
	return err
}

func (j *Journal) truncate(size int64) error {
	if err := j.file.Truncate(size); err != nil {
		return err
	}
	_, err := j.file.Seek(size, io.SeekStart)
	return err
}

// rewrite replaces the file with one line an entry, in the order in which they were
// written, and reopens it.
func (j *Journal) rewrite() error {
	j.forget()
	var b bytes.Buffer
	b.WriteString(header)
	entries := slices.SortedFunc(maps.Values(j.entries), func(x, y Entry) int { return cmp.Compare(x.At, y.At) })
	for i, e := range entries {
		e.Seq, e.ProvenAt = j.seq, j.provenAt
		line, err := encodeLine(e, i+1)
		if err != nil {
			return err
		}
		b.Write(line)
	}
	if err := j.setAside(); err != nil {
		return err
	}
	if err := j.replace(b.Bytes()); err != nil {
		return err
	}
	j.size, j.lines = int64(b.Len()), len(entries)
	j.compact = max(compactAt, 4*j.size)
	return nil
}

// replace puts another content into the file's place and opens that. Where no open
// file can be replaced the old one is closed before, and opened again when it stays.
func (j *Journal) replace(content []byte) error {
	closed := j.exclusive && j.file != nil
	if closed {
		_ = j.closeFile() // each line was written by a call of its own
	}
	err := durable.WriteFile(j.path, content)
	if err == nil || closed {
		if fault := j.reopen(); fault != nil {
			// What is open is not the file at its place.
			j.broken, j.mendAt = fault, time.Now().Add(mendAfter)
			err = errors.Join(err, fault)
		}
	}
	return err
}

// reopen opens the file at its place, behind its last line.
func (j *Journal) reopen() error {
	file, err := os.OpenFile(j.path, os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil {
		_, err = file.Seek(0, io.SeekEnd)
	}
	if err != nil {
		return errors.Join(err, file.Close())
	}
	_ = j.closeFile() // nobody reads the old one any more
	j.file, j.info = file, info
	return nil
}
