package executor

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// killMarked kills every process of this user whose environment holds all the
// marks, wherever it moved in the process tree, and returns how many. It looks
// again until none is left, since a dying tree may still fork; 10 rounds bound
// that.
func killMarked(marks []string) int {
	killed := 0
	for range 10 {
		found := 0
		for _, pid := range markedProcesses(marks) {
			if syscall.Kill(pid, syscall.SIGKILL) == nil {
				found++
			}
		}
		if found == 0 {
			break
		}
		killed += found
	}
	return killed
}

func markedProcesses(marks []string) []int {
	// Names alone: a look into each process's folder costs far more than its file.
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1) // as many as can be had
	var pids []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue // not a process
		}
		environ, err := os.ReadFile("/proc/" + name + "/environ")
		if err != nil || len(environ) == 0 {
			continue // gone, a zombie, or another user's
		}
		if pid != os.Getpid() && holdsAll(environ, marks) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func holdsAll(environ []byte, marks []string) bool {
	environ = append([]byte{0}, environ...)
	for _, mark := range marks {
		if !bytes.Contains(environ, append([]byte("\x00"+mark), 0)) {
			return false
		}
	}
	return true
}
