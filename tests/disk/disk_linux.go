package disk

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// unwritten returns how many pages of a file are not on the disk yet, by
// cachestat(2) of Linux 6.5.
func unwritten(path string) (uint64, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	var stat unix.Cachestat_t
	if err := unix.Cachestat(uint(file.Fd()), &unix.CachestatRange{}, &stat, 0); err != nil {
		return 0, fmt.Errorf("%w: %w", errUntold, err)
	}
	return stat.Dirty + stat.Writeback, nil
}
