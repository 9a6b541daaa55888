package quarantine

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	// noteBytes holds three ids of 63 characters, a digest and a number.
	noteBytes = 512
	// noteSlots bounds how many judgements are noted at a time. What is judged
	// beyond that is judged without a note.
	noteSlots = 32
	notesFile = "judging"
)

// notes is memory that outlives the process: a file that is mapped, whose pages
// the system keeps when the process ends. It is never synced, since no fault of
// ours ends the machine.
type notes struct {
	memory []byte // nil where it cannot be had: nothing is noted
	unmap  func() error
	free   chan int
}

// openNotes returns what the last process left, and an empty sheet.
func openNotes(folder string) (left []Answer, n *notes) {
	name := filepath.Join(folder, notesFile)
	if old, err := os.ReadFile(name); err == nil {
		for len(old) >= noteBytes {
			if a, ok := readNote(old[:noteBytes]); ok {
				left = append(left, a)
			}
			old = old[noteBytes:]
		}
	}
	n = &notes{free: make(chan int, noteSlots)}
	// Zeros are written out, so that the disk has the room: a page without one
	// could not be touched on a full disk.
	if err := replace(name, make([]byte, noteBytes*noteSlots)); err != nil {
		_ = os.Remove(name) // or each start would count once more what it says
		return left, n
	}
	n.memory, n.unmap = mapped(name, noteBytes*noteSlots)
	for i := range noteSlots {
		n.free <- i
	}
	return left, n
}

// readNote reads one note; its first byte says that it is whole and stands.
func readNote(slot []byte) (a Answer, ok bool) {
	if slot[0] == 0 {
		return a, false
	}
	text, _, whole := bytes.Cut(slot[1:], []byte{0})
	parts := strings.Split(string(text), "\n")
	if !whole || len(parts) != 5 {
		return a, false
	}
	attempt, err := strconv.Atoi(parts[3])
	return Answer{StoreID: parts[0], TerminalID: parts[1], TaskID: parts[2], Attempt: attempt, SHA256: parts[4]}, err == nil
}

// writeNote writes what readNote reads. What does not fit is not noted.
func writeNote(slot []byte, a Answer) {
	if len(a.StoreID)+len(a.TerminalID)+len(a.TaskID)+len(a.SHA256) > len(slot)-32 {
		return
	}
	text := slot[1:1]
	for _, part := range [...]string{a.StoreID, a.TerminalID, a.TaskID} {
		text = append(append(text, part...), '\n')
	}
	text = append(strconv.AppendInt(text, int64(a.Attempt), 10), '\n')
	_ = append(append(text, a.SHA256...), 0)
	slot[0] = 1
}

func (n *notes) note(a Answer) (done func()) {
	if n.memory == nil {
		return func() {}
	}
	var slot []byte
	var at int
	select {
	case at = <-n.free:
		slot = n.memory[at*noteBytes : (at+1)*noteBytes]
	default:
		return func() {}
	}
	writeNote(slot, a)
	return func() {
		slot[0] = 0
		n.free <- at
	}
}

// close gives the memory back unless something is still being judged.
func (n *notes) close() error {
	for range cap(n.free) {
		select {
		case <-n.free:
		default:
			return nil
		}
	}
	if n.memory == nil {
		return nil
	}
	return n.unmap()
}
