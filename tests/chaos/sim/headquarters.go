package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"muster/dispatcher/app"
	"muster/dispatcher/config"
	"muster/tests/chaos/checker"
	"muster/tests/chaos/sim/mesh"
)

// broker is where headquarters listens, in each of its lives.
const broker = "127.0.0.1:1883"

// headquarters is one life of it.
type headquarters struct {
	folder string
	host   *mesh.Host
	cancel context.CancelFunc
	dead   bool // it was killed: what it still does is nobody's
}

// early is a copy of the database from the middle.
type early struct{ store checker.Store }

// startHeadquarters starts a life on a folder and waits until it is ready.
func (w *world) startHeadquarters(ctx context.Context, folder string) {
	w.mu.Lock()
	w.hqLives++
	n := w.hqLives
	w.mu.Unlock()
	life := &headquarters{folder: folder, host: w.mesh.Host()}
	ctx, life.cancel = context.WithCancel(ctx)
	log, done := w.log(fmt.Sprintf("hq%d.log", n))
	cfg, err := w.hqConfig(folder)
	w.check(err)
	ready := make(chan struct{})
	w.lives.Go(func() {
		defer done()
		err := app.Run(ctx, cfg, app.Options{Version: "sim", Logger: log, Wall: w.hqWall, Listen: life.host.Listen,
			Ready: func(string) { close(ready) }})
		w.mu.Lock()
		dead := life.dead
		w.mu.Unlock()
		if err != nil && !dead {
			w.check(fmt.Errorf("headquarters: %w", err))
		}
		if ctx.Err() == nil {
			w.check(fmt.Errorf("headquarters ended by itself"))
		}
	})
	timer := time.NewTimer(time.Minute)
	defer timer.Stop()
	select {
	case <-ready:
	case <-timer.C:
		w.check(fmt.Errorf("headquarters is not ready within a minute"))
	}
	w.mu.Lock()
	w.hq = life
	w.mu.Unlock()
}

func (w *world) hqConfig(folder string) (config.Config, error) {
	cfg, err := config.Load("")
	cfg.DataFolder, cfg.ReportsFolder = filepath.Join(folder, "data"), filepath.Join(folder, "reports")
	cfg.StoresFile, cfg.JobsFolder = filepath.Join(w.folder, "stores.csv"), filepath.Join(w.folder, "jobs")
	cfg.Broker.Listeners.TCP.Address = broker
	l := w.plan.Limits
	cfg.Admission = config.Admission{MaxRunning: l.MaxRunning, GrantsPerSecond: l.GrantsPerSecond, GrantBurst: l.GrantBurst}
	cfg.Collection.InFlight, cfg.Collection.BytesPerSecond = l.InFlight, l.BytesPerSecond
	return cfg, err
}

func (w *world) hqWall() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.hqStep)
}

// killHeadquarters ends the life as kill -9 does, or the plug, and starts the
// next one on what is on the disk.
func (w *world) killHeadquarters(ctx context.Context, f Fault) {
	w.hqTurn <- struct{}{}
	defer func() { <-w.hqTurn }()
	w.mu.Lock()
	life := w.hq
	w.hq, life.dead, w.hqStep = nil, true, 0
	next := filepath.Join(w.folder, fmt.Sprintf("hq%d", w.hqLives))
	w.mu.Unlock()
	w.check(w.eye.Fault(string(KillHQ), true))
	life.host.Freeze(f.Told)
	w.check(copyHeadquarters(ctx, life.folder, next))
	life.cancel()
	at, _ := w.now()
	store, err := readStore(ctx, next, at)
	w.check(err)
	w.mu.Lock()
	w.early = &early{store}
	w.mu.Unlock()
	wait(f.For)
	w.startHeadquarters(ctx, next)
	w.check(w.eye.Fault(string(KillHQ), false))
}

// looks writes down every report file as it is, again and again.
func (w *world) looks(ctx context.Context) {
	tick := time.NewTicker(45 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		w.look()
	}
}

func (w *world) look() map[string][]byte {
	w.mu.Lock()
	defer w.mu.Unlock() // so that it is not killed meanwhile
	if w.hq == nil {
		return nil
	}
	files, err := checker.ReadReports(os.DirFS(filepath.Join(w.hq.folder, "reports")))
	for name, content := range files {
		if err == nil {
			err = w.eye.Looked(name, content)
		}
	}
	w.failed = errors.Join(w.failed, err)
	return files
}

// log is a program's log file.
func (w *world) log(name string) (log *slog.Logger, done func()) {
	out, err := os.OpenFile(filepath.Join(w.folder, name), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	w.check(err)
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug})), func() { w.check(out.Close()) }
}
