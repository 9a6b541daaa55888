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

// encodeLine gives "crc32c-in-hex json\n".
func encodeLine(e Entry) ([]byte, error) {
	doc, err := protocol.Encode(e)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%08x %s\n", crc32.Checksum(doc, castagnoli), doc), nil
}

func decodeLine(line []byte) (Entry, error) {
	sum, doc, found := bytes.Cut(line, []byte(" "))
	want, err := strconv.ParseUint(string(sum), 16, 32)
	if !found || err != nil || len(line) > maxLine {
		return Entry{}, errors.New("it has no checksum")
	}
	if got := crc32.Checksum(doc, castagnoli); got != uint32(want) {
		return Entry{}, fmt.Errorf("its checksum is %08x, not %08x", got, want)
	}
	var e Entry
	if err := json.Unmarshal(doc, &e); err != nil {
		return Entry{}, err
	}
	if e.TaskID == "" || e.Attempt < 0 {
		return Entry{}, errors.New("it names no task")
	}
	return e, nil
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
	if !ok {
		body = data
	}
	for number := 2; len(body) > 0; number++ {
		line, rest, whole := bytes.Cut(body, []byte("\n"))
		body = rest
		if !whole {
			j.log.Warn("journal ends in a torn line, dropped", "path", j.path, "line", number, "bytes", len(line))
			break
		}
		e, err := decodeLine(line)
		if err != nil {
			j.log.Error("journal line is damaged, set aside", "path", j.path, "line", number, "error", err)
			j.damaged = append(j.damaged, line)
			continue
		}
		j.take(e)
	}
	if !ok || len(j.damaged) > 0 {
		j.gap = true
	}
	return nil
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
