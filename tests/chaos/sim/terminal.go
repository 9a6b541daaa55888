package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"muster/edge-agent/app"
	"muster/internal/protocol"
	"muster/tests/chaos/history"
	"muster/tests/chaos/sim/mesh"
	"muster/tests/chaos/tap"
)

// seat is one terminal through all its lives.
type seat struct {
	world *world
	seat  Seat
	out   *history.Writer
	tap   *tap.Tap
	bend  *bender
	turn  chan struct{} // one kill after the other

	mu     sync.Mutex
	rng    *rand.Rand
	life   *life
	lives  int
	clock  time.Duration // how far its wall clock is off
	shape  mesh.Line
	serial int // of executions
}

// life is one agent from its start to its end.
type life struct {
	seat   *seat
	folder string
	host   *mesh.Host
	cancel context.CancelFunc

	mu    sync.Mutex
	dead  bool // killed: it executes nothing any more
	doing map[execution]bool
}

// execution is one attempt of a task.
type execution struct {
	task    string
	attempt int
}

func (w *world) newSeat(i int, s Seat) *seat {
	at := &seat{world: w, seat: s, turn: make(chan struct{}, 1), rng: w.random(uint64(1000 + i)), clock: s.Clock}
	if s.Epoch {
		at.clock = time.Unix(0, 0).Sub(w.began)
	}
	at.shape = mesh.Line{Latency: between(at.rng, time.Millisecond, 300*time.Millisecond), Jitter: between(at.rng, time.Millisecond, 100*time.Millisecond)}
	at.out = w.writer(history.Participant{Who: s.name(), Role: history.RoleAgent, Store: s.Store, Terminal: s.Terminal})
	at.bend = &bender{seat: at, rng: w.random(uint64(2000 + i)), odds: w.plan.Messages}
	at.tap = tap.Bent(at.out, at.bend.pass)
	return at
}

// suffers names a fault of the terminal, as the checker reads it.
func (s *seat) suffers(what string) string { return "terminal " + what + " " + s.seat.name() }

func (s *seat) host() *mesh.Host {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life.host
}

func (s *seat) wall() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.clock)
}

// start begins the next life.
func (s *seat) start(ctx context.Context) {
	w := s.world
	s.mu.Lock()
	l := &life{seat: s, folder: s.next(), host: w.mesh.Host(), doing: map[execution]bool{}}
	l.host.Shape(s.shape)
	s.lives++
	s.life = l
	name := fmt.Sprintf("%s-%s-%d.log", s.seat.Store, s.seat.Terminal, s.lives)
	s.mu.Unlock()
	ctx, l.cancel = context.WithCancel(ctx)
	cfg, err := app.Load("", app.Overrides{Store: s.seat.Store, Terminal: s.seat.Terminal, BrokerURL: "mqtt://" + broker, WorkFolder: l.folder})
	w.check(err)
	cfg.MaxParallel = s.seat.Parallel
	jobs := map[protocol.JobVersion]app.Executor{}
	for _, j := range w.plan.Jobs {
		jobs[protocol.JobVersion{Type: j.Name, Version: 1}] = &work{life: l, job: j}
	}
	log, done := w.log(name)
	w.lives.Go(func() {
		defer done()
		err := app.Run(ctx, cfg, app.Options{Version: "sim", Logger: log, Wall: s.wall, Dial: l.dial, Jobs: jobs})
		if err != nil {
			w.check(fmt.Errorf("agent %s: %w", s.seat.name(), err))
		}
		if ctx.Err() == nil {
			w.check(fmt.Errorf("agent %s ended by itself", s.seat.name()))
		}
	})
}

// next is the work folder of the next life; s.mu is held.
func (s *seat) next() string {
	return filepath.Join(s.world.folder, fmt.Sprintf("%s-%s-%d", s.seat.Store, s.seat.Terminal, s.lives))
}

// kill ends the life as kill -9 does, and starts the next one on what is on the
// disk.
func (s *seat) kill(ctx context.Context, f Fault) {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	s.mu.Lock()
	l, next := s.life, s.next()
	s.mu.Unlock()
	l.mu.Lock()
	l.dead = true
	cut := slices.Collect(maps.Keys(l.doing))
	l.mu.Unlock()
	l.host.Freeze(f.Told)
	s.world.check(copyExactly(l.folder, next, everything))
	s.world.check(lose(next, f.Loses))
	if f.Loses == Nothing {
		s.world.owes(s, true, cut...)
	} else {
		s.world.forgets(s)
	}
	l.cancel()
	wait(f.For)
	s.start(ctx)
}

