//go:build !windows

package journal

import (
	"os"
	"syscall"
)

// removed reports whether an open folder has no name any more.
func removed(folder os.FileInfo) bool {
	stat, ok := folder.Sys().(*syscall.Stat_t)
	return ok && stat.Nlink == 0
}
