//go:build !windows

package durable

import "syscall"

// mediumErrors say that the disk is full, over a quota, met a limit of the file
// size, is read-only, or fails.
var mediumErrors = []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.EROFS, syscall.EIO}