// suffer does a fault of the terminal or its line.
func (s *seat) suffer(ctx context.Context, f Fault) {
	switch f.Kind {
	case Cut:
		s.host().Cut()
	case HalfOpen:
		s.host().HalfOpen(f.Told)
	case BlackHole:
		s.host().BlackHole()
	case Hold:
		s.reshape(func(l *mesh.Line) { l.HeldUntil = time.Now().Add(f.For) })
		wait(f.For)
	case Slow:
		s.reshape(func(l *mesh.Line) { l.Latency, l.BytesPerSecond = l.Latency+2*time.Second, 1000 })
		wait(f.For)
		s.reshape(func(l *mesh.Line) { l.Latency, l.BytesPerSecond = l.Latency-2*time.Second, 0 })
	case KillAgent:
		s.kill(ctx, f)
	case Jump:
		s.mu.Lock()
		s.clock += f.By
		s.mu.Unlock()
	case KillHQ, Step, CutEverything, Countermand:
	}
}

func (s *seat) reshape(change func(*mesh.Line)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.shape)
	s.life.host.Shape(s.shape)
}

func (s *seat) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.life.cancel()
}

func (s *seat) close() {
	s.tap.Close()
	s.world.check(s.tap.Failed())
	s.world.check(s.out.Close())
}

// dial reaches headquarters through the tap.
func (l *life) dial(ctx context.Context, network, address string) (net.Conn, error) {
	far, err := l.host.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	near, inner := l.seat.world.mesh.Pipe()
	l.seat.tap.Join(voice{inner, l}, far)
	return near, nil
}

// voice is what the tap hears of a life. What one says that was killed it never said: its
// process still runs here, on a disk that nobody sees any more.
type voice struct {
	net.Conn
	life *life
}

// Read reads what was said before the kill.
func (v voice) Read(p []byte) (int, error) {
	for {
		n, err := v.Conn.Read(p)
		v.life.mu.Lock()
		dead := v.life.dead
		v.life.mu.Unlock()
		if err != nil || !dead {
			return n, err
		}
	}
}

// work is the executor of one job in one life.
type work struct {
	life *life
	job  Job
}

// errDead is what an execution of a killed agent comes to: nobody hears of it.
var errDead = errors.New("the agent was killed")

// Run leaves its mark first thing, unless the agent was killed before.
func (x *work) Run(ctx context.Context, order app.Order) (app.Output, error) {
	l, s := x.life, x.life.seat
	l.mu.Lock()
	if l.dead {
		l.mu.Unlock()
		<-ctx.Done()
		return app.Output{}, errDead
	}
	s.world.check(s.out.Executed(order.TaskID, order.Attempt))
	this := execution{order.TaskID, order.Attempt}
	l.doing[this] = true
	l.mu.Unlock()
	s.mu.Lock()
	s.serial++
	serial, how, pace := s.serial, x.job.Ends[s.rng.IntN(len(x.job.Ends))], between(s.rng, 0, 30*time.Second)
	s.mu.Unlock()
	s.world.happens("executing", s)
	defer s.world.happens("executed", s)
	defer l.done(this)
	return app.Func(func(ctx context.Context, _ json.RawMessage, _ time.Time) (json.RawMessage, error) {
		return end(ctx, how, pace, fmt.Sprintf("%s did it, %d", s.seat.name(), serial))
	}).Run(ctx, order)
}

func (l *life) done(e execution) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.doing, e)
	if !l.dead {
		l.seat.world.owes(l.seat, false, e)
	}
}

// end is how an execution goes.
func end(ctx context.Context, how string, pace time.Duration, marker string) (json.RawMessage, error) {
	rest := func(d time.Duration) error {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	pad := ""
	switch how {
	case "slow":
		if err := rest(pace); err != nil {
			return nil, err
		}
	case "large":
		pad = strings.Repeat("x", 9<<10+int(pace%(60<<10)))
	case "fail":
		return nil, errors.New("the till is on fire")
	case "panic":
		panic("the till is upside down")
	case "stubborn": // hears no cancel
		wait(pace / 4)
	case "endless":
		return nil, rest(time.Hour)
	case "invalid":
		return json.RawMessage(`{"mark":"another name"}`), nil
	}
	return json.RawMessage(fmt.Sprintf(`{"marker":%q,"pad":%q,%s}`, marker, pad, sales(marker))), nil
}

// sales are values of every type, by the marker, now and then of another type.
func sales(marker string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(marker)) // it never fails
	n := int(h.Sum32() % 5000)
	sold := strconv.Itoa(n - 100)
	if n%7 == 0 {
		sold = strconv.Quote(sold)
	}
	at := time.Date(2026, 9, 17, 0, 0, n, n%1000*int(time.Millisecond), time.FixedZone("", n%14*3600))
	return fmt.Sprintf(`"sold":%s,"price":%d.%02d,"day":"%s","at":%q,"open":%t,"till":"till %d"`, sold, n, n%100,
		at.AddDate(0, 0, n%30).Format(time.DateOnly), at.Format("2006-01-02T15:04:05.000Z07:00"), n%3 > 0, n%5)
}
