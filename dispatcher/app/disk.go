package app

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
)

// diskWords is how many words of the database about its disk may wait: it has
// one to say when the disk fills up, and one when there is room again.
const diskWords = 16

// diskSaid takes a word of the database, from the goroutine that writes: it
// must not wait.
func (hq *headquarters) diskSaid(trouble error) {
	select {
	case hq.disk <- trouble:
	default:
	}
}

// diskToldEvery is how often a disk that takes no writes is told again: whoever
// connects later is to hear of it within this time.
const diskToldEvery = time.Minute

// watchDisk tells operators when nothing can be written, and when it can again.
// It returns what ends it.
func (hq *headquarters) watchDisk(ctx context.Context) func() error {
	watching, stop := context.WithCancel(ctx)
	var watched sync.WaitGroup
	watched.Go(func() {
		again := time.NewTicker(diskToldEvery)
		defer again.Stop()
		var trouble error
		kind := alarmDiskFull
		for {
			select {
			case <-watching.Done():
				return
			case trouble = <-hq.disk:
				again.Reset(diskToldEvery)
				if trouble != nil {
					kind = kindOf(trouble)
				}
			case <-again.C:
				if trouble == nil {
					continue
				}
			}
			hq.ward.Turn("the alarm of a full disk", diskToldEvery, func() time.Duration {
				hq.alerts.Raise(protocol.SeverityCritical, kind, hq.cfg.DataFolder, trouble)
				return diskToldEvery
			})
			if errors.Is(trouble, store.ErrGone) {
				select { // until the alarm has left; nothing is acknowledged any more
				case <-watching.Done():
				case <-time.After(lastWord):
				}
				hq.end(trouble)
			}
		}
	})
	return func() error { stop(); watched.Wait(); return nil }
}

// lastWord is how long headquarters stays for its last alarm to reach who listens.
const lastWord = time.Second

// The kinds of the alarms about the database.
const (
	alarmDiskFull = "disk_full"
	alarmDamaged  = "database_damaged" // it cannot be read or written
	alarmGone     = "database_gone"    // its files were taken away
)

func kindOf(trouble error) string {
	switch {
	case errors.Is(trouble, store.ErrGone):
		return alarmGone
	case errors.Is(trouble, store.ErrNoSpace):
		return alarmDiskFull
	}
	return alarmDamaged
}

// sound says what is wrong with the database. A full disk, over which it reads on, is
// not.
func (hq *headquarters) sound(ctx context.Context) error {
	if err := hq.store.Health(ctx); !errors.Is(err, store.ErrNoSpace) {
		return err
	}
	return nil
}

// starting is the store as steps see it that write when they start. Without room
// these writes are owed, and the start goes on.
type starting struct{ *store.Store }

func (s starting) ResetPresence(ctx context.Context, now time.Time) error {
	return unlessOwed(s.Store.ResetPresence(store.Owed(ctx, "presence"), now))
}

func (s starting) ExtendLeases(ctx context.Context, until, now time.Time) error {
	return unlessOwed(s.Store.ExtendLeases(store.Owed(ctx, "leases"), until, now))
}

func unlessOwed(err error) error {
	if errors.Is(err, store.ErrOwed) {
		return nil
	}
	return err
}

// dropNotice takes away where the admin line of a process was that is no more. On
// a full disk its room is all that there is for the new one.
func (hq *headquarters) dropNotice() {
	if err := os.Remove(filepath.Join(hq.cfg.DataFolder, "admin.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		hq.log.Warn("cannot take away where the admin line was", "error", err)
	}
}
