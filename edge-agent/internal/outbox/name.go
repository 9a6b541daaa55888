package outbox

import (
	"fmt"
	"strconv"
	"strings"
)

// fileName gives "r_<task>_<attempt>_<8 hex of the task's digest>.answer". The
// prefix keeps clear of names that Windows reserves (CON, NUL), the digest
// keeps ids apart that differ only in case.
func fileName(taskID string, attempt int) string {
	return fmt.Sprintf("r_%s_%d_%s%s", taskID, attempt, digest([]byte(taskID))[:8], suffix)
}

func parseName(name string) (Lost, bool) {
	parts := strings.Split(strings.TrimSuffix(name, suffix), "_")
	if len(parts) < 4 || parts[0] != "r" {
		return Lost{}, false
	}
	attempt, err := strconv.Atoi(parts[len(parts)-2])
	taskID := strings.Join(parts[1:len(parts)-2], "_")
	if err != nil || fileName(taskID, attempt) != name {
		return Lost{}, false
	}
	return Lost{TaskID: taskID, Attempt: attempt}, true
}
