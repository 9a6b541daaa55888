package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// listening is how /proc/net/tcp writes the state of a socket that listens
// (proc_net_tcp(5)).
const listening = "0A"

// Listener is the process that listens on a TCP port of this machine, and its name;
// 0 when there is none, or this user may not see it.
func Listener(port int) (pid int, name string) {
	sockets := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			if len(fields) > 9 && fields[3] == listening && strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", port)) {
				sockets["socket:["+fields[9]+"]"] = true
			}
		}
	}
	if len(sockets) == 0 {
		return 0, ""
	}
	files, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return 0, ""
	}
	for _, file := range files {
		if target, err := os.Readlink(file); err == nil && sockets[target] {
			return process(file)
		}
	}
	return 0, ""
}

// process is whose open file it is, such as /proc/1/fd/3.
func process(file string) (pid int, name string) {
	folder := filepath.Dir(filepath.Dir(file))
	pid, err := strconv.Atoi(filepath.Base(folder))
	if err != nil {
		return 0, ""
	}
	text, err := os.ReadFile(filepath.Join(folder, "comm"))
	if err != nil {
		return pid, "a program"
	}
	return pid, strings.TrimSpace(string(text))
}
