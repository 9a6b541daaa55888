//go:build !windows

package machine

import (
	"os"

	"golang.org/x/sys/unix"
)

// Columns is how many characters a line of the screen has that a file is, 0 when it
// is no screen.
func Columns(file *os.File) int {
	size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}
