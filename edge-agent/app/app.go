// Package app wires the agent together and runs its life: it takes the work
// folder, opens journal, outbox and identity, and starts the agent and its link.
// It decides nothing itself.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"sync"
	"time"

	"muster/edge-agent/internal/agent"
	"muster/edge-agent/internal/collect"
	"muster/edge-agent/internal/condition"
	"muster/edge-agent/internal/config"
	"muster/edge-agent/internal/enrol"
	"muster/edge-agent/internal/executor"
	"muster/edge-agent/internal/identity"
	"muster/edge-agent/internal/journal"
	"muster/edge-agent/internal/link"
	"muster/edge-agent/internal/outbox"
	"muster/edge-agent/internal/stamp"
	"muster/internal/protocol"
	"muster/internal/trust"
)

// What a caller needs of the packages inside.
type (
	// Executor does the work of an order.
	Executor = executor.Executor
	// Func is work inside the process; a panic in it is a failure.
	Func = executor.Func
	// Order is one granted execution.
	Order = executor.Order
	// Output is what an execution gave.
	Output = executor.Output
	// Config is edge-agent.yaml.
	Config = config.Config
	// Overrides is what the command line puts over it.
	Overrides = config.Overrides
)

// Load reads and checks the configuration at path, or the built-in one when path
// is "". An error names file, line and key.
func Load(path string, over Overrides) (*Config, error) { return config.Load(path, over) }

// Options are what the program around the agent supplies.
type Options struct {
	Version string
	Logger  *slog.Logger
	// Wall is the clock on the wall, which people set; nil: this machine's.
	Wall func() time.Time
	// Dial reaches the broker's address; nil: over the network of this machine.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Jobs are executors beside those of the configuration, which they replace.
	Jobs map[protocol.JobVersion]Executor
}

// Run wires the parts, works until ctx ends, and stops them in reverse. The error
// says why it could not start or stop.
func Run(ctx context.Context, cfg *Config, opts Options) (err error) {
	if opts.Wall == nil {
		opts.Wall = time.Now
	}
	now, log := opts.Wall, opts.Logger.With("store_id", cfg.Store, "terminal_id", cfg.Terminal)
	lock, err := journal.Acquire(cfg.WorkFolder, now())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	id, err := awaitIdentity(ctx, cfg, now, log)
	if errors.Is(err, context.Canceled) {
		return nil // it was told to stop
	}
	if err != nil {
		return err
	}
	warnOfClock(id, now(), log)
	book, err := journal.Open(cfg.WorkFolder, now, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, book.Close()) }()
	box, err := outbox.Open(filepath.Join(cfg.WorkFolder, "outbox"), log)
	if err != nil {
		return err
	}
	jobs, err := newJobs(cfg)
	if err != nil {
		return err
	}
	maps.Copy(jobs, opts.Jobs)
	topics, err := protocol.NewTopics(cfg.TopicRoot)
	if err != nil {
		return err
	}
	numbers := stamp.New(now, book.LastWrite())
	numbers.Keep(cfg.WorkFolder, log)
	worker := agent.New(agent.Config{
		StoreID: cfg.Store, TerminalID: cfg.Terminal, Version: opts.Version, Topics: topics, Jobs: jobs,
		Labels: cfg.Labels, MaxParallel: cfg.MaxParallel, Refuse: agent.Refuse(cfg.Refuse),
		Measure: func() protocol.Condition { return condition.Measure(cfg.WorkFolder) },
		Journal: book, Outbox: box, Home: func() error { return lock.Here(now()) }, Stamp: numbers, Now: now, Logger: log, Identity: id,
	})
	connection, err := newLink(cfg, topics, id, worker, opts, log)
	if err != nil {
		return err
	}
	log.Info("edge agent starts", "version", opts.Version, "work_folder", cfg.WorkFolder)
	linkCtx, stopLink := context.WithCancel(context.WithoutCancel(ctx))
	var linked sync.WaitGroup
	linked.Go(func() { connection.Run(linkCtx) })
	if id != nil {
		linked.Go(func() { enrol.KeepFresh(linkCtx, id, now, log) })
	}
	worker.Run(ctx, connection)
	stopLink()
	linked.Wait()
	log.Info("edge agent stopped", "refused_messages", worker.Refused())
	return nil
}

// Check tells what stands in the configuration, and until when the certificate
// lasts.
func Check(cfg *Config, stdout io.Writer) error {
	var id *identity.Identity
	waits := enrolsItself(cfg)
	if !waits {
		var err error
		if id, err = openIdentity(cfg, time.Now()); err != nil {
			return err
		}
	}
	fmt.Fprintf(stdout, "configuration is valid: terminal %s of store %s, broker %s\n", cfg.Terminal, cfg.Store, cfg.Broker.URL)
	switch {
	case waits:
		fmt.Fprintf(stdout, "no identity yet: the agent enrols by itself at %s with the token in %s\n", cfg.Identity.Headquarters, cfg.Identity.TokenFile)
	case id != nil:
		fmt.Fprintf(stdout, "identity is valid: the certificate lasts until %s and is renewed by itself at %s\n",
			id.Certificate().Leaf.NotAfter.Format(time.RFC3339), id.EnrolmentURL())
	}
	return nil
}

