// Package quarantine is for what headquarters breaks on: it keeps a panic inside
// the work that it happened in, and remembers how often each answer or message made
// headquarters panic, or was being worked on when the whole process ended, and the
// bytes of those that did so too often, for a person to read.
//
// It reads no message, decides nothing and answers nobody.
package quarantine

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// maxFiles bounds what is kept: with messages of at most 384 KiB, 24 MiB. The
	// oldest goes first.
	maxFiles = 64
	// maxCounts bounds how many answers are counted. Each is one that made
	// headquarters break, so more of them at once are more than one fault.
	maxCounts = 256
	// countsFile and suffix name the files of the folder.
	countsFile = "tries.json"
	suffix     = ".message.json"
)

// Answer names one answer as its receipt does, and who sent it.
type Answer struct {
	StoreID    string `json:"storeId"`
	TerminalID string `json:"terminalId"`
	TaskID     string `json:"taskId"`
	Attempt    int    `json:"attempt"`
	SHA256     string `json:"sha256"`
}

// tried is how often headquarters broke on an answer.
type tried struct {
	Answer
	Tries int `json:"tries"`
}

// Quarantine is safe for concurrent use; a nil one counts and keeps nothing.
// Make it with Open.
type Quarantine struct {
	folder string
	notes  *notes

	mu     sync.Mutex
	counts []tried // the oldest first
}

// Open takes the folder up, making it if it is missing. Each answer that was
// being judged when the last process ended counts as one more try: a fault that
// nothing can recover from leaves no other trace.
func Open(folder string) (*Quarantine, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the quarantine: %w", err)
	}
	q := &Quarantine{folder: folder}
	text, err := os.ReadFile(filepath.Join(folder, countsFile))
	if err == nil {
		err = json.Unmarshal(text, &q.counts)
	}
	if err != nil {
		q.counts = nil // none yet, or torn: it is counted anew
	}
	left, notes := openNotes(folder)
	q.notes = notes
	for _, a := range left {
		q.Broke(a)
	}
	return q, nil
}

// Close gives the folder back. What is judged after it is not noted; calling it
// again is not allowed.
func (q *Quarantine) Close() error {
	if q == nil {
		return nil
	}
	return q.notes.close()
}

// Judging notes that an answer is being judged, until done is called. It costs
// no system call, and a process that ends in between leaves the note.
func (q *Quarantine) Judging(a Answer) (done func()) {
	if q == nil {
		return func() {}
	}
	return q.notes.note(a)
}

// Tries is how often headquarters broke on the answer.
func (q *Quarantine) Tries(a Answer) int {
	if q == nil {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := q.find(a); i >= 0 {
		return q.counts[i].Tries
	}
	return 0
}

// Broke counts one more try and returns how many there were. A disk that
// refuses costs only the memory of it after a restart.
func (q *Quarantine) Broke(a Answer) int {
	if q == nil {
		return 1
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	i := q.find(a)
	if i < 0 {
		if len(q.counts) >= maxCounts {
			q.counts = slices.Delete(q.counts, 0, 1)
		}
		i = len(q.counts)
		q.counts = append(q.counts, tried{Answer: a})
	}
	q.counts[i].Tries++
	q.writeCounts()
	return q.counts[i].Tries
}

func (q *Quarantine) writeCounts() {
	if text, err := json.Marshal(q.counts); err == nil {
		_ = replace(filepath.Join(q.folder, countsFile), text)
	}
}

func (q *Quarantine) find(a Answer) int {
	return slices.IndexFunc(q.counts, func(t tried) bool { return t.Answer == a })
}

// Keep writes the message to a file of its own, readable by its owner alone,
// and returns the file's name. Above a bounded number the oldest goes. An
// answer whose ids are not valid ones gets a name without them.
func (q *Quarantine) Keep(a Answer, message []byte, now time.Time) (string, error) {
	if q == nil {
		return "", errors.New("there is no quarantine")
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	name := filepath.Join(q.folder, fmt.Sprintf("%s_%s_%d_%s%s", now.UTC().Format("20060102T150405Z"),
		harmless(a.TaskID), a.Attempt, strings.ToLower(rand.Text()[:8]), suffix))
	if err := q.makeRoom(); err != nil {
		return "", fmt.Errorf("cannot make room in the quarantine: %w", err)
	}
	if err := write(name, message); err != nil {
		return "", fmt.Errorf("cannot keep a message: %w", err)
	}
	return name, nil
}

// harmless is an id as part of a file's name, whatever it holds.
func harmless(id string) string {
	plain := func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-':
			return r
		}
		return '-'
	}
	id = strings.Map(plain, id)
	return cmp.Or(id[:min(len(id), 63)], "-")
}

// makeRoom lets the oldest go until one more has room. Names begin with a time,
// so their order is that of their age.
func (q *Quarantine) makeRoom() error {
	entries, err := os.ReadDir(q.folder)
	if err != nil {
		return err
	}
	kept := slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !strings.HasSuffix(e.Name(), suffix) })
	var errs []error
	for len(kept) >= maxFiles {
		errs = append(errs, os.Remove(filepath.Join(q.folder, kept[0].Name())))
		kept = kept[1:]
	}
	return errors.Join(errs...)
}

func write(name string, content []byte) error {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		_ = os.Remove(name) // half of it helps nobody
	}
	return err
}

func replace(name string, content []byte) error {
	temporary := name + ".tmp"
	_ = os.Remove(temporary)
	if err := write(temporary, content); err != nil {
		return err
	}
	return os.Rename(temporary, name)
}
