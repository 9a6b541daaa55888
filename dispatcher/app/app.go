// Package app wires headquarters together and runs its life: it opens the
// store, starts the steps in the order of their needs, and stops them in the
// reverse. It decides nothing itself and is the only package that sees all
// steps.
package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"muster/dispatcher/app/internal/measure"
	"muster/dispatcher/config"
	"muster/dispatcher/internal/auditor"
	"muster/dispatcher/internal/clock"
	"muster/dispatcher/internal/hands"
	"muster/dispatcher/internal/identity"
	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/register"
	"muster/dispatcher/internal/store"
	"muster/internal/files"
	"muster/internal/protocol"
)

// stopPatience bounds how long headquarters takes to stop. What is not done by
// then is done after the next start.
const stopPatience = 10 * time.Second

// Options are what the program around headquarters supplies.
type Options struct {
	Version string
	Logger  *slog.Logger
	// Ready is called once with the address that terminals and technicians
	// connect to.
	Ready func(addr string)
	// Again reads the configuration once more, as a reload wants it; nil: it cannot
	// be reloaded. Each word of Hangup asks for one.
	Again  func() (config.Config, error)
	Hangup <-chan os.Signal
	// Wall is the clock on the wall, which people set; nil: this machine's.
	Wall func() time.Time
	// Listen opens the listeners; nil: on the network of this machine.
	Listen func(ctx context.Context, network, address string) (net.Listener, error)
}

// Run runs headquarters until ctx ends. The error says why it could not start or
// stop.
func Run(ctx context.Context, cfg config.Config, opts Options) (err error) {
	if opts.Wall == nil {
		opts.Wall = time.Now
	}
	if opts.Listen == nil {
		opts.Listen = new(net.ListenConfig).Listen
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	log := opts.Logger
	var cleanup stack
	defer func() { err = errors.Join(err, cleanup.unwind()) }()

	topics, err := protocol.NewTopics(cfg.TopicRoot)
	if err != nil {
		return err
	}
	var stores register.File
	jobs, err := files.Await(ctx, func() (jobs *job.Registry, err error) {
		if jobs, stores, err = cfg.ReadLists(); err != nil {
			return nil, err
		}
		return jobs, firstLook(cfg, stores, opts.Wall())
	})
	if err != nil {
		return err
	}
	own := clock.New(opts.Wall)
	hq := &headquarters{cfg: cfg, topics: topics, log: log, version: opts.Version, jobs: jobs, hands: hands.New(), welcomed: make(chan struct{}), disk: make(chan error, diskWords), end: end,
		clock: own, now: own.Now, listen: opts.Listen, again: opts.Again, meter: measure.New(opts.Wall())}
	st, err := openStore(ctx, cfg, log, hq.diskSaid, hq.meter.Committed)
	if err != nil {
		return err
	}
	hq.store = st
	cleanup.push(st.Close)
	if err := cfg.Located(hq.open(ctx, stores, &cleanup)); err != nil {
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			log.Info("headquarters stops before it is ready")
			return endedOver(ctx)
		}
		if !errors.Is(err, store.ErrCorrupt) {
			err = errors.Join(st.Sound(ctx), err) // damage may be what broke the start
		}
		return err
	}
	hq.ready.Store(true)
	opts.Ready(hq.address())
	hq.serve(ctx, opts.Hangup)
	log.Info("headquarters stops")
	return endedOver(ctx)
}

// endedOver is the trouble that ended headquarters, nil when it was told to stop.
func endedOver(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, store.ErrGone) {
		return cause
	}
	return nil
}

// serve waits for the end, and reads the configuration again when it is asked to.
func (hq *headquarters) serve(ctx context.Context, hangup <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			_, _ = hq.reload.Again(ctx) // says in log and alarm what is wrong
		}
	}
}

// firstLook reads what a headquarters without a database needs, before it makes folders:
// what is wrong there leaves none behind.
func firstLook(cfg config.Config, stores register.File, now time.Time) error {
	if there(cfg.Database()) {
		return nil
	}
	if cfg.Identity.Folder != "" {
		if _, err := identity.Open(cfg.Identity.Folder, now); err != nil {
			return err
		}
	}
	if _, err := cfg.ReadPeople(); err != nil {
		return err
	}
	_, err := stores.Places()
	return err
}

// openStore opens the database, or makes it in a new headquarters, and with it the
// reports folder. Later one that is missing may be a share that is away, which would
// hide what is written in its place.
func openStore(ctx context.Context, cfg config.Config, log *slog.Logger, trouble func(error), timed func(time.Duration)) (*store.Store, error) {
	database := cfg.Database()
	folders := []string{cfg.DataFolder}
	if _, err := os.Stat(database); errors.Is(err, fs.ErrNotExist) {
		if heads := auditor.HeadsFile(cfg.ReportsFolder); there(heads) && !there(cfg.DataFolder) {
			return nil, fmt.Errorf("there is no folder %s, and %s is of a headquarters that had one: put it back or mount it, "+
				"or run: mkdir -p -m 750 %s && dispatcher restore BACKUP --data %s; to begin with nothing instead: move the folder %s away",
				cfg.DataFolder, heads, cfg.DataFolder, cfg.DataFolder, cfg.ReportsFolder)
		}
		folders = append(folders, cfg.ReportsFolder)
	}
	for _, folder := range folders {
		if err := files.MakeFolder(folder, 0o750); err != nil {
			return nil, err
		}
	}
	return store.Open(ctx, store.Options{Path: database, Logger: log, Trouble: trouble, Timed: timed,
		Early: cfg.Transport == config.TransportEmbedded}) // an external broker takes messages in meanwhile
}

func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func takeRegister(ctx context.Context, st *store.Store, stores register.File, now time.Time, log *slog.Logger) error {
	n, same, err := st.PlacesFrom(ctx, stores.Hash())
	if err != nil {
		return err
	}
	if same {
		log.Info("store register is as it was", "stores", n)
		return nil
	}
	places, err := stores.Places()
	if err != nil {
		return err
	}
	added, changed, retired, err := st.ReplacePlaces(store.Owed(ctx, "register"), stores.Hash(), places, now)
	if errors.Is(err, store.ErrOwed) {
		log.Warn("there is no room for what changed in the store register: the old one counts until there is", "stores", len(places))
		return nil
	}
	if err != nil {
		return err
	}
	log.Info("store register is loaded", "stores", len(places), "added", added, "changed", changed, "retired", retired)
	return nil
}

// stack holds what must be undone, in the order in which it was done.
type stack []func() error

func (s *stack) push(undo func() error) { *s = append(*s, undo) }

func (s *stack) unwind() error {
	var errs []error
	for i := len(*s) - 1; i >= 0; i-- {
		errs = append(errs, (*s)[i]())
	}
	return errors.Join(errs...)
}

// every does work again and again until the cleanup stops it: after a first wait, then
// as often as then says.
func (hq *headquarters) every(ctx context.Context, cleanup *stack, what string, first, then time.Duration, work func(context.Context)) {
	ctx, stop := context.WithCancel(ctx)
	var loop sync.WaitGroup
	loop.Go(func() {
		timer := time.NewTimer(first)
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
				timer.Reset(hq.ward.Turn(what, then, func() time.Duration { work(ctx); return then }))
			}
		}
	})
	cleanup.push(func() error { stop(); loop.Wait(); return nil })
}
