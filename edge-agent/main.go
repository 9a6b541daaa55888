// Command edge-agent is the program of a store terminal: it takes headquarters'
// orders for its store, does each once, and keeps the answers until
// headquarters has them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
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
	"muster/internal/logs"
	"muster/internal/protocol"
)

// version is set by the linker.
var version = "dev"

const usage = `usage: edge-agent [flags]               work until SIGTERM or Ctrl-C
       edge-agent check-config [flags]  read and check configuration and identity only
       edge-agent enroll [flags]        get this terminal's identity from headquarters

flags:
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit code: 0 done, 1 failed, 2 wrong usage.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "enroll" {
		return enroll(ctx, args[1:], stdout, stderr)
	}
	checkOnly := len(args) > 0 && args[0] == "check-config"
	if checkOnly {
		args = args[1:]
	}
	flags := flag.NewFlagSet("edge-agent", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	var over config.Overrides
	path := flags.String("config", "", "configuration `file`; empty: the built-in defaults")
	flags.StringVar(&over.Store, "store", "", "store `id`, over the file's")
	flags.StringVar(&over.Terminal, "terminal", "", "terminal `id`, over the file's")
	flags.StringVar(&over.BrokerURL, "broker", "", "broker `URL`, over the file's")
	flags.StringVar(&over.WorkFolder, "work-folder", "", "`folder` of journal and outbox, over the file's")
	showVersion := flags.Bool("version", false, "print the version and leave")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "edge-agent: unknown argument %q\n", flags.Arg(0))
		flags.Usage()
		return 2
	}
	if *showVersion {
		fmt.Fprintln(stdout, "edge-agent", version)
		return 0
	}
	cfg, err := config.Load(*path, over)
	if err != nil {
		fmt.Fprintln(stderr, "edge-agent:", err)
		return 1
	}
	if checkOnly {
		err = check(cfg, stdout)
	} else {
		err = logAndServe(ctx, cfg, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "edge-agent:", err)
		return 1
	}
	return 0
}

// check tells what stands in the configuration, and until when the certificate
// lasts.
func check(cfg *config.Config, stdout io.Writer) error {
	var id *identity.Identity
	waits := enrolsItself(cfg)
	if !waits {
		var err error
		if id, err = openIdentity(cfg); err != nil {
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
func enrolsItself(cfg *config.Config) bool {
	return cfg.Identity.TokenFile != "" && !identity.Finished(cfg.Identity.Folder)
}

// awaitIdentity is openIdentity, after the enrolment that the configuration may
// ask for.
func awaitIdentity(ctx context.Context, cfg *config.Config, log *slog.Logger) (*identity.Identity, error) {
	if !enrolsItself(cfg) {
		return openIdentity(cfg)
	}
	return enrol.Await(ctx, enrol.Request{URL: cfg.Identity.Headquarters, Folder: cfg.Identity.Folder,
		Store: cfg.Store, Terminal: cfg.Terminal}, cfg.Identity.TokenFile, log)
}

// slowClock is how far a clock may be behind and not be told of: certificates are
// dated five minutes back for it.
const slowClock = 5 * time.Minute

func warnOfClock(id *identity.Identity, log *slog.Logger) {
	if id == nil {
		return
	}
	if behind := id.Behind(time.Now()); behind > slowClock {
		log.Warn("the clock of this machine is behind what headquarters has signed; work goes on by headquarters' time, and logs and file times stay wrong until the clock is set",
			"behind", behind)
	}
}

// openIdentity returns nil when identity is off.
func openIdentity(cfg *config.Config) (*identity.Identity, error) {
	if cfg.Identity.Folder == "" {
		return nil, nil
	}
	return identity.Open(cfg.Identity.Folder, cfg.Store, cfg.Terminal, time.Now())
}

func logAndServe(ctx context.Context, cfg *config.Config, stderr io.Writer) error {
	log, err := logs.New(stderr, cfg.Log.Level, cfg.Log.Format)
	if err != nil {
		return err
	}
	return serve(ctx, cfg, log)
}

// serve wires the parts, works until ctx ends, and stops them in reverse.
func serve(ctx context.Context, cfg *config.Config, log *slog.Logger) (err error) {
	log = log.With("store_id", cfg.Store, "terminal_id", cfg.Terminal)
	lock, err := journal.Acquire(cfg.WorkFolder, time.Now())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	id, err := awaitIdentity(ctx, cfg, log)
	if errors.Is(err, context.Canceled) {
		return nil // it was told to stop
	}
	if err != nil {
		return err
	}
	warnOfClock(id, log)
	book, err := journal.Open(cfg.WorkFolder, time.Now, log)
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
	topics, err := protocol.NewTopics(cfg.TopicRoot)
	if err != nil {
		return err
	}
	worker, err := agent.New(agent.Config{
		StoreID: cfg.Store, TerminalID: cfg.Terminal, Version: version, Topics: topics, Jobs: jobs,
		Labels: cfg.Labels, MaxParallel: cfg.MaxParallel, Refuse: agent.Refuse(cfg.Refuse),
		Measure: func() protocol.Condition { return condition.Measure(cfg.WorkFolder) },
		Journal: book, Outbox: box, Stamp: stamp.New(time.Now, book.LastWrite()), Logger: log, Identity: id,
	})
	if err != nil {
		return err
	}
	connection, err := newLink(cfg, topics, id, worker, log)
	if err != nil {
		return err
	}
	log.Info("edge agent starts", "version", version, "work_folder", cfg.WorkFolder)
	linkCtx, stopLink := context.WithCancel(context.WithoutCancel(ctx))
	var linked sync.WaitGroup
	linked.Go(func() { connection.Run(linkCtx) })
	if id != nil {
		linked.Go(func() { enrol.KeepFresh(linkCtx, id, log) })
	}
	worker.Run(ctx, connection)
	stopLink()
	linked.Wait()
	log.Info("edge agent stopped", "refused_messages", worker.Refused())
	return nil
}

func newLink(cfg *config.Config, topics protocol.Topics, id *identity.Identity, handler link.Handler, log *slog.Logger) (*link.Link, error) {
	broker, err := cfg.BrokerURL()
	if err != nil {
		return nil, err
	}
	tlsConfig, err := cfg.TLS()
	if err != nil {
		return nil, err
	}
	reach := link.Config{Broker: broker, TLS: tlsConfig, Store: cfg.Store, Terminal: cfg.Terminal,
		User: cfg.User(), Password: cfg.Broker.Password, Topics: topics, Logger: log}
	if id != nil {
		id.Prove(tlsConfig, broker.Hostname())
		reach.Signer = id.Signer
	}
	return link.New(reach, handler), nil
}

// newJobs lists what the terminal can execute.
func newJobs(cfg *config.Config) (executor.Registry, error) {
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
