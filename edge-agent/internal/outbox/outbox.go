// Package outbox keeps the answers of this terminal until headquarters has
// them: one file an answer, each written so that a power cut leaves it whole
// or absent.
//
// It deletes nothing by itself: only when it is told that a receipt names the
// very bytes.
package outbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"muster/edge-agent/internal/durable"
	"muster/internal/protocol"
)

// Errors that callers test for.
var (
	// ErrWrongReceipt says that a receipt does not name what lies in the outbox.
	ErrWrongReceipt = errors.New("the receipt names another answer")
	// ErrDamaged says that the file of an answer is gone, torn or altered, so that
	// it will never be read.
	ErrDamaged = errors.New("the answer is damaged")
)

// Answer is a result as it will be sent, without the stamp of one sending.
type Answer struct {
	TaskID  string
	Attempt int
	// Frame is the message; its Result or Error are the bytes that SHA256 covers.
	Frame protocol.Result
}

// Value returns the bytes that the hash covers: the result or the error.
func (a Answer) Value() []byte {
	if a.Frame.Outcome == protocol.AnswerSucceeded {
		return a.Frame.Result
	}
	return a.Frame.Error
}

// Seal sets the hash over the value. The value must be compact JSON.
func (a *Answer) Seal() { a.Frame.SHA256 = digest(a.Value()) }

// Kept is what is remembered of an answer on disk; the answer itself is read
// when it is sent, so that a full outbox costs no memory.
type Kept struct {
	TaskID  string
	Attempt int
	Outcome protocol.Answer
	SHA256  string
	Bytes   int // of the value
}

// Box is an open outbox. One goroutine uses it.
type Box struct {
	folder  string
	kept    map[string]Kept // by task id
	Damaged []Lost          // what Open had to set aside
}

// Lost names an answer whose file was damaged; the file lies in Path.
type Lost struct {
	TaskID  string
	Attempt int
	Path    string
}

const (
	suffix       = ".answer"
	damagedChild = "damaged"
)

// Open reads every answer in folder, which is made when absent. Empty, torn or
// altered files are moved to its child "damaged" and listed in Damaged; left
// over temporary files are removed. A disk that takes no writes keeps it from
// tidying, not from reading.
func Open(folder string, log *slog.Logger) (*Box, error) {
	b := &Box{folder: folder, kept: map[string]Kept{}}
	// Not what it lies in, which somebody holds, or makes again.
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		if forgiven(err) {
			return b, nil // there is none to read; Put makes it
		}
		return nil, fmt.Errorf("cannot make outbox: %w", err)
	}
	files, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("cannot read outbox: %w", err)
	}
	for _, file := range files {
		path := filepath.Join(folder, file.Name())
		switch {
		case file.IsDir():
		case strings.HasSuffix(file.Name(), durable.TempSuffix):
			if err := os.Remove(path); err != nil && !forgiven(err) {
				return nil, fmt.Errorf("cannot tidy outbox: %w", err)
			}
		case strings.HasSuffix(file.Name(), suffix):
			if err := b.load(path, log); err != nil {
				return nil, err
			}
		}
	}
	return b, nil
}

func (b *Box) load(path string, log *slog.Logger) error {
	a, err := read(path)
	if err == nil {
		// Two of one task: a crash fell between writing the newer and deleting
		// the older.
		old, twice := b.kept[a.TaskID]
		if twice && old.Attempt > a.Attempt {
			return tidied(durable.Remove(path))
		}
		b.kept[a.TaskID] = a.Kept()
		if twice {
			return tidied(durable.Remove(b.path(old.TaskID, old.Attempt)))
		}
		return nil
	}
	aside, moveErr := durable.Quarantine(path, filepath.Join(b.folder, damagedChild))
	if forgiven(moveErr) {
		aside = path // until the next start
	} else if moveErr != nil {
		return moveErr
	}
	log.Error("answer in the outbox is damaged, set aside", "path", aside, "error", err)
	if lost, ok := parseName(filepath.Base(path)); ok {
		lost.Path = aside
		b.Damaged = append(b.Damaged, lost)
	}
	return nil
}

// tidied drops what is forgiven: the next start tidies again.
func tidied(err error) error {
	if forgiven(err) {
		return nil
	}
	return err
}

