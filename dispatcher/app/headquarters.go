package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"muster/dispatcher/app/internal/alert"
	"muster/dispatcher/app/internal/measure"
	"muster/dispatcher/app/internal/reload"
	"muster/dispatcher/config"
	"muster/dispatcher/internal/admin"
	"muster/dispatcher/internal/auditor"
	"muster/dispatcher/internal/backlog"
	"muster/dispatcher/internal/barrier"
	"muster/dispatcher/internal/catalogue"
	"muster/dispatcher/internal/clock"
	"muster/dispatcher/internal/enrol"
	"muster/dispatcher/internal/gate"
	"muster/dispatcher/internal/grant"
	"muster/dispatcher/internal/hands"
	"muster/dispatcher/internal/identity"
	"muster/dispatcher/internal/intake"
	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/offer"
	"muster/dispatcher/internal/people"
	"muster/dispatcher/internal/plan"
	"muster/dispatcher/internal/presence"
	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/register"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/dispatcher/internal/trigger"
	"muster/dispatcher/internal/watch"
	"muster/internal/files"
	"muster/internal/logs"
	"muster/internal/protocol"
	"muster/schemas"
)

// headquarters holds the wired steps.
type headquarters struct {
	cfg     config.Config
	version string
	log     *slog.Logger
	clock   *clock.Clock
	now     func() time.Time // of the clock
	listen  transport.Listen
	end     context.CancelCauseFunc // ends headquarters over a trouble that nothing mends
	// welcomed is closed when others are let in.
	welcomed chan struct{}
	ready    atomic.Bool                   // everything has started
	again    func() (config.Config, error) // reads the configuration once more; nil: it cannot be
	topics   protocol.Topics
	zone     *time.Location // of reports and lines
	jobs     *job.Registry
	people   *people.People
	store    *store.Store

	link   transport.Link
	hands  *hands.Hands
	queue  *transport.Queue
	sender *transport.Sender       // waits for the broker
	orders *transport.Sender       // never blocks
	wanted func(topic string) bool // whether anybody subscribes; nil: the broker keeps what is retained

	identity *identity.Identity // nil: nothing is signed
	gate     *gate.Gate         // nil without an identity
	enrol    *enrol.Server      // nil: off
	admin    *admin.Server
	auditor  *auditor.Auditor

	aside    *quarantine.Quarantine // nil: it cannot be had
	ward     *quarantine.Ward
	alerts   *alert.Alerts
	reload   *reload.Reload
	meter    *measure.Meter
	disk     chan error   // what the database says of its disk; nil: well again
	panicked logs.Sparing // a message that makes a step panic

	planner   *plan.Planner
	trigger   *trigger.Trigger
	offer     *offer.Offers
	grant     *grant.Admission
	backlog   *backlog.Backlog
	intake    *intake.Intake
	presence  *presence.Presence
	barrier   *barrier.Barrier
	catalogue *catalogue.Catalogue
	watch     *watch.Watch
}

// open reads the register, makes the steps and starts them.
func (hq *headquarters) open(ctx context.Context, stores register.File, cleanup *stack) error {
	if err := takeRegister(ctx, hq.store, stores, hq.now(), hq.log); err != nil {
		return err
	}
	// Users and certificates are read on the way.
	if _, err := files.Await(ctx, func() (struct{}, error) { return struct{}{}, hq.wire() }); err != nil {
		return err
	}
	return hq.start(ctx, cleanup)
}

