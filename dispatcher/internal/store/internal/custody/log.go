package custody

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// The log (section 4 of the SQLite file format) is a header and frames. A frame is
// a page with a header of its own, which holds the checksum of everything up to it.
const (
	logHeaderBytes   = 32
	frameHeaderBytes = 24
	logMagic         = 0x377f0682 // with 1 added: checksums over big-endian words
)

// checkLog tells a log that lost what was committed from one that a crash cut
// short. SQLite takes both for cut: it drops everything from the first frame on
// whose checksum is wrong, and says nothing.
//
// Each commit is synced before anything follows it (synchronous=FULL). So what a
// crash may leave unwritten is one commit, the last: a frame that continues a
// commit proves that all before it was on the disk. And the index that readers
// share outlives a kill: it says how far the log was synced. Only damage to the
// last commit alone, after the machine itself went down, looks like a crash.
//
// Nobody may have the database open.
func checkLog(path string) error {
	file, err := os.Open(path + "-wal")
	if errors.Is(err, fs.ErrNotExist) {
		return checkLogless(path, "is not there")
	}
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	log, err := openLog(bufio.NewReaderSize(file, 1<<20))
	if err == nil && log != nil {
		err = log.walk()
	}
	if err == nil && log == nil {
		return checkLogless(path, "has no frame")
	}
	if err == nil {
		if synced := syncedFrames(path+"-shm", log.salt[:]); synced > log.committed {
			err = fmt.Errorf("%w: %d pages were committed to it, and only the first %d are whole", ErrCorrupt, synced, log.committed)
		}
	}
	if err != nil {
		return fmt.Errorf("the log %s: %w", filepath.Base(path)+"-wal", err)
	}
	return nil
}

// checkLogless tells a log that was removed or emptied from one in which nothing was
// committed yet. A clean close removes the index together with the log.
func checkLogless(path, what string) error {
	if synced := syncedFrames(path+"-shm", nil); synced > 0 {
		return fmt.Errorf("%w: the log %s %s, and %d pages were committed to it", ErrCorrupt, filepath.Base(path)+"-wal", what, synced)
	}
	return checkPace(path)
}

// logReader walks a log. Salts are how frames are told from those of an earlier
// log in the same file, which stay until they are overwritten.
type logReader struct {
	from      io.Reader
	order     binary.ByteOrder // of the words that are summed up
	salt      [8]byte
	sum       checksum // as the newest frame has it, right or wrong
	found     checksum // of the newest frame, as it should have it
	last      [8]byte  // salt of the newest frame
	frame     []byte
	committed uint32 // frames up to the last commit that SQLite would take
}

// openLog reads the header. It returns nil when there is no frame.
func openLog(from io.Reader) (*logReader, error) {
	header := make([]byte, logHeaderBytes)
	if whole, err := readWhole(from, header); !whole {
		return nil, err
	}
	l := &logReader{from: from, order: binary.LittleEndian, salt: [8]byte(header[16:24]), sum: stored(header[24:])}
	l.found = l.sum
	magic, pageBytes := binary.BigEndian.Uint32(header), binary.BigEndian.Uint32(header[8:])
	if magic&1 == 1 {
		l.order = binary.BigEndian
	}
	if magic&^1 != logMagic || (checksum{}).add(l.order, header[:24]) != l.sum {
		// It is synced before the first frame is written.
		if whole, err := readWhole(from, make([]byte, frameHeaderBytes+512)); !whole {
			return nil, err
		}
		return nil, fmt.Errorf("%w: its header is not as it was written", ErrCorrupt)
	}
	l.frame = make([]byte, frameHeaderBytes+int64(pageBytes))
	return l, nil
}

// walk reads every frame.
func (l *logReader) walk() error {
	wrong, commit := uint32(0), false // the first wrong frame, whether the newest ends a commit
	for n := uint32(1); ; n++ {
		if whole, err := readWhole(l.from, l.frame); !whole {
			return err
		}
		follows := l.follows()
		switch {
		case !follows && wrong == 0:
			wrong = n
		case follows && wrong != 0 && commit:
			return fmt.Errorf("%w: page %d of it is not as it was written, and more was committed after it", ErrCorrupt, wrong)
		}
		l.sum = stored(l.frame[16:])
		commit = binary.BigEndian.Uint32(l.frame[4:]) != 0
		if commit && wrong == 0 {
			l.committed = n
		}
	}
}

// follows reports whether the frame is whole and was written after the one before,
// of which the checksum or another part may be wrong.
func (l *logReader) follows() bool {
	has, salt := stored(l.frame[16:]), [8]byte(l.frame[8:16])
	if salt != l.salt && salt == l.last { // one of many that an earlier log left
		l.found = has
		return false
	}
	l.last = salt
	before := l.found
	l.found = l.over(l.sum)
	return salt == l.salt && binary.BigEndian.Uint32(l.frame) != 0 && (l.found == has || l.over(before) == has)
}

// over is the checksum of the frame after one that has sum.
func (l *logReader) over(sum checksum) checksum {
	return sum.add(l.order, l.frame[:8]).add(l.order, l.frame[frameHeaderBytes:])
}

// readWhole fills the buffer, or reports that what is left does not.
func readWhole(from io.Reader, into []byte) (bool, error) {
	_, err := io.ReadFull(from, into)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return false, nil
	}
	return err == nil, err
}

// checksum is SQLite's, of section 4.2 of the file format.
type checksum [2]uint32

func stored(b []byte) checksum {
	return checksum{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])}
}

func (c checksum) add(order binary.ByteOrder, b []byte) checksum {
	for ; len(b) >= 8; b = b[8:] {
		c[0] += order.Uint32(b) + c[1]
		c[1] += order.Uint32(b[4:]) + c[0]
	}
	return c
}

// syncedFrames is how many frames of the log with that salt were committed and
// synced, nil for any log, as the index beside the database says (section "The WAL-Index Header" of
// the WAL-mode file format); 0 when it does not say. Its header is there twice,
// since a kill may come while one is written.
func syncedFrames(path string, salt []byte) (frames uint32) {
	const headerBytes = 48
	file, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer func() { _ = file.Close() }() // it was only read
	headers := make([]byte, 2*headerBytes)
	if _, err := io.ReadFull(file, headers); err != nil {
		return 0
	}
	native := binary.NativeEndian
	for ; len(headers) > 0; headers = headers[headerBytes:] {
		sum := (checksum{}).add(native, headers[:40])
		written := sum == checksum{native.Uint32(headers[40:]), native.Uint32(headers[44:])}
		if written && headers[12] != 0 && (salt == nil || bytes.Equal(headers[32:40], salt)) {
			frames = max(frames, native.Uint32(headers[16:]))
		}
	}
	return frames
}
