package history

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Measure is what a process of this machine uses; not ok when it has ended, or there
// is no /proc. Of its goroutines only those show that hold a thread.
func Measure(pid int) (s Sample, ok bool) {
	folder := filepath.Join("/proc", strconv.Itoa(pid))
	open, err := os.ReadDir(filepath.Join(folder, "fd"))
	threads, err1 := os.ReadDir(filepath.Join(folder, "task"))
	memory, err2 := os.ReadFile(filepath.Join(folder, "statm"))
	fields := strings.Fields(string(memory))
	if err != nil || err1 != nil || err2 != nil || len(fields) < 2 {
		return s, false
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return Sample{Threads: len(threads), Descriptors: len(open), RSSBytes: pages * int64(os.Getpagesize())}, err == nil
}
