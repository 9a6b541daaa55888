// Package journal is the terminal's memory of its tasks across crashes: which
// attempt was claimed, granted, started, finished or receipted.
//
// It is an append-only file of numbered lines with checksums, each the whole entry
// of one task; the last good line of a task counts. Own code rather than a database:
// one writer, a few hundred live entries, and a format that a technician can
// read with a pager on a broken terminal, in 0 bytes of extra binary.
//
// It decides nothing about tasks and never touches results.
package journal

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"muster/edge-agent/internal/durable"
)

// Phase is how far a task got on this terminal.
type Phase string

// The phases.
const (
	// PhaseOffered: an offer was seen.
	PhaseOffered Phase = "offered"
	// PhaseClaimed: a claim for the attempt after Attempt may have been sent.
	PhaseClaimed Phase = "claimed"
	// PhaseGranted: Attempt is about to start; on disk before it does.
	PhaseGranted Phase = "granted"
	// PhaseStarted: as PhaseGranted, in the journals of earlier agents.
	PhaseStarted Phase = "started"
	// PhaseFinished: the answer of Attempt lies in the outbox.
	PhaseFinished Phase = "finished"
	// PhaseReceipted: headquarters holds the answer of Attempt.
	PhaseReceipted Phase = "receipted"
	// PhaseDropped: the task was withdrawn, denied for good or cancelled.
	PhaseDropped Phase = "dropped"
)

// open reports whether the phase is still to be worked on, so that its entry
// is never forgotten.
func (p Phase) open() bool { return p != PhaseReceipted && p != PhaseDropped }

// Entry is what is known of one task.
type Entry struct {
	TaskID string `json:"taskId"`
	Phase  Phase  `json:"phase"`
	// Attempt is the highest attempt that was granted here or cancelled; what
	// is not above it never starts. 0: none.
	Attempt   int   `json:"attempt"`
	StartedAt int64 `json:"startedAt,omitempty"` // terminal clock, epoch ms
	// At is when the line was written, terminal clock, epoch ms; always above that
	// of the line before, so that it tells the order although the clock is set.
	At int64 `json:"at"`
	// OfferSHA256 is the Hash of the offer that Attempt executed, "" when it
	// never started.
	OfferSHA256 string `json:"offerSha256,omitempty"`
	// Instance is the process of this terminal that claimed, of PhaseClaimed.
	Instance string `json:"instance,omitempty"`
	// Seq is the highest number of an order of headquarters that was believed
	// when the line was written, ProvenAt the newest time that headquarters
	// signed, its clock, epoch ms. 0 while nothing was signed.
	Seq      int64 `json:"seq,omitempty"`
	ProvenAt int64 `json:"provenAt,omitempty"`
}

// maxClosed bounds what is remembered about tasks that are over; what is older is
// refused by headquarters' clock instead. Age is no reason to forget: a clock that
// is set right after years makes everything old.
const maxClosed = 10_000

// compactAt is the file size from which compaction is worth a rewrite; a live
// entry takes about 150 bytes.
const compactAt = 1 << 20

const fileName = "journal.log"

// Journal is an open journal. One goroutine uses it.
type Journal struct {
	folder  string
	path    string
	now     func() time.Time
	log     *slog.Logger
	file    *os.File
	size    int64
	lines   int   // in file, without the header
	compact int64 // size from which the next Put compacts
	entries map[string]Entry
	closed  int
	gap     bool // lines were lost or moved, or the file was missing
	last    int64
	damaged [][]byte // lines that are not set aside yet
	// exclusive: the system replaces no file that is open, as Windows does not.
	exclusive bool

	info   os.FileInfo // of file
	broken error       // why nothing may be appended to file; nil: it may
	mendAt time.Time   // not before

	// The highest Seq and ProvenAt of any line: every line that is written
	// carries them, so that no compaction loses them.
	seq, provenAt int64
}

