// Package catalogue keeps the report folder easy to find one's way in: index.html
// lists the runs of the last 90 days, latest/ holds the newest page of each job, and
// what is older than headquarters is told to keep is removed.
//
// It only ever follows what is published: it holds up no report, changes no published
// file, and makes all that it wrote again from the manifests that lie in the folder.
package catalogue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"muster/dispatcher/internal/quarantine"
	"muster/internal/protocol"
)

const (
	// listedFor is how long a run stands in the index.
	listedFor = 90 * 24 * time.Hour
	// again is when a file that was locked, or a folder that was away, is tried again.
	again = time.Minute
	// daily is how often the folder is looked at when nothing is published: what is too
	// old goes, and leaves the index, a day late at most.
	daily = 24 * time.Hour
)

// Config says where and how.
type Config struct {
	Folder   string         // of the reports
	Location *time.Location // headquarters' zone, in which a day begins
	// KeepDays and KeepRuns say what stays: a run younger than so many days, and the
	// newest so many runs of each job. 0: that bound keeps nothing by itself; both 0:
	// everything stays. The newest run of a job always stays.
	KeepDays, KeepRuns int
	// Unfinished tells which runs may still be revised, as by an answer of their make-up
	// or of a retry. Their files stay, all of them; and nothing goes while it fails.
	Unfinished func(context.Context) (map[string]bool, error)
	// Index writes the page that lists the runs, newest first.
	Index func(w io.Writer, at time.Time, runs []protocol.Listed) error
	Now   func() time.Time
	Log   *slog.Logger
	// Ward is told of an index that makes headquarters panic; may be nil.
	Ward *quarantine.Ward
}

// Catalogue is the keeper of the folder. Create it with New; it is safe for concurrent
// use.
type Catalogue struct {
	cfg    Config
	wake   chan struct{}
	cancel context.CancelFunc
	work   sync.WaitGroup

	// The rest is the work's own.
	known  map[string]protocol.Listed // by the manifest's path
	copied map[string]string          // job: the hash of its latest page
	fault  string                     // the last, so that it is logged once
}

// New returns a catalogue that is not yet started.
func New(cfg Config) *Catalogue {
	return &Catalogue{cfg: cfg, wake: make(chan struct{}, 1), known: map[string]protocol.Listed{}, copied: map[string]string{}}
}

// Start looks at the folder, and again whenever Published is called and once a day. It returns at once.
func (c *Catalogue) Start(ctx context.Context) error {
	ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	c.Published()
	c.work.Go(func() { c.loop(ctx) })
	return nil
}

// Stop waits for what is being written. It may be called twice, or before Start.
func (c *Catalogue) Stop() {
	if c.cancel == nil {
		return
	}
	c.cancel()
	c.work.Wait()
}

// Published says that there is a new revision. It returns at once.
func (c *Catalogue) Published() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *Catalogue) loop(ctx context.Context) {
	for {
		next := daily
		if err := c.refresh(ctx); err != nil {
			next = again
		}
		select {
		case <-ctx.Done():
			select {
			case <-c.wake: // what was published last is listed too
				_ = c.refresh(context.WithoutCancel(ctx))
			default:
			}
			return
		case <-c.wake:
		case <-time.After(next):
		}
	}
}

// refresh brings the folder up to date, as far as it can: one file that is locked
// holds up no other.
func (c *Catalogue) refresh(ctx context.Context) error {
	err := c.cfg.Ward.Do(quarantine.AlarmStep, "the index of the report folder", func() error {
		root, err := os.OpenRoot(c.cfg.Folder)
		if err != nil {
			return fmt.Errorf("cannot open the report folder: %w", err)
		}
		defer func() { _ = root.Close() }()
		return c.keep(ctx, root)
	})
	switch {
	case err == nil:
		c.fault = ""
	case err.Error() != c.fault && !errors.Is(err, fs.ErrNotExist):
		c.fault = err.Error()
		c.cfg.Log.Warn("the report folder's index is not up to date; that is tried again within a minute", "error", err)
	}
	return err
}

func (c *Catalogue) keep(ctx context.Context, root *os.Root) error {
	now := c.cfg.Now().In(c.cfg.Location)
	scanned := c.scan(root, now)
	removed := c.removeOld(ctx, root, newest(c.known), now)
	runs := newest(c.known)
	listed := make([]protocol.Listed, 0, len(runs))
	for i := range runs {
		if now.Sub(runs[i].Head.CreatedAt.Time) < listedFor {
			listed = append(listed, runs[i])
		}
	}
	index := replace(root, "index.html", func(w io.Writer) error { return c.cfg.Index(w, now, listed) })
	return errors.Join(scanned, removed, index, c.copyLatest(root, runs))
}
