package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/dispatcher/internal/store"
	"muster/internal/task"
)

// pulse counts answers, and those that came while a file was there.
type pulse struct {
	file    string
	enough  chan struct{} // is closed at the answer with number first
	first   int
	mu      sync.Mutex
	n, with int
}

func (p *pulse) beat() {
	_, err := os.Stat(p.file)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	if err == nil {
		p.with++
	}
	if p.n == p.first {
		close(p.enough)
	}
}

func (p *pulse) look() (n, with int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n, p.with
}

// TestAnswersGoOnWhileABackupIsMade: hundreds come in each second, and the backup
// that is made of it opens like any database and holds them whole.
func TestAnswersGoOnWhileABackupIsMade(t *testing.T) {
	t.Parallel()
	const tasks, callers, first = 20_000, 8, 500
	b := setup(t)
	b.create(tasks)
	result := `{"text":"` + strings.Repeat("x", 8000) + `"}`
	file, stop := filepath.Join(t.TempDir(), "backup.db"), make(chan struct{})
	p := &pulse{file: fmt.Sprintf("%s.part-%d", file, os.Getpid()), enough: make(chan struct{}), first: first}
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
	<-p.enough
	before, _ := p.look()
	began := time.Now()
	made, err := store.MakeBackup(t.Context(), b.path, file)
	took := time.Since(began)
	after, with := p.look()
	close(stop)
	all.Wait()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d MiB in %v; meanwhile %d answers", made.Bytes>>20, took, with)
	if with < callers {
		t.Errorf("answers stop while a backup is made: there were %d in %v", with, took)
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
