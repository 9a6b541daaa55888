package auditor

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"muster/dispatcher/internal/store"
	"muster/internal/trust"
)

// Heads is what a file of heads says. Lines that are at fault are not among
// Noted.
//
// A proven head vouches for every entry up to it. With keys, a line without a
// signature or with an unknown key is no fault only where headquarters could not
// do better: in front of the first line that one of the keys signed, and from
// before the oldest of the keys. Where headquarters' clock was set back before that
// line, so that the key is listed from an earlier time than it was made, the line
// itself says from when the key was there. Such a line is compared with the chain as all
// are, and proves nothing; neither does the head of an audit without entries.
type Heads struct {
	Noted    []store.AuditHead // in the order of the file
	Proven   int               // of them signed by one of the keys, in its time, and with an entry
	UpTo     int64             // the newest entry that a proven head vouches for
	Unsigned int               // of them without any signature
	Unproven int               // of them signed by keys that are not at hand, or outside of their time
	Faults   []string          // why, with the line's number; the first maxFaults
	Wrong    int               // the number of faults, listed or not
	Torn     bool              // the last line was cut short and does not count

	signed  bool // a line that one of the keys signed was read
	first   note // of these
	setBack bool // one of these is newer than the first, and of an earlier time
}

// maxFaults bounds the lines at fault that are listed.
const maxFaults = 20

// ReadHeads reads the file of heads and proves them with headquarters' keys; nil
// keys prove nothing. A file that is not there holds no heads.
func ReadHeads(file string, keys *trust.Document) (Heads, error) {
	var h Heads
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return h, fmt.Errorf("cannot read the noted heads: %w", err)
	}
	since := oldest(keys)
	if h = scan(data, keys, since); h.Wrong > 0 && h.setBack && since.Before(h.first.At.Time) {
		h = scan(data, keys, h.first.At.Time)
	}
	return h, nil
}

// scan reads lines, of which those from before since may lack a signature by one
// of the keys.
func scan(data []byte, keys *trust.Document, since time.Time) (h Heads) {
	for number := 1; len(data) > 0; number++ {
		line, rest, whole := bytes.Cut(data, []byte("\n"))
		if data = rest; !whole {
			h.Torn = true
			break
		}
		if err := h.take(line, keys, since); err != nil {
			h.fault(number, err)
		}
	}
	return h
}

// backdated bounds how far before its making a key is valid: one that strikes the
// older ones out covers what was written a moment ago, but noted no head then.
const backdated = 6 * time.Minute

// oldest is when headquarters signed with one of the keys for sure.
func oldest(keys *trust.Document) (since time.Time) {
	if keys == nil {
		return since
	}
	for _, k := range keys.Keys {
		if since.IsZero() || k.NotBefore.Before(since) {
			since = k.NotBefore.Time
		}
	}
	if since.IsZero() {
		return since
	}
	return since.Add(backdated)
}

func (h *Heads) fault(number int, err error) {
	h.Wrong++
	if len(h.Faults) < maxFaults {
		h.Faults = append(h.Faults, fmt.Sprintf("line %d: %v", number, err))
	}
}

// take returns why the line is at fault.
func (h *Heads) take(line []byte, keys *trust.Document, since time.Time) error {
	n, err := parse(line)
	if err == nil {
		err = n.verify(keys)
	}
	switch {
	case err == nil:
		h.bySigner(n)
		if n.ID > 0 {
			h.Proven++
			h.UpTo = max(h.UpTo, n.ID)
		}
	case errors.Is(err, errOutOfTime):
		h.bySigner(n)
		h.Unproven++
	case errors.Is(err, errUnchecked) && n.Signature != "":
		h.Unproven++
	case errors.Is(err, errUnchecked):
		h.Unsigned++
	case h.signed, !n.At.Before(since):
		return err
	case errors.Is(err, errUnsigned):
		h.Unsigned++
	case errors.Is(err, errUnknown):
		h.Unproven++
	default:
		return err
	}
	h.Noted = append(h.Noted, n.head())
	return nil
}

// bySigner takes a line that one of the keys signed. Entries are numbered as they
// are written, whatever the clock shows.
func (h *Heads) bySigner(n note) {
	if !h.signed {
		h.signed, h.first = true, n
	}
	h.setBack = h.setBack || n.ID >= h.first.ID && n.At.Before(h.first.At.Time)
}
