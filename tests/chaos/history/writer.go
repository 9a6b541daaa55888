package history

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// ending is how the files of writers are called.
const ending = ".jsonl"

// Writer appends to one participant's file. A line is on the disk when its call
// returns. Safe for concurrent use; each process has writers of its own.
type Writer struct {
	who   Participant
	clock Clock // nil: the machine's
	calls atomic.Int64

	mu      sync.Mutex // file, written
	file    *os.File
	written int64 // lines

	syncing sync.Mutex // synced
	synced  int64
}

// Create begins a new file in the folder, which must exist. No two writers ever
// share a file, also after a restart: a torn line can only be the last one.
func Create(folder string, who Participant) (*Writer, error) { return CreateBy(nil, folder, who) }

// Clock gives the time of a line: epoch milliseconds, and microseconds of a clock
// that all writers of a history share and that never goes back. Safe for
// concurrent use.
type Clock func() (atMs, monoUs int64)

// CreateBy is Create for a simulation: all lines have their times from its clock,
// and none is fsynced, because who writes lives as long as who reads.
func CreateBy(clock Clock, folder string, who Participant) (*Writer, error) {
	name := fmt.Sprintf("%s-%s-%d-%s%s", who.Role, strings.ReplaceAll(who.Who, "/", "_"), os.Getpid(), rand.Text()[:8], ending)
	file, err := os.OpenFile(filepath.Join(folder, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot begin the history of %s: %w", who.Who, err)
	}
	return &Writer{who: who, clock: clock, file: file}, nil
}

// Write appends one line after it has set who and when.
func (w *Writer) Write(l Line) error {
	l.Participant = w.who
	w.mu.Lock()
	l.AtMs, l.MonoUs = w.now() // under the lock: a file is in the order of time
	number, err := w.append(l)
	w.mu.Unlock()
	if err == nil && w.clock == nil {
		err = w.sync(number)
	}
	if err != nil {
		return fmt.Errorf("cannot write the history of %s: %w", w.who.Who, err)
	}
	return nil
}

func (w *Writer) now() (atMs, monoUs int64) {
	if w.clock != nil {
		return w.clock()
	}
	return time.Now().UnixMilli(), monotonic()
}

func (w *Writer) append(l Line) (int64, error) {
	text, err := json.Marshal(l)
	if err != nil {
		return 0, err
	}
	if _, err := w.file.Write(append(text, '\n')); err != nil {
		return 0, err
	}
	w.written++
	return w.written, nil
}

// sync returns when line number is on the disk. One fsync serves all lines that
// were written before it.
func (w *Writer) sync(number int64) error {
	w.syncing.Lock()
	defer w.syncing.Unlock()
	if w.synced >= number {
		return nil
	}
	w.mu.Lock()
	upTo := w.written
	w.mu.Unlock()
	if err := w.file.Sync(); err != nil {
		return err
	}
	w.synced = upTo
	return nil
}

// Close ends the file.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.file.Close(); err != nil {
		return fmt.Errorf("cannot close the history of %s: %w", w.who.Who, err)
	}
	return nil
}

// Asked notes a request before it leaves. answered notes how it ended: payload
// is the reply, empty when there was none. It is called at most once.
func (w *Writer) Asked(topic string, payload []byte) (answered func(Outcome, []byte) error, err error) {
	call := w.calls.Add(1)
	err = w.Write(Line{Act: ActAsked, Call: call, Topic: topic, Payload: string(payload)})
	return func(outcome Outcome, reply []byte) error {
		return w.Write(Line{Act: ActAnswered, Call: call, Topic: topic, Outcome: outcome, Payload: string(reply)})
	}, err
}

// Sent notes a message; call it before the message leaves.
func (w *Writer) Sent(topic string, payload []byte, retained bool) error {
	return w.Write(Line{Act: ActSent, Topic: topic, Payload: string(payload), Retained: retained})
}

// Got notes a message; call it before anything follows from the message.
func (w *Writer) Got(topic string, payload []byte, retained bool) error {
	return w.Write(Line{Act: ActGot, Topic: topic, Payload: string(payload), Retained: retained})
}

// Subscribed notes a subscription before it leaves.
func (w *Writer) Subscribed(filter string) error {
	return w.Write(Line{Act: ActSubscribed, Topic: filter})
}

// Connected notes that the way to the broker is there, or is gone.
func (w *Writer) Connected(on bool) error {
	if on {
		return w.Write(Line{Act: ActConnected})
	}
	return w.Write(Line{Act: ActDisconnected})
}

// Executed is the execution marker of an executor written in Go.
func (w *Writer) Executed(task string, attempt int) error {
	return w.Write(Line{Act: ActExecuted, Task: task, Attempt: attempt, PID: os.Getpid()})
}

// Looked notes a report file, named with slashes below the report folder.
func (w *Writer) Looked(name string, content []byte) error {
	sum := sha256.Sum256(content)
	return w.Write(Line{Act: ActLooked, Name: name, SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(content))})
}

// Fault notes that a fault begins, or that it is over. While "dispatcher" or
// "broker" is on, that program is not ready.
func (w *Writer) Fault(name string, on bool) error {
	return w.Write(Line{Act: ActFault, Name: name, On: on})
}

// Sampled notes what a process uses. A new process under an old name is told by
// its pid.
func (w *Writer) Sampled(name string, pid int, s Sample) error {
	return w.Write(Line{Act: ActSampled, Name: name, PID: pid, Sample: &s})
}
