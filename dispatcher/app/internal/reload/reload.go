// Package reload takes in jobs, stores, users and limits while headquarters runs, as
// the configuration says them now. Anything that is wrong refuses all of it.
package reload

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"muster/dispatcher/config"
	"muster/dispatcher/internal/admin"
	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/people"
	"muster/dispatcher/internal/store"
	"muster/internal/files"
	"muster/internal/protocol"
	"muster/internal/settings"
)

// reloadable are the keys, or the beginnings of keys, whose change needs no restart.
func reloadable() []string {
	return []string{"stores_file", "jobs_folder", "broker.users_file", "mqtt.users_file", "admission.", "collection.", "approval."}
}

// Store keeps the register, and the runs whose answers are still judged by their job.
type Store interface {
	ListOpenRuns(ctx context.Context) ([]store.Run, error)
	ReplacePlaces(ctx context.Context, hash string, places []store.Place, now time.Time) (added, changed, retired int, err error)
}

// patience bounds how long all that is taken in may take to read: the largest users file
// takes seconds, and a disk that is away takes for ever.
const patience = time.Minute

// Config is what a reload reads, and whom it serves.
type Config struct {
	// Read reads the configuration once more; nil: it cannot be.
	Read    func() (config.Config, error)
	Running config.Config // what headquarters was started with
	Store   Store
	// Users reads the users file of the embedded broker, and returns what puts it into
	// force; nil: the broker is another program.
	Users func(file string) (use func(), err error)
	// Use puts into force what was read, and Announce tells who connects of it.
	Use      func(cfg config.Config, jobs *job.Registry, known *people.People)
	Announce func(ctx context.Context) error
	// Refused tells operators why nothing was taken in, and with nil that it was.
	Refused func(trouble error)
	Now     func() time.Time
	Logger  *slog.Logger
}

// Reload takes in anew what headquarters may take in. Safe for concurrent use.
type Reload struct {
	Config

	inForce config.Config // what was taken in last
	one     chan struct{} // holds a word while a reload is at work
	life    context.Context
	end     context.CancelFunc
}

// New returns a reload for a headquarters that runs.
func New(cfg Config) *Reload {
	r := &Reload{Config: cfg, inForce: cfg.Running, one: make(chan struct{}, 1)}
	r.life, r.end = context.WithCancel(context.Background())
	return r
}

// Stop ends a reload that is still reading, and those that wait for it; whoever asked
// for them is told.
func (r *Reload) Stop() { r.end() }

// Again takes in what the configuration says now. Nobody's session ends but of those
// whom the users file lets in no longer. A fault in a file refuses all of it, with a
// *protocol.Error; keys that need a restart are named, and count from then on.
func (r *Reload) Again(ctx context.Context) (admin.Reloaded, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.life, cancel)()
	done, err := r.inTurn(ctx)
	if err != nil {
		why, _, _ := strings.Cut(err.Error(), "\n") // without the line that is quoted
		err = fmt.Errorf("nothing was taken in, what was in force stays: %w", err)
		if ctx.Err() == nil { // the end of headquarters is no trouble
			r.Refused(err)
		}
		return done, &protocol.Error{Code: protocol.CodeSchema, Message: err.Error(), MessageZh: "配置有误，未做任何更改，原配置继续有效；程序给出的原因：" + why,
			Hint:   "mend it; dispatcher check-config looks again; then reload once more",
			HintZh: "请改正后用 dispatcher check-config 检查，再重新加载"}
	}
	r.Refused(nil)
	r.Logger.Info("jobs, stores, users and limits were read again", "jobs", done.Jobs, "stores", done.Stores, "added", done.Added,
		"changed", done.Changed, "retired", done.Retired, "needs_restart", strings.Join(done.NeedRestart, " "))
	return done, nil
}

// inTurn takes in, one after the other.
func (r *Reload) inTurn(ctx context.Context) (admin.Reloaded, error) {
	select {
	case r.one <- struct{}{}:
		defer func() { <-r.one }()
	case <-ctx.Done():
		return admin.Reloaded{}, ctx.Err()
	}
	return r.takeIn(ctx)
}

func (r *Reload) takeIn(ctx context.Context) (admin.Reloaded, error) {
	if r.Read == nil {
		return admin.Reloaded{}, errors.New("this headquarters was started without a configuration that can be read again")
	}
	before := r.inForce
	reading, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	all, err := files.Await(reading, func() (taken, error) { return r.readAll(before) })
	if err != nil {
		return admin.Reloaded{}, err
	}
	if err := r.stillOffered(ctx, all.jobs); err != nil {
		return admin.Reloaded{}, err
	}
	done := admin.Reloaded{Jobs: len(all.jobs.List()), Stores: len(all.places), NeedRestart: unlike(r.Running, all.cfg)}
	// The only step that can fail, on a full disk: it comes first.
	if done.Added, done.Changed, done.Retired, err = r.Store.ReplacePlaces(ctx, all.hash, all.places, r.Now()); err != nil {
		return admin.Reloaded{}, err
	}
	r.Use(all.cfg, all.jobs, all.known)
	all.useUsers()
	r.inForce = all.cfg
	return done, r.Announce(ctx)
}

// taken is what a reload has read, and found sound.
type taken struct {
	cfg      config.Config
	jobs     *job.Registry
	hash     string // of the register
	places   []store.Place
	known    *people.People
	useUsers func()
}

// readAll changes nothing: it may be left behind. before is the configuration in force.
func (r *Reload) readAll(before config.Config) (all taken, err error) {
	if all.cfg, err = r.Read(); err != nil {
		return taken{}, err
	}
	if err := all.cfg.StillNames(before); err != nil {
		return taken{}, err
	}
	if err := all.cfg.CheckFiles(); err != nil {
		return taken{}, err
	}
	jobs, stores, err := all.cfg.ReadLists()
	if err != nil {
		return taken{}, err
	}
	all.jobs, all.hash, all.useUsers = jobs, stores.Hash(), func() {}
	if all.places, err = stores.Places(); err != nil {
		return taken{}, err
	}
	if all.known, err = all.cfg.ReadPeople(); err != nil {
		return taken{}, err
	}
	if r.Users != nil {
		all.useUsers, err = r.Users(all.cfg.Broker.UsersFile)
	}
	return all, err
}

// stillOffered refuses jobs without one that an open run needs to judge answers by.
func (r *Reload) stillOffered(ctx context.Context, jobs *job.Registry) error {
	runs, err := r.Store.ListOpenRuns(ctx)
	if err != nil {
		return err
	}
	for _, run := range runs {
		if _, there := jobs.Get(run.Job); !there {
			return fmt.Errorf("job %s is gone, and run %s still takes answers of it: leave its file until the run is closed, or cancel the run", run.Job, run.RunID)
		}
	}
	return nil
}

// unlike names the keys that differ and count from the next start on.
func unlike(running, now config.Config) []string {
	mine, err := running.Effective()
	theirs, errOther := now.Effective()
	if err != nil || errOther != nil {
		return []string{}
	}
	return settings.Changed(mine, theirs, reloadable()...)
}
