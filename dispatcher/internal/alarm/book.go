package alarm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"muster/internal/protocol"
)

// most bounds the alarms that are kept: the newest beyond are told and not kept.
const most = 1000

// Alarm names an alarm that is not over.
type Alarm struct {
	Severity protocol.Severity `json:"severity"`
	Kind     string            `json:"kind"`
	Subject  string            `json:"subject"`
}

// Book keeps the alarms that are not over in a file. A nil one keeps nothing. It is
// safe for concurrent use.
type Book struct {
	mu     sync.Mutex
	path   string
	open   []Alarm
	before map[Alarm]bool // raised by the life before, and not again
}

// Open reads the file of the life before; none, or one that a crash of the machine cut
// off, is an empty one. The error says that it cannot be read.
func Open(path string) (*Book, error) {
	b := &Book{path: path, before: map[Alarm]bool{}}
	text, err := os.ReadFile(path) //nolint:gosec // a file of headquarters' own data folder
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err != nil {
		return b, fmt.Errorf("cannot read which alarms were raised before the start, so none of them is told to be over; let headquarters read the file: %w", err)
	}
	if json.Unmarshal(text, &b.open) != nil {
		b.open = nil
	}
	for _, a := range b.open {
		b.before[a] = true
	}
	return b, nil
}

// Note takes in that an alarm was raised, or that it is over.
func (b *Book) Note(a Alarm, over bool) error {
	if b == nil || !ends(a.Kind) {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.before, a)
	at := -1
	for i := range b.open {
		if b.open[i] == a {
			at = i
		}
	}
	switch {
	case over && at >= 0:
		b.open = append(b.open[:at], b.open[at+1:]...)
	case !over && at < 0 && len(b.open) < most:
		b.open = append(b.open, a)
	default:
		return nil
	}
	return b.write()
}

// Before lists what the life before raised, and this one has neither raised again nor
// ended.
func (b *Book) Before() (list []Alarm) {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.open {
		if b.before[a] {
			list = append(list, a)
		}
	}
	return list
}

// write replaces the file. It is not synced: an alarm that a crash of the machine
// leaves open costs less than a disk that is waited for with each.
func (b *Book) write() error {
	text, err := json.Marshal(b.open)
	if err == nil {
		err = os.WriteFile(b.path+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(b.path+".new", b.path)
	}
	if err != nil {
		return fmt.Errorf("cannot keep which alarms are not over; make room in headquarters' data folder: %w", err)
	}
	return nil
}
