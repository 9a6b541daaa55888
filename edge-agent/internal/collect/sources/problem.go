// Package sources finds the files that a store's globs name, with their rotated siblings, and reads them as they lie:
// bounded, without blocking, hashing every byte. It must not write, lock or hold up anything: it opens regular files
// alone, for reading, shared with whoever writes or rotates them. What goes wrong with one file is a Problem to be
// reported, never a reason to fail the whole.
package sources

import (
	"errors"
	"io/fs"
)

// The codes of what can be wrong with a file or a glob. They are part of the job's output and are never renamed.
const (
	NoMatch                = "no_match"                // the glob names no file
	NotRegular             = "not_regular"             // a directory, pipe, device or socket stands there
	Unreadable             = "unreadable"              // permission or input/output error on opening
	Locked                 = "locked"                  // another program keeps the file to itself
	Vanished               = "vanished"                // it was there when looked for and gone when opened
	Rotated                = "rotated"                 // renamed or removed while it was read; what was read is whole
	Shrank                 = "shrank"                  // cut shorter while it was read
	Grew                   = "grew"                    // written to while it was read; what came later is left out
	SameFile               = "same_file"               // a second name of a file that is already in
	ReadError              = "read_error"              // reading stopped halfway
	CorruptGzip            = "corrupt_gzip"            // damaged or cut-off gzip; what came before is in
	UnsupportedCompression = "unsupported_compression" // packed in a way that is not read; only hashed
	DecompressionCapped    = "decompression_capped"    // unpacks to more than the bound; the rest is left out
	TooManyFiles           = "too_many_files"          // the globs name more files than are taken
	SearchCut              = "search_cut"              // the search for files was broken off; some may be missing
	OverBudget             = "over_budget"             // left unread because the run has read enough bytes
)

// Problem is something to be said about a file or a glob.
type Problem struct {
	Code   string
	Detail string
}

// describe turns an error of opening or reading into a problem. Details leave out the path, which stands beside them.
func describe(err error, otherwise string) Problem {
	code := otherwise
	switch {
	case errors.Is(err, fs.ErrNotExist):
		code = Vanished
	case isLocked(err):
		code = Locked
	}
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		err = pathError.Err
	}
	return Problem{Code: code, Detail: err.Error()}
}
