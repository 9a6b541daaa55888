package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Shared is one file for many participants of a process that nobody kills: a
// line is on the disk when Close has returned, not when Write has. Thousands of
// participants need neither a file each nor an fsync a line then. Safe for
// concurrent use.
type Shared struct {
	mu   sync.Mutex
	file *os.File
	out  *bufio.Writer
}

// CreateShared begins a new file in the folder, which must exist. No two files
// of a folder have the same name.
func CreateShared(folder, name string) (*Shared, error) {
	file, err := os.OpenFile(filepath.Join(folder, name+ending), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot begin the history %s: %w", name, err)
	}
	return &Shared{file: file, out: bufio.NewWriterSize(file, 1<<20)}, nil
}

// Write appends one line of a participant after it has set who and when, and
// returns when that was.
func (s *Shared) Write(who Participant, l Line) (Line, error) {
	l.Participant = who
	s.mu.Lock()
	defer s.mu.Unlock()
	l.AtMs, l.MonoUs = time.Now().UnixMilli(), monotonic()
	text, err := json.Marshal(l)
	if err == nil {
		_, err = s.out.Write(append(text, '\n'))
	}
	if err != nil {
		return l, fmt.Errorf("cannot write the history of %s: %w", who.Who, err)
	}
	return l, nil
}

// Close writes what is left, syncs, and ends the file.
func (s *Shared) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(s.out.Flush(), s.file.Sync(), s.file.Close()); err != nil {
		return fmt.Errorf("cannot close a history: %w", err)
	}
	return nil
}