// start starts the steps. The embedded broker opens as soon as offers can be served,
// while the others still gather what they need and the database is checked; see
// welcome. An external one is asked for messages last, and what the steps publish
// waits for it.
func (hq *headquarters) start(ctx context.Context, cleanup *stack) error {
	cleanup.push(hq.aside.Close)
	cleanup.push(stopped(hq.alerts.Stop))
	if err := hq.startNumbers(store.Owed(ctx, "number"), cleanup); err != nil {
		return err
	}
	cleanup.push(hq.watchDisk(ctx))
	hq.watchClock(ctx)
	cleanup.push(stopped(hq.clock.Stop))
	hq.dropNotice()
	cleanup.push(hq.alerts.EndOld(ctx, hq.awaitWelcome))
	if err := hq.startTrust(ctx, cleanup); err != nil {
		return err
	}
	hq.queue.Start(ctx)
	cleanup.push(stopped(hq.queue.Stop))
	for _, stop := range []func(){hq.presence.Stop, hq.offer.Stop, hq.grant.Stop, hq.intake.Stop, hq.backlog.Stop,
		hq.catalogue.Stop, hq.barrier.Stop, hq.watch.Stop, hq.hands.Stop} {
		cleanup.push(stopped(stop)) // each may come before its start
	}
	cleanup.push(patiently(ctx, hq.link.Stop))
	cleanup.push(stopped(hq.trigger.Stop))
	serve := []func(context.Context) error{hq.presence.Start, hq.offer.Start}
	answer := []func(context.Context) error{hq.grant.Start, hq.intake.Start, hq.backlog.Start, hq.catalogue.Start,
		hq.barrier.Start, hq.watch.Start, hq.trigger.Start, hq.welcome}
	link := []func(context.Context) error{hq.openLink}
	order := slices.Concat(serve, answer, link)
	if hq.cfg.Transport == config.TransportEmbedded {
		order = slices.Concat(serve, link, answer)
	}
	for _, start := range order {
		if err := start(ctx); err != nil {
			return err
		}
	}
	cleanup.push(hq.remember(ctx))
	return nil
}

// remember has the store register read, so that the first run need not wait for that.
func (hq *headquarters) remember(ctx context.Context) (stop func() error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = hq.store.ListPlaces(ctx) }) // whoever needs it tries again, and says why not
	return func() error {
		cancel()
		reading.Wait()
		return nil
	}
}

func (hq *headquarters) openLink(ctx context.Context) error {
	if hq.identity != nil {
		hq.identity.Announce(hq.announceKeys)
	}
	if err := hq.link.Start(ctx); err != nil {
		return err
	}
	if err := hq.publishTrust(ctx); err != nil {
		return err
	}
	return hq.publishInfo(ctx)
}

// welcome lets in what others say, once every step is there and the database is known
// to be sound. An offer may be served before, since nothing runs without a grant; an
// answer may not: told that a task is not known, a terminal deletes what it holds.
func (hq *headquarters) welcome(ctx context.Context) error {
	if err := hq.store.Sound(ctx); err != nil {
		return err
	}
	close(hq.welcomed)
	return nil
}

// awaitWelcome returns once others are let in, or with ctx's error.
func (hq *headquarters) awaitWelcome(ctx context.Context) error {
	select {
	case <-hq.welcomed:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("headquarters has not started: %w", ctx.Err())
	}
}

// isReady says why headquarters takes in nothing yet, or no more; nil when it does.
func (hq *headquarters) isReady(ctx context.Context) error {
	if !hq.ready.Load() {
		return fmt.Errorf("headquarters is starting")
	}
	return hq.store.Health(ctx)
}

func stopped(stop func()) func() error {
	return func() error { stop(); return nil }
}

// handle routes one message to its step. One that makes a step panic, or whose
// write breaks by itself, must not end headquarters nor come again for ever: it
// is acknowledged and not taken in. Terminals ask again for what matters to
// them; answers that come again are intake's to end.
func (hq *headquarters) handle(ctx context.Context, in transport.Inbound) (err error) {
	defer func() {
		cause := recover()
		if cause == nil && errors.Is(err, store.ErrBroken) {
			cause = err
		}
		if cause == nil {
			return
		}
		err = nil
		if left, due := hq.panicked.Due("", hq.now()); due { // stacks are large, and the message may come again and again
			hq.log.Error("a message made a step panic; it is not taken in", "topic", in.Topic, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()), "left_out", left)
			hq.alerts.Raise(protocol.SeverityCritical, quarantine.AlarmPanicked, in.Topic, fmt.Errorf("%v", cause))
		}
	}()
	addr, ok := hq.topics.Parse(in.Topic)
	if !ok {
		hq.log.Warn("message on a topic that nobody takes in", "topic", in.Topic)
		return nil
	}
	done, err := hq.begin(ctx, addr, in)
	if done == nil {
		return err
	}
	defer func() { done(err) }()
	if addr.Area == protocol.AreaRequest {
		hq.clock.Look(ctx) // a run that is made now is to live in the time of now
	}
	defer hq.clock.Hold()()
	if addr.Area == protocol.AreaRequest {
		return hq.trigger.Handle(ctx, addr, in)
	}
	if hq.gate == nil {
		return hq.take(ctx, addr, in)
	}
	return hq.gate.Pass(ctx, addr, in, func() error { return hq.take(ctx, addr, in) })
}