// enrolsItself says whether the identity is still to come.
func enrolsItself(cfg *Config) bool {
	return cfg.Identity.TokenFile != "" && !identity.Finished(cfg.Identity.Folder)
}

// awaitIdentity is openIdentity, after the enrolment that the configuration may
// ask for.
func awaitIdentity(ctx context.Context, cfg *Config, now func() time.Time, log *slog.Logger) (*identity.Identity, error) {
	if !enrolsItself(cfg) {
		return awaitClock(ctx, cfg, now, log)
	}
	return enrol.Await(ctx, enrol.Request{URL: cfg.Identity.Headquarters, Folder: cfg.Identity.Folder,
		Store: cfg.Store, Terminal: cfg.Terminal, Wall: now}, cfg.Identity.TokenFile, log)
}

const (
	// lookAgain is how soon the agent sees that the clock was set or the terminal
	// enrolled anew.
	lookAgain = 5 * time.Second
	// tellAgain is how many looks lie between two lines of the log, an hour.
	tellAgain = int(time.Hour / lookAgain)
)

// awaitClock is openIdentity, again and again while the certificate has ended by
// this machine's clock: that may be wrong until somebody, or the network, sets it.
func awaitClock(ctx context.Context, cfg *Config, now func() time.Time, log *slog.Logger) (*identity.Identity, error) {
	for look := 0; ; look++ {
		id, err := openIdentity(cfg, now())
		if !errors.Is(err, identity.ErrEnded) {
			return id, err
		}
		if look%tellAgain == 0 {
			log.Error("cannot connect yet", "error", err, "looks_again_in", lookAgain)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lookAgain):
		}
	}
}

// openIdentity returns nil when identity is off.
func openIdentity(cfg *Config, now time.Time) (*identity.Identity, error) {
	if cfg.Identity.Folder == "" {
		return nil, nil
	}
	return identity.Open(cfg.Identity.Folder, cfg.Store, cfg.Terminal, now)
}

// slowClock is how far a clock may be behind and not be told of.
const slowClock = 5 * time.Minute

func warnOfClock(id *identity.Identity, now time.Time, log *slog.Logger) {
	if id == nil {
		return
	}
	if behind := id.Behind(now); behind > slowClock {
		log.Warn("the clock of this machine is behind what headquarters has signed; work goes on by headquarters' time, and logs and file times stay wrong until the clock is set",
			"behind", behind)
	}
}

func newLink(cfg *Config, topics protocol.Topics, id *identity.Identity, handler link.Handler,
	opts Options, log *slog.Logger) (*link.Link, error) {
	broker, err := cfg.BrokerURL()
	if err != nil {
		return nil, err
	}
	tlsConfig, err := cfg.TLS()
	if err != nil {
		return nil, err
	}
	tlsConfig.Time = opts.Wall
	reach := link.Config{Broker: broker, TLS: tlsConfig, Store: cfg.Store, Terminal: cfg.Terminal,
		User: cfg.User(), Password: cfg.Password(), Topics: topics, Dial: opts.Dial, Logger: log}
	if id != nil {
		id.Prove(tlsConfig, broker.Hostname())
		reach.Signer = id.Signer
		handler = listener{handler, id, topics.Terminal(cfg.Store, cfg.Terminal, protocol.KindOrders)}
	}
	return link.New(reach, handler), nil
}

// listener has the identity hear what time it is at headquarters.
type listener struct {
	link.Handler
	id     *identity.Identity
	orders string
}

// Message hands on.
func (l listener) Message(topic string, payload []byte, signature trust.Signature) {
	if topic == l.orders {
		l.id.Hear(topic, payload, signature)
	}
	l.Handler.Message(topic, payload, signature)
}

// newJobs lists what the terminal can execute.
func newJobs(cfg *Config) (executor.Registry, error) {
	collector, err := collect.New(cfg.Collect)
	if err != nil {
		return nil, err
	}
	jobs := executor.Registry{
		{Type: config.CollectLog, Version: config.CollectLogVersion}: executor.Func(collector.Collect),
	}
	for _, e := range cfg.Executors {
		jobs[protocol.JobVersion{Type: e.Type, Version: e.Version}] = executor.Program{
			Argv: e.Command, Dir: e.Folder, MaxOutputBytes: e.MaxOutputBytes}
	}
	return jobs, nil
}
