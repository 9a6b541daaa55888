package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"muster/edge-agent/app"
	"muster/internal/doctor"
	"muster/internal/files"
	"muster/internal/logs"
	"muster/internal/protocol"
	"muster/internal/settings"
)

func (l *line) printVersion(stdout io.Writer) error {
	about := settings.Build(version)
	if l.asJSON {
		return writeJSON(stdout, about)
	}
	_, err := fmt.Fprintln(stdout, "edge-agent", about)
	return err
}

// sound is a configuration without a fault, as check-config prints it as JSON.
type sound struct {
	OK        bool                 `json:"ok"` // true; else it is settings.Unsound
	Store     string               `json:"store"`
	Terminal  string               `json:"terminal"`
	Unknown   []string             `json:"unknownVariables"` // of the environment
	Effective []settings.Effective `json:"effective"`
}

func (l *line) check(ctx context.Context, stdout, stderr io.Writer) error {
	said := stdout
	if l.asJSON || l.effective {
		said = io.Discard
	}
	found, err := l.look(ctx, said)
	if err != nil {
		if l.asJSON {
			_ = writeJSON(stdout, settings.Unsound{Fault: err.Error()}) // the error is told besides
		}
		return err
	}
	switch {
	case l.asJSON:
		return writeJSON(stdout, found)
	case l.effective:
		err = settings.WriteEffective(stdout, found.Effective)
	}
	for _, stray := range unknownVariables() {
		fmt.Fprintf(stderr, "warning: %v\n", stray)
	}
	return err
}

// look reads what run reads, and tells said about it.
func (l *line) look(ctx context.Context, said io.Writer) (found sound, err error) {
	cfg, err := l.load(ctx)
	if err != nil {
		return found, err
	}
	if _, err := files.Await(ctx, func() (struct{}, error) { return struct{}{}, app.Check(cfg, said) }); err != nil {
		return found, err
	}
	found = sound{OK: true, Store: cfg.Store, Terminal: cfg.Terminal, Unknown: unknownVariables().Names()}
	found.Effective, err = cfg.Effective()
	return found, err
}

// unknownVariables are those that mean nothing to this program.
func unknownVariables() settings.Strays { return settings.UnknownEnv(os.Environ(), &app.Config{}) }

// doctor returns the exit code.
func (l *line) doctor(ctx context.Context, stdout io.Writer) int {
	cfg, err := l.load(ctx)
	findings := doctor.Run(ctx, app.Checks(cfg, l.path, err, unknownVariables()))
	if l.asJSON {
		err = writeJSON(stdout, findings)
	} else {
		err = findings.Write(stdout)
	}
	if err != nil || !findings.OK {
		return exitFailed
	}
	return 0
}

// unsent is a result without what a message has when it is sent.
type unsent struct {
	protocol.Result
	ID  string `json:"id,omitempty"`
	At  string `json:"at,omitempty"`
	Seq string `json:"seq,omitempty"`
}

// once executes the task of a file and prints its result.
func (l *line) once(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) (code int, err error) {
	cfg, err := l.load(ctx)
	if err != nil {
		return 0, err
	}
	log, err := logs.New(stderr, cfg.Log.Level, cfg.Log.Format)
	if err != nil {
		return 0, err
	}
	unknownVariables().Warn(log)
	task, err := files.Await(ctx, func() ([]byte, error) { return readTask(stdin, l.args[0]) })
	if err != nil {
		return 0, err
	}
	ended, err := app.RunOnce(ctx, cfg, task, log)
	if err != nil {
		return 0, err
	}
	if err := writeJSON(stdout, unsent{Result: ended.Result}); err != nil {
		return 0, err
	}
	switch {
	case ended.Outcome == protocol.AnswerSucceeded:
		return 0, nil
	case ended.Outcome == protocol.AnswerCancelled:
		return exitInterrupted, nil
	case ended.TimeLimit:
		return exitTimeLimit, nil
	}
	return exitExecution, nil
}

func readTask(stdin io.Reader, name string) ([]byte, error) {
	from := stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("cannot read the task: %w", files.Mended(err))
		}
		defer file.Close()
		from = file
	}
	task, err := io.ReadAll(io.LimitReader(from, protocol.MaxPayloadBytes+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read the task: %w", err)
	}
	return task, nil
}

func writeJSON(w io.Writer, value any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(value)
}
