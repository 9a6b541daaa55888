package stamp

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"muster/edge-agent/internal/durable"
)

const (
	// fileName holds the number up to which numbers may have been used.
	fileName = "numbers"
	// ahead is how many numbers are reserved at a time, 20 s of microseconds: far
	// more than are sent between two starts, so that the disk is asked at a start
	// and when the clock has gone on, not with each message. A copy of the folder
	// begins so far ahead at most, which is less than a machine waits after another
	// one took its connection: when it is back it is the one that is heard.
	ahead = int64(20 * time.Second / time.Microsecond)
	// most bounds what is read: above it numbers are no longer exact in JSON.
	most = int64(1) << 52
)

// kept is what the next process must know of the numbers of this one.
type kept struct {
	path     string
	log      *slog.Logger
	mu       sync.Mutex
	reserved atomic.Int64
}

// Keep has the numbers go on above those of every earlier process in the folder,
// whatever the clock did meanwhile: one that jumped while the terminal worked says
// nothing of what was used before. A number is used when a higher one lies on the
// disk; while the disk refuses, it is used all the same. Call it once, before
// the first stamp.
func (m *Maker) Keep(folder string, log *slog.Logger) {
	k := &kept{path: filepath.Join(folder, fileName), log: log}
	used, err := readNumber(k.path)
	if err != nil {
		log.Error("the numbers of earlier messages cannot be read; if the clock was set back, headquarters takes the next ones for copies", "error", err)
	}
	m.seq.Store(max(m.seq.Load(), used))
	m.kept = k
	k.reserve(m.seq.Load())
}

func readNumber(path string) (int64, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("cannot read the numbers: %w", err)
	}
	used, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || used < 0 || used > most {
		return 0, fmt.Errorf("cannot read the numbers in %s: %.40q is none", path, text)
	}
	return used, nil
}

// reserve sees to it that a number lies below what the disk holds.
func (k *kept) reserve(seq int64) {
	if k == nil || seq <= k.reserved.Load() {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if seq <= k.reserved.Load() {
		return
	}
	if err := durable.WriteFile(k.path, strconv.AppendInt(nil, seq+ahead, 10)); err != nil {
		k.log.Warn("the numbers of messages cannot be kept", "error", err)
	}
	k.reserved.Store(seq + ahead) // a disk that refuses is asked again then
}
