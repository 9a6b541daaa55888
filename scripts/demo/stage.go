package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"muster/internal/protocol"
	"muster/internal/task"
)

const (
	// technician is who asks for the run.
	technician = "alice"
	// barrier is long enough for every store that answers, retries included,
	// and short enough to be watched.
	barrier = 25 * time.Second
)

// stage is one run of the demo.
type stage struct {
	out     io.Writer
	work    string // the demo's folder
	began   time.Time
	shops   []shop
	known   map[string]facts
	family  family
	address string // of the broker
	last    string // the last line of progress
	happens chan news
	looked  []string // what was checked besides the tables
}

func (s *stage) path(parts ...string) string {
	return filepath.Join(append([]string{s.work}, parts...)...)
}

// short is a path as seen from the checkout.
func (s *stage) short(path string) string {
	if relative, err := filepath.Rel(filepath.Dir(s.work), path); err == nil {
		return relative
	}
	return path
}

func (s *stage) say(format string, args ...any) {
	_, _ = fmt.Fprintf(s.out, "\n"+format+"\n", args...)
}

func (s *stage) note(format string, args ...any) {
	_, _ = fmt.Fprintf(s.out, "  "+format+"\n", args...)
}

// program is one of the built programs.
func program(name string) (string, error) {
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	path, err := filepath.Abs(filepath.Join("bin", name))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("cannot find %s: run `make build` first: %w", path, err)
	}
	return path, nil
}

// play is the demo from its first line to its last. What it returns beside an
// error is what it found wrong.
func (s *stage) play(ctx context.Context) (findings, error) {
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	w, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.close() }() // the demo is over
	runID, err := s.order(ctx, w)
	if err != nil {
		return nil, err
	}
	go func() {
		text, err := s.crash(ctx)
		s.happens <- news{text, err}
	}()
	first, found, err := s.revision(ctx, w, runID, 1, barrier+10*time.Second)
	if err != nil {
		return found, err
	}
	frozen, more := snapshot(s.path("reports"), first)
	found = append(found, more...)
	s.say("%s was off all the while. It is switched on now; its answer makes revision 2.", s.only(latecomer).name)
	if err := s.startAgent(ctx, s.only(latecomer)); err != nil {
		return found, err
	}
	_, more, err = s.revision(ctx, w, runID, 2, 30*time.Second)
	found = append(found, more...)
	if err != nil {
		return found, err
	}
	again, more := snapshot(s.path("reports"), first)
	found = append(found, more...)
	for name, sum := range frozen {
		if again[name] != sum {
			found.add("%s of revision 1 has changed", name)
		}
	}
	return append(found, s.finish()...), nil
}

// prepare makes a fresh folder with twelve shops in it.
func (s *stage) prepare(ctx context.Context) error {
	if err := os.RemoveAll(s.work); err != nil {
		return fmt.Errorf("cannot clear the last demo: %w", err)
	}
	for _, folder := range []string{"logs", "config"} {
		if err := os.MkdirAll(s.path(folder), 0o755); err != nil {
			return fmt.Errorf("cannot make the work folder: %w", err)
		}
	}
	s.family.logs = s.path("logs")
	s.say("Twelve stores with yesterday's logs, configuration and secrets:")
	rows := [][]string{{"store", "name", "zone", "logs in", "lines", "what it does"}}
	for _, one := range s.shops {
		known, err := one.furnish(s.path("stores", one.id, "pos"), s.began)
		if err != nil {
			return err
		}
		s.known[one.id] = known
		rows = append(rows, []string{one.id, one.name, one.zone, one.encoding, fmt.Sprint(known.lines), one.part.describe()})
	}
	printTable(s.out, rows)
	address, err := freeAddress(ctx)
	s.address = address
	return errors.Join(err, s.writeConfiguration())
}