// forgiven reports whether a start goes on all the same: the disk takes no writes, or
// others empty the folder meanwhile.
func forgiven(err error) bool { return durable.Refused(err) || errors.Is(err, os.ErrNotExist) }

// read checks the file's own checksum, then the hash of the value, so that
// altered bytes are never sent as an answer.
func read(path string) (Answer, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return Answer{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return Answer{}, err
	}
	sum, doc, found := bytes.Cut(data, []byte("\n"))
	if !found || string(sum) != digest(doc) {
		return Answer{}, fmt.Errorf("%w: its checksum does not fit its content", ErrDamaged)
	}
	var a Answer
	if err := json.Unmarshal(doc, &a.Frame); err != nil {
		return Answer{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	a.TaskID, a.Attempt = a.Frame.TaskID, a.Frame.Attempt
	if a.TaskID == "" || a.Frame.SHA256 != digest(a.Value()) {
		return Answer{}, fmt.Errorf("%w: its hash does not fit its value", ErrDamaged)
	}
	return a, nil
}

// Put stores the sealed answer and replaces an earlier one of the same task.
// When it returns nil the answer survives a power cut. It makes the folder again
// when somebody removed it.
func (b *Box) Put(a Answer) error {
	doc, err := protocol.Encode(a.Frame)
	if err != nil {
		return err
	}
	data := append([]byte(digest(doc)+"\n"), doc...)
	path := b.path(a.TaskID, a.Attempt)
	err = durable.WriteFile(path, data)
	if errors.Is(err, os.ErrNotExist) {
		if err = os.MkdirAll(b.folder, 0o700); err == nil {
			err = durable.WriteFile(path, data)
		}
	}
	if err != nil {
		return err
	}
	old, had := b.kept[a.TaskID]
	b.kept[a.TaskID] = a.Kept()
	if had && old.Attempt != a.Attempt {
		_ = durable.Remove(b.path(old.TaskID, old.Attempt)) // of two, Open takes the newer
	}
	return nil
}

// Check tries whether the largest answer could be kept now.
func (b *Box) Check() error { return durable.Check(b.folder, protocol.MaxPayloadBytes) }

// Kept gives what is remembered of the answer.
func (a Answer) Kept() Kept {
	return Kept{TaskID: a.TaskID, Attempt: a.Attempt, Outcome: a.Frame.Outcome,
		SHA256: a.Frame.SHA256, Bytes: len(a.Value())}
}

// Read returns the whole answer kept for a task, checked again. ErrDamaged says
// that it is lost; any other error may pass.
func (b *Box) Read(taskID string) (Answer, error) {
	k, ok := b.kept[taskID]
	if !ok {
		return Answer{}, fmt.Errorf("cannot read the answer of task %s: %w: %w", taskID, ErrDamaged, os.ErrNotExist)
	}
	a, err := read(b.path(k.TaskID, k.Attempt))
	if err != nil {
		return Answer{}, fmt.Errorf("cannot read the answer of task %s: %w", taskID, err)
	}
	return a, nil
}

// Get returns what is remembered of the answer kept for a task.
func (b *Box) Get(taskID string) (Kept, bool) {
	k, ok := b.kept[taskID]
	return k, ok
}

// List returns what is remembered of every answer, in no particular order.
func (b *Box) List() []Kept { return slices.Collect(maps.Values(b.kept)) }

// Len is how many answers are kept.
func (b *Box) Len() int { return len(b.kept) }

// Delete removes the answer that the receipt names. It fails with
// ErrWrongReceipt, and keeps everything, when task, attempt or hash differ.
func (b *Box) Delete(taskID string, attempt int, sha256 string) error {
	k, ok := b.kept[taskID]
	if !ok || k.Attempt != attempt || k.SHA256 != sha256 {
		return fmt.Errorf("cannot delete the answer of task %s attempt %d: %w", taskID, attempt, ErrWrongReceipt)
	}
	if err := durable.Remove(b.path(taskID, attempt)); err != nil {
		return err
	}
	delete(b.kept, taskID)
	return nil
}

func (b *Box) path(taskID string, attempt int) string {
	return filepath.Join(b.folder, fileName(taskID, attempt))
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
