//go:build !linux

package sqlite

import "os"

// reserve takes n bytes of the disk for the file.
func reserve(file *os.File, n int64) error { return fill(file, n) }
