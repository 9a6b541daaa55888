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
	"strings"
	"syscall"

	"muster/edge-agent/app"
	"muster/internal/files"
	"muster/internal/logs"
	"muster/internal/settings"
	"muster/internal/usage"
)

// version is set by the linker.
var version = "dev"

const help = `usage: edge-agent [run] [flags]            work until SIGTERM or Ctrl-C, whatever becomes of the window
       edge-agent enroll [flags]           get this terminal's identity from headquarters
       edge-agent check-config [flags]     read and check configuration and identity only
       edge-agent doctor [flags]           check this terminal one thing at a time, each with its mend
       edge-agent run-once [flags] FILE    execute one task offline and print its result; - is standard input
       edge-agent version [-json]

Whose terminal it is has to be said: -store, MUSTER_STORE, or store in the file.
Every key may also be given by the environment, as MUSTER_ and the key in capitals
with _ for each dot (MUSTER_BROKER_URL), and by -set, which goes over both.
Exit codes: 0 done, 1 failed, 2 wrong usage; of run-once also 3 the execution
failed, 4 it ran into its time limit, 5 it was interrupted.

flags:
`

// The exit codes.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitExecution   = 3
	exitTimeLimit   = 4
	exitInterrupted = 5
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// commands are the words that a command line may begin with.
func commands() []string {
	return []string{"run", "enroll", "check-config", "doctor", "run-once", "version", "help"}
}

// line is what the command line says.
type line struct {
	command   string
	path      string
	over      app.Overrides
	sets      sets
	effective bool
	asJSON    bool
	args      []string
}

// sets are the values of a flag that may be repeated.
type sets []string

func (s *sets) String() string { return strings.Join(*s, " ") }

// Set takes one more.
func (s *sets) Set(value string) error { *s = append(*s, value); return nil }

// read returns the exit code, -1 when there is something to do.
func (l *line) read(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("edge-agent", flag.ContinueOnError)
	flags.StringVar(&l.path, "config", "", "configuration `file`; empty: the built-in defaults")
	flags.StringVar(&l.path, "c", "", "configuration `file`")
	flags.StringVar(&l.over.Store, "store", "", "store `id`, over file and environment")
	flags.StringVar(&l.over.Terminal, "terminal", "", "terminal `id`, over file and environment")
	flags.StringVar(&l.over.BrokerURL, "broker", "", "broker `URL`, over file and environment")
	flags.StringVar(&l.over.WorkFolder, "work-folder", "", "`folder` of journal and outbox, over file and environment")
	flags.Var(&l.sets, "set", "`KEY=VALUE` over file and environment, such as log.level=debug; may be repeated")
	flags.BoolVar(&l.effective, "print-effective", false, "check-config: print every key, secrets masked, and where it was given")
	flags.BoolVar(&l.asJSON, "json", false, "check-config, doctor, version: print JSON")
	showVersion := flags.Bool("version", false, "print the version and leave")
	var err error
	l.command, l.args, err = usage.Line(flags, args, commands(), "edge-agent")
	if errors.Is(err, flag.ErrHelp) || err == nil && l.command == "help" {
		fmt.Fprint(stdout, help)
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return 0
	}
	if *showVersion {
		l.command = "version"
	}
	if err == nil {
		err = l.counted()
	}
	if err != nil {
		fmt.Fprintln(stderr, "edge-agent:", err)
		return exitUsage
	}
	return -1
}

// counted is about arguments that are missing or too many.
func (l *line) counted() error {
	wanted := 0
	if l.command == "run-once" {
		wanted = 1
	}
	switch {
	case l.command == "enroll":
		return errors.New("enroll comes before all flags; " + usage.Help(enrollHelp))
	case len(l.args) > wanted:
		return usage.Unknown("argument", l.args[wanted], nil, "edge-agent help")
	case len(l.args) < wanted:
		return errors.New("run-once needs the file of a task, or - for standard input; " + usage.Help("edge-agent help"))
	}
	return nil
}

// load reads the file, the environment over it, and the flags over both. Programs
// that the agent starts do not find its secrets in their environment. It gives up when
// ctx ends.
func (l *line) load(ctx context.Context) (*app.Config, error) {
	var err error
	if l.over.Over, err = settings.Over(os.Environ(), l.sets, &app.Config{}); err != nil {
		return nil, err
	}
	for _, key := range settings.Keys(&app.Config{}) {
		if key.Secret {
			_ = os.Unsetenv(key.Env) // the name is sound
		}
	}
	return files.Await(ctx, func() (*app.Config, error) { return app.Load(l.path, l.over) })
}

// run returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) > 0 && args[0] == "enroll" {
		return enroll(ctx, args[1:], stdout, stderr)
	}
	var l line
	if code := l.read(args, stdout, stderr); code >= 0 {
		return code
	}
	code := 0
	var err error
	switch l.command {
	case "version":
		err = l.printVersion(stdout)
	case "doctor":
		return l.doctor(ctx, stdout)
	case "check-config":
		err = l.check(ctx, stdout, stderr)
	case "run-once":
		code, err = l.once(ctx, stdin, stdout, stderr)
	default:
		err = l.work(ctx, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "edge-agent:", err)
		return exitFailed
	}
	return code
}

func (l *line) work(ctx context.Context, stderr io.Writer) error {
	cfg, err := l.load(ctx)
	if err != nil {
		return err
	}
	log, err := logs.New(stderr, cfg.Log.Level, cfg.Log.Format)
	if err != nil {
		return err
	}
	unknownVariables().Warn(log)
	defer outlive(log)()
	return app.Run(ctx, cfg, app.Options{Version: version, Logger: log})
}

// outlive keeps the agent at work when the window closes that it was started in: a
// hangup is told of, and a log into which nobody reads any more ends nothing. Both are
// taken, not ignored, since a program that the agent starts would inherit that. The
// function that it returns gives both back.
func outlive(log *slog.Logger) (end func()) {
	hangups, pipes := make(chan os.Signal, 1), make(chan os.Signal, 1) // one that waits stands for all
	signal.Notify(hangups, syscall.SIGHUP)
	signal.Notify(pipes, syscall.SIGPIPE)
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case <-hangups:
				log.Info("a hangup changes nothing: the agent reads its configuration at the start only, and works until SIGTERM or Ctrl-C")
			case <-ended:
				return
			}
		}
	}()
	return func() {
		signal.Stop(hangups)
		signal.Stop(pipes)
		close(ended)
	}
}