// handleByHand is handle for a link that calls it on each connection's own goroutine.
// Technicians are few, and do not wait behind terminals.
func (hq *headquarters) handleByHand(ctx context.Context, in transport.Inbound) (err error) {
	if err := hq.awaitWelcome(ctx); err != nil {
		return err
	}
	addr, ok := hq.topics.Parse(in.Topic)
	if ok && addr.Area == protocol.AreaRequest {
		return hq.handle(ctx, in)
	}
	if addr.Kind == protocol.KindClaim {
		hq.offer.Rush(ctx)
	}
	hq.hands.Lend(func() { err = hq.handle(ctx, in) })
	return err
}

// take gives a terminal's message to the step that it is for.
func (hq *headquarters) take(ctx context.Context, addr protocol.Address, in transport.Inbound) error {
	switch addr.Kind {
	case protocol.KindClaim:
		return hq.grant.HandleClaim(ctx, addr, in)
	case protocol.KindProgress:
		hq.intake.Heard(addr.Store, addr.Terminal)
		return hq.grant.HandleProgress(ctx, addr, in)
	case protocol.KindReady:
		return hq.intake.HandleReady(ctx, addr, in)
	case protocol.KindResult:
		return hq.intake.HandleResult(ctx, addr, in)
	case protocol.KindHello:
		return hq.presence.HandleHello(ctx, addr, in)
	case protocol.KindPresence:
		return hq.presence.HandlePresence(ctx, addr, in)
	case protocol.KindOffer, protocol.KindOrders:
	}
	return nil
}

// connected runs whenever an external broker was reached anew: it may have lost
// everything that was retained, and who is there may have spoken to nobody.
func (hq *headquarters) connected() {
	if err := hq.publishTrust(context.Background()); err != nil {
		hq.log.Error("cannot publish the list of keys again", "error", err)
	}
	hq.presence.Reached()
	hq.offer.Republish("")
	if err := hq.watch.Refresh(context.Background()); err != nil {
		hq.log.Error("cannot publish the states of the runs again", "error", err)
	}
	if err := hq.barrier.Refresh(context.Background()); err != nil {
		hq.log.Error("cannot publish the summaries of the runs again", "error", err)
	}
	if err := hq.publishInfo(context.Background()); err != nil {
		hq.log.Error("cannot publish what headquarters offers again", "error", err)
	}
}

func (hq *headquarters) publishInfo(ctx context.Context) error {
	info := protocol.Info{Meta: hq.sender.Meta(), Version: hq.version, Protocols: []int{1}}
	for _, spec := range hq.jobs.List() {
		info.Jobs = append(info.Jobs, spec.Info())
	}
	files, err := schemas.FS.ReadDir(".")
	if err != nil {
		return fmt.Errorf("cannot list the schemas: %w", err)
	}
	for _, file := range files {
		info.Schemas = append(info.Schemas, file.Name())
	}
	return hq.sender.JSON(ctx, hq.topics.Info(), info, transport.Options{Retain: true})
}

// address is where terminals and technicians connect.
func (hq *headquarters) address() string {
	if embedded, ok := hq.link.(*transport.Embedded); ok {
		for _, name := range []string{"tcp", "tls", "ws"} {
			if addr := embedded.Addr(name); addr != nil {
				return addr.String()
			}
		}
	}
	if u, err := url.Parse(hq.cfg.MQTT.URL); err == nil {
		return u.Host
	}
	return ""
}