// Open reads the journal in folder, which must exist and be locked by the
// caller, and makes it ready to append. A torn last line is dropped with a
// warning: what it recorded was not yet acted upon. A damaged line elsewhere
// is copied to a side file. When lines were lost, moved or damaged, or the file was
// missing, what reads as claimed may in truth have been granted: it is offered then.
// Lines that are missing at the end alone nobody can tell.
//
// A disk that takes no writes does not keep it from opening, nor does a folder that
// is emptied or removed meanwhile: Trouble then says why every Put fails, until one
// finds room, or makes the folder again.
func Open(folder string, now func() time.Time, log *slog.Logger) (*Journal, error) {
	j := &Journal{folder: folder, path: filepath.Join(folder, fileName), now: now, log: log,
		entries: map[string]Entry{}, compact: compactAt, exclusive: runtime.GOOS == "windows"}
	if err := j.load(); err != nil {
		return nil, fmt.Errorf("cannot open journal %s: %w", j.path, err)
	}
	switch err := j.rewrite(); {
	case durable.Refused(err), errors.Is(err, os.ErrNotExist): // others removed the folder or what is in it
		j.broken = err
	case err != nil:
		return nil, errors.Join(fmt.Errorf("cannot open journal %s: %w", j.path, err), j.Close())
	}
	return j, nil
}

// Trouble says why nothing can be written, nil when something can, as far as is
// known.
func (j *Journal) Trouble() error { return j.broken }

// Close closes the file; nothing can be written any more. It may be called twice.
func (j *Journal) Close() error {
	err := j.closeFile()
	j.broken, j.mendAt = os.ErrClosed, time.Time{}
	return err
}

func (j *Journal) closeFile() error {
	if j.file == nil {
		return nil
	}
	err := j.file.Close()
	j.file = nil
	return err
}

// LastWrite is the time of the newest entry, zero when there is none.
func (j *Journal) LastWrite() time.Time {
	if j.last == 0 {
		return time.Time{}
	}
	return time.UnixMilli(j.last)
}

// Floor returns the highest Seq and the newest ProvenAt ever written, zero when
// there is none.
func (j *Journal) Floor() (seq int64, provenAt time.Time) {
	if j.provenAt == 0 {
		return j.seq, time.Time{}
	}
	return j.seq, time.UnixMilli(j.provenAt)
}

// Get returns what is known of a task.
func (j *Journal) Get(taskID string) (Entry, bool) {
	e, ok := j.entries[taskID]
	return e, ok
}

// Open lists the entries that are not over, by task id.
func (j *Journal) Open() []Entry {
	var open []Entry
	for _, e := range j.entries {
		if e.Phase.open() {
			open = append(open, e)
		}
	}
	slices.SortFunc(open, func(a, b Entry) int { return bytes.Compare([]byte(a.TaskID), []byte(b.TaskID)) })
	return open
}

// Put records the entry. When it returns nil the entry survives a power cut.
// On an error the file is as before, and so is what Get returns.
func (j *Journal) Put(e Entry) error { return j.put(e, true) }

// Note records the entry without waiting for the disk: for what may be lost.
func (j *Journal) Note(e Entry) error { return j.put(e, false) }

func (j *Journal) put(e Entry, sync bool) error {
	e.At = max(j.now().UnixMilli(), j.last+1)
	e.Seq, e.ProvenAt = max(e.Seq, j.seq), max(e.ProvenAt, j.provenAt)
	var line []byte
	err := j.ready(sync)
	if err == nil {
		line, err = encodeLine(e, j.lines+1)
	}
	if err == nil {
		err = j.append(line, sync)
	}
	if err != nil {
		return fmt.Errorf("cannot journal task %s: %w", e.TaskID, err)
	}
	j.take(e)
	if j.size < j.compact {
		return nil
	}
	if err := j.rewrite(); err != nil {
		// The entry itself is safe; only the tidying failed.
		j.compact = 2 * j.size
		j.log.Warn("journal compaction failed", "path", j.path, "error", err)
	}
	return nil
}

func (j *Journal) take(e Entry) {
	if old, ok := j.entries[e.TaskID]; ok && !old.Phase.open() {
		j.closed--
	}
	if !e.Phase.open() {
		j.closed++
	}
	j.entries[e.TaskID] = e
	j.rise(e)
	if j.closed > maxClosed+maxClosed/10 {
		j.forget()
	}
}

// rise lifts what no line may fall below.
func (j *Journal) rise(e Entry) {
	j.last = max(j.last, e.At)
	j.seq, j.provenAt = max(j.seq, e.Seq), max(j.provenAt, e.ProvenAt)
}

// forget drops the oldest entries of tasks that are over. With the newest the
// floor stays on the disk.
func (j *Journal) forget() {
	var over []Entry
	for _, e := range j.entries {
		if !e.Phase.open() {
			over = append(over, e)
		}
	}
	slices.SortFunc(over, func(a, b Entry) int { return cmp.Compare(b.At, a.At) })
	for _, e := range over[min(len(over), maxClosed):] {
		delete(j.entries, e.TaskID)
		j.closed--
	}
}
