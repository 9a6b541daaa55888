package app

import (
	"context"
	"sync"

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

// watchDisk tells operators when nothing can be written, and when it can again.
// It returns what ends it.
func (hq *headquarters) watchDisk(ctx context.Context) func() error {
	watching, stop := context.WithCancel(ctx)
	var watched sync.WaitGroup
	watched.Go(func() {
		for {
			select {
			case <-watching.Done():
				return
			case trouble := <-hq.disk:
				hq.raise(protocol.SeverityCritical, "disk_full", hq.cfg.DataFolder, trouble)
			}
		}
	})
	return func() error { stop(); watched.Wait(); return nil }
}