// open starts headquarters and every store that is switched on.
func (s *stage) open(ctx context.Context) (*watcher, error) {
	dispatcher, err := program("dispatcher")
	if err != nil {
		return nil, err
	}
	headquarters, err := s.family.start(ctx, "dispatcher", dispatcher, "serve", "-c", s.path("config", "dispatcher.yaml"))
	if err != nil {
		return nil, err
	}
	if err := ready(ctx, s.address, headquarters, 15*time.Second); err != nil {
		return nil, err
	}
	s.say("Headquarters listens at %s.", s.address)
	for _, one := range s.shops {
		if one.part == latecomer || one.part == absent {
			continue
		}
		if err := s.startAgent(ctx, one); err != nil {
			return nil, err
		}
	}
	s.note("%d edge agents started; %d stores are off", len(s.shops)-count(s.shops, latecomer, absent), count(s.shops, latecomer, absent))
	return watch(ctx, s.address, technician)
}

func (s *stage) only(p part) shop {
	for _, one := range s.shops {
		if one.part == p {
			return one
		}
	}
	return shop{}
}

// order asks for the run the way a technician would.
func (s *stage) order(ctx context.Context, w *watcher) (string, error) {
	payload := fmt.Sprintf(`{"requestId":"demo","job":"collect_log","stores":"all","input":{"date":"yesterday"},"reason":"make demo","barrierSeconds":%d}`,
		int(barrier.Seconds()))
	host, port, _ := strings.Cut(s.address, ":")
	topic := w.topics.Request(technician, protocol.VerbRun)
	name, args := "mosquitto_pub", []string{"-h", host, "-p", port, "-V", "5", "-u", technician, "-q", "1", "-t", topic, "-m", payload}
	if _, err := exec.LookPath(name); err != nil {
		dispatcher, err := program("dispatcher")
		if err != nil {
			return "", err
		}
		name, args = dispatcher, s.commandLine()
	}
	s.say("The order:")
	s.note("%s", quoted(append([]string{filepath.Base(name)}, args...)))
	command := exec.CommandContext(ctx, name, args...)
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot give the order: %w: %s", err, output)
	}
	return s.accepted(ctx, w, name == "mosquitto_pub")
}

// accepted learns the run from the reply, or from the first state of a run when
// the command line asked.
func (s *stage) accepted(ctx context.Context, w *watcher, replies bool) (string, error) {
	if !replies {
		select {
		case state := <-w.states:
			return state.RunID, nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	reply, err := w.reply(ctx, 10*time.Second)
	if err != nil {
		return "", err
	}
	if !reply.OK {
		return "", fmt.Errorf("headquarters refuses the order: %s: %s (%s)", reply.Code, reply.Message, reply.Hint)
	}
	s.note("accepted: run %s, %d stores, report at %s", reply.RunID, reply.Stores, reply.BarrierAt.Local().Format(time.TimeOnly))
	return reply.RunID, nil
}

// quoted writes a command line as one would type it.
func quoted(args []string) string {
	out := make([]string, len(args))
	for i, arg := range args {
		out[i] = arg
		if strings.ContainsAny(arg, " \"{}") {
			out[i] = "'" + arg + "'"
		}
	}
	return strings.Join(out, " ")
}

// timed prints a line with the seconds that have passed.
func (s *stage) timed(text string) { s.note("%5.1f s  %s", time.Since(s.began).Seconds(), text) }

// progress prints a state when it says something new.
func (s *stage) progress(state protocol.RunStateReport) {
	text := fmt.Sprintf("online %2d | waiting %2d | running %2d | succeeded %2d | failed %d | pending %2d",
		state.Online, state.Waiting, state.Tasks[task.Running], state.Tasks[task.Succeeded], state.Tasks[task.Failed], state.Tasks[task.Pending])
	if text != s.last {
		s.timed(text)
		s.last = text
	}
}

// revision waits for a revision, prints it and checks it.
func (s *stage) revision(ctx context.Context, w *watcher, runID string, revision int, within time.Duration) (protocol.Summary, findings, error) {
	summary, err := w.summary(ctx, runID, revision, within, s.progress, s.happens, s.timed)
	if err != nil {
		return summary, nil, err
	}
	report, path, err := readReport(s.path("reports"), summary)
	if err != nil {
		return summary, nil, err
	}
	s.say("Roll-call, revision %d (%s):", report.Revision, report.RevisionWhy)
	printRollCall(s.out, report)
	s.note("%s", s.short(path))
	found := checkReport(report, s.shops, s.known)
	return summary, append(found, checkFiles(s.path("reports"), summary)...), nil
}
