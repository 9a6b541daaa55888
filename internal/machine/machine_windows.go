package machine

import (
	"errors"
	"fmt"

	"golang.org/x/sys/windows"
)

// Disk is the room where a folder is.
func Disk(folder string) (Room, error) {
	path, err := windows.UTF16PtrFromString(folder)
	var r Room
	if err == nil {
		err = windows.GetDiskFreeSpaceEx(path, &r.Free, &r.Total, nil)
	}
	if err != nil {
		return Room{}, fmt.Errorf("cannot ask for the room in %s: %w", folder, err)
	}
	return r, nil
}

// OpenFiles is ErrUnknown: Windows sets no limit.
func OpenFiles() (uint64, error) { return 0, ErrUnknown }

func inUse(err error) bool { return errors.Is(err, windows.WSAEADDRINUSE) }

func notHere(err error) bool { return errors.Is(err, windows.WSAEADDRNOTAVAIL) }
