package machine

import (
	"os"

	"golang.org/x/sys/windows"
)

// Columns is how many characters a line of the screen has that a file is, 0 when it
// is no screen.
func Columns(file *os.File) int {
	var info windows.ConsoleScreenBufferInfo
	if err := windows.GetConsoleScreenBufferInfo(windows.Handle(file.Fd()), &info); err != nil {
		return 0
	}
	return int(info.Window.Right-info.Window.Left) + 1
}
