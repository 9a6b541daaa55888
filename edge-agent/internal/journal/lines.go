package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strconv"

	"muster/internal/protocol"
)

// header is the first line; it names the format, so that a later one can tell.
const header = "muster-journal 1\n"

// damagedFile keeps damaged lines for reading.
const damagedFile = "journal.damaged"

// maxLine bounds a line: an entry has a few short fields.
const maxLine = 4 << 10

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// line is an entry with its place in the file, from 1; 0 in the files of earlier
// agents, which numbered none. It tells a lost or moved line, which bears a good
// checksum or none at all.
type line struct {
	Entry
	Line int `json:"line,omitempty"`
}

// encodeLine gives "crc32c-in-hex json\n".
func encodeLine(e Entry, number int) ([]byte, error) {
	doc, err := protocol.Encode(line{Entry: e, Line: number})
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%08x %s\n", crc32.Checksum(doc, castagnoli), doc), nil
}

func decodeLine(text []byte) (line, error) {
	sum, doc, found := bytes.Cut(text, []byte(" "))
	want, err := strconv.ParseUint(string(sum), 16, 32)
	if !found || err != nil || len(text) > maxLine {
		return line{}, errors.New("it has no checksum")
	}
	if got := crc32.Checksum(doc, castagnoli); got != uint32(want) {
		return line{}, fmt.Errorf("its checksum is %08x, not %08x", got, want)
	}
	var l line
	if err := json.Unmarshal(doc, &l); err != nil {
		return line{}, err
	}
	if l.TaskID == "" || l.Attempt < 0 {
		return line{}, errors.New("it names no task")
	}
	return l, nil
}

// load folds the file into entries, and keeps what it finds damaged.
func (j *Journal) load() error {
	data, err := os.ReadFile(j.path)
	if errors.Is(err, os.ErrNotExist) {
		j.gap = true
		return nil
	}
	if err != nil {
		return err
	}
	body, ok := bytes.CutPrefix(data, []byte(header))
	if !ok && bytes.HasPrefix(data, []byte("muster-journal ")) {
		return errors.New("it was written by a newer agent")
	}
	j.gap = !ok
	for number := 2; len(body) > 0; number++ {
		text, rest, whole := bytes.Cut(body, []byte("\n"))
		body = rest
		if !whole {
			j.log.Warn("journal ends in a torn line, dropped", "path", j.path, "line", number, "bytes", len(text))
			break
		}
		j.read(text, number)
	}
	if j.gap {
		j.doubt()
	}
	return nil
}

// read takes a line of the file, of the number that an editor shows. Of the lines of
// a task the one that got furthest counts, wherever it stands.
func (j *Journal) read(text []byte, number int) {
	l, err := decodeLine(text)
	if err != nil {
		j.log.Error("journal line is damaged, set aside", "path", j.path, "line", number, "error", err)
		j.damaged, j.gap = append(j.damaged, text), true
		return
	}
	if !j.follows(l) && !j.gap {
		j.log.Error("journal lines are lost or out of order", "path", j.path, "line", number)
		j.gap = true
	}
	j.lines = l.Line
	old, known := j.entries[l.TaskID]
	if known && (old.Attempt > l.Attempt || (old.Attempt == l.Attempt && old.At > l.At)) {
		j.rise(l.Entry)
		return
	}
	j.take(l.Entry)
}

// follows reports whether a line is the one that was written behind those before it.
// Earlier agents numbered none, and wrote a file anew in no order: there only the
// lines of one task tell.
func (j *Journal) follows(l line) bool {
	if l.Line == 0 {
		old, known := j.entries[l.TaskID]
		return j.lines == 0 && (!known || l.At > old.At)
	}
	return l.Line == j.lines+1 && l.At >= j.last
}

// doubt makes offers of the claims: their grants may stand in lost lines. It is done
// before the file is written anew, which then looks whole.
func (j *Journal) doubt() {
	for id, e := range j.entries {
		if e.Phase == PhaseClaimed {
			e.Phase, e.Instance = PhaseOffered, ""
			j.entries[id] = e
		}
	}
}

// setAside moves damaged lines to the side file, before the journal is rewritten
// without them.
func (j *Journal) setAside() error {
	if len(j.damaged) == 0 {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(j.folder, damagedFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(bytes.Join(j.damaged, []byte("\n")), '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		j.damaged = nil
	}
	return err
}
