package sources

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"time"
)

// The ways in which a file may be packed. Only gzip is unpacked.
const (
	Plain       = "none"
	Gzip        = "gzip"
	Unsupported = "unsupported"
)

// File is an opened regular file. What is read of it ends where it ended at opening, so that a log that grows faster
// than it is read comes to an end, and hash and size speak of the same bytes. It is not safe for concurrent use.
type File struct {
	path        string
	file        *os.File
	info        fs.FileInfo
	raw         *rawReader
	compression string
	content     io.Reader
	problems    []Problem
}

// Open opens a file for reading under ctx: reads end with its error once it has ended. problem is set instead of file
// when the file cannot or must not be read.
func Open(ctx context.Context, path string, maxDecompressedBytes int64) (file *File, problem *Problem) {
	// Looked at before it is opened: opening alone may wake a device or a pipe's other end.
	info, err := os.Stat(path)
	if err != nil {
		said := describe(err, Unreadable)
		return nil, &said
	}
	if !info.Mode().IsRegular() {
		return nil, notRegular(info)
	}
	f, err := openShared(path)
	if err != nil {
		said := describe(err, Unreadable)
		return nil, &said
	}
	info, err = f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		_ = f.Close() // read only: nothing can be lost
		if err != nil {
			said := describe(err, Unreadable)
			return nil, &said
		}
		return nil, notRegular(info)
	}
	opened := &File{path: path, file: f, info: info}
	opened.raw = &rawReader{ctx: ctx, file: f, left: info.Size(), sum: sha256.New()}
	opened.unpack(maxDecompressedBytes)
	return opened, nil
}

func notRegular(info fs.FileInfo) *Problem {
	return &Problem{Code: NotRegular, Detail: "it is no regular file but " + info.Mode().Type().String()}
}

func (f *File) unpack(maxDecompressedBytes int64) {
	buffered := bufio.NewReaderSize(f.raw, 64<<10)
	// An error shows again at the first read.
	head, _ := buffered.Peek(6)
	f.compression, f.content = Plain, buffered
	switch {
	case bytes.HasPrefix(head, []byte{0x1F, 0x8B, 8}):
		f.compression = Gzip
		f.content = &gzipReader{packed: buffered, left: maxDecompressedBytes, ctx: f.raw.ctx}
	case bytes.HasPrefix(head, []byte("PK\x03\x04")), bytes.HasPrefix(head, []byte("BZh")),
		bytes.HasPrefix(head, []byte("\xFD7zXZ")), bytes.HasPrefix(head, []byte{0x28, 0xB5, 0x2F, 0xFD}):
		f.compression, f.content = Unsupported, bytes.NewReader(nil)
		f.problems = append(f.problems, Problem{Code: UnsupportedCompression, Detail: "packed, but not with gzip"})
	}
}

// Info returns what the system said of the file at opening.
func (f *File) Info() fs.FileInfo { return f.info }

// Compression returns Plain, Gzip or Unsupported.
func (f *File) Compression() string { return f.compression }

// Read reads the unpacked content. Faults of the file end it with io.EOF and are told by Finish; the only other errors
// are those of the context.
func (f *File) Read(p []byte) (int, error) {
	n, err := f.content.Read(p)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	if f.raw.ctx.Err() != nil {
		return n, f.raw.ctx.Err()
	}
	f.problems = append(f.problems, f.fault(err))
	f.content = bytes.NewReader(nil)
	return n, io.EOF
}

func (f *File) fault(err error) Problem {
	switch {
	case errors.Is(err, errCapped):
		return Problem{Code: DecompressionCapped, Detail: err.Error()}
	case f.raw.err != nil:
		return describe(f.raw.err, ReadError)
	default:
		return Problem{Code: CorruptGzip, Detail: err.Error()}
	}
}

// Summary is what Finish found.
type Summary struct {
	Bytes      int64
	SHA256     string
	ModifiedAt time.Time
	Problems   []Problem
}

// Finish reads what was left unread, so that the hash covers the file, looks whether the file changed meanwhile, and
// closes it. Its error is the context's.
func (f *File) Finish() (Summary, error) {
	defer f.Close()
	if f.raw.err == nil {
		if _, err := io.Copy(io.Discard, f.raw); err != nil && f.raw.ctx.Err() == nil {
			f.problems = append(f.problems, describe(err, ReadError))
		}
	}
	if err := f.raw.ctx.Err(); err != nil {
		return Summary{}, err
	}
	f.problems = append(f.problems, f.changes()...)
	return Summary{
		Bytes: f.raw.bytes, SHA256: hex.EncodeToString(f.raw.sum.Sum(nil)), ModifiedAt: f.info.ModTime(),
		Problems: f.problems,
	}, nil
}

// Close closes the file unread; Finish does so, too, and closing twice does no harm.
func (f *File) Close() {
	_ = f.file.Close() // read only: nothing can be lost
}

func (f *File) changes() []Problem {
	var changes []Problem
	before := f.info.Size()
	if now, err := f.file.Stat(); err == nil {
		switch {
		case now.Size() < before || f.raw.bytes < before && f.raw.err == nil:
			changes = append(changes, Problem{Code: Shrank, Detail: fmt.Sprintf("from %d to %d bytes", before, now.Size())})
		case now.Size() > before:
			changes = append(changes, Problem{Code: Grew, Detail: fmt.Sprintf("from %d to %d bytes", before, now.Size())})
		}
	}
	if there, err := os.Stat(f.path); err != nil || !os.SameFile(there, f.info) {
		changes = append(changes, Problem{Code: Rotated, Detail: "the name now stands for another file or for none"})
	}
	return changes
}

// rawReader reads the bytes as they lie, up to where the file ended at opening.
type rawReader struct {
	ctx   context.Context
	file  *os.File
	left  int64
	bytes int64
	sum   hash.Hash
	err   error
}

// Read implements io.Reader. No single read is long, so the context is heeded between them.
func (r *rawReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if r.left == 0 {
		return 0, io.EOF
	}
	n, err := r.file.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	r.bytes += int64(n)
	r.sum.Write(p[:n])
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

var errCapped = errors.New("it unpacks to more bytes than are taken")

// gzipReader unpacks members one after the other and stops at the cap.
type gzipReader struct {
	ctx    context.Context
	packed io.Reader
	unzip  *gzip.Reader
	left   int64
}

// Read implements io.Reader. A bomb unpacks thousands of times what it reads, so the context is heeded here, too.
func (g *gzipReader) Read(p []byte) (int, error) {
	if err := g.ctx.Err(); err != nil {
		return 0, err
	}
	if g.unzip == nil {
		unzip, err := gzip.NewReader(g.packed)
		if err != nil {
			return 0, err
		}
		g.unzip = unzip
	}
	n, err := g.unzip.Read(p)
	if int64(n) > g.left {
		n, err = int(g.left), errCapped
	}
	g.left -= int64(n)
	return n, err
}
