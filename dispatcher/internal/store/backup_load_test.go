package store_test

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/dispatcher/internal/store"
	"muster/internal/task"
)

// pulse counts answers, and knows the longest time without one.
type pulse struct {
	mu     sync.Mutex
	n      int
	last   time.Time
	pause  time.Duration
	enough func(n int)
}

func (p *pulse) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.n, p.pause, p.last = p.n+1, max(p.pause, now.Sub(p.last)), now
	p.enough(p.n)
}

// look returns how many there were, and the longest pause since the look before.
func (p *pulse) look() (n int, pause time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	n, pause = p.n, max(p.pause, now.Sub(p.last))
	p.pause, p.last = 0, now
	return n, pause
}

// TestAnswersGoOnWhileABackupIsMade: hundreds come in each second, and the backup
// that is made of it opens like any database and holds them whole.
func TestAnswersGoOnWhileABackupIsMade(t *testing.T) {
	t.Parallel()
	const tasks, callers, first = 20_000, 8, 500
	b := setup(t)
	b.create(tasks)
	result := `{"text":"` + strings.Repeat("x", 8000) + `"}`
	begin, stop := make(chan struct{}), make(chan struct{})
	p := &pulse{last: time.Now(), enough: func(n int) {
		if n == first {
			close(begin)
		}
	}}
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for i := caller; i < tasks; i += callers {
				select {
				case <-stop:
					return
				default:
				}
				b.grant(i, t0)
				if got := b.settle(success(i, 1, result), t0); !got.Applied {
					t.Errorf("answer %d: %+v", i, got)
				}
				p.beat()
			}
		})
	}
	<-begin
	before, _ := p.look()
	began := time.Now()
	made, err := store.MakeBackup(t.Context(), b.path, filepath.Join(t.TempDir(), "backup.db"))
	took := time.Since(began)
	after, pause := p.look()
	close(stop)
	all.Wait()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d MiB in %v; meanwhile %d answers, the longest pause %v", made.Bytes>>20, took, after-before, pause)
	if after-before < callers || pause > max(took*3/4, 500*time.Millisecond) {
		t.Errorf("answers stop while a backup is made in %v: there were %d, with a pause of %v", took, after-before, pause)
	}
	copied := &bundle{t: t, path: made.Path}
	copied.open()
	defer copied.close()
	counts, _, err := copied.CountTasks(t.Context(), "R")
	if n := counts[task.Succeeded]; err != nil || n < before || n > after+callers || counts[task.Running] > callers {
		t.Errorf("%v in the backup, %v; between %d and %d were answered", counts, err, before, after)
	}
	if got, err := copied.GetResult(t.Context(), taskID(0), 1); err != nil || string(got.Result) != result {
		t.Errorf("the first answer has %d bytes, %v", len(got.Result), err)
	}
}
