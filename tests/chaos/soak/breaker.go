package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"muster/tests/chaos/checker"
)

// epoch is the time between two restores: what is kept as its evidence, and what
// the next one began from.
// Moments are epoch milliseconds (At, Ms) and monotonic microseconds (Us).
type epoch struct {
	Folder         string         `json:"folder"` // epochs/N: muster.db, reports
	Audit          *checker.Audit `json:"audit"`  // nil: not asked
	Backup         string         `json:"backup"` // file; "": it ended without a restore
	BackAt, BackUs int64          // when the backup began
	FromUs, FromMs int64          // when the epoch began
	ToUs, ToMs     int64          // when headquarters was dead; 0: to the end of the soak
	TakenMs        int64          // when the database was
}

// attack does the deeds of the plan, one after the other.
func (s *soak) attack(ctx context.Context) error {
	for _, d := range s.plan.deeds {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(s.begin.Add(d.at))):
		}
		if err := s.do(ctx, d); err != nil {
			return fmt.Errorf("%s, at %v: %w", d.what, d.at, err)
		}
	}
	return nil
}

func (s *soak) do(ctx context.Context, d deed) error {
	var err error
	switch d.what {
	case killHeadquarters:
		if s.waits {
			return nil
		}
		if err = s.gone(); err == nil {
			s.wait(ctx, time.Now().Add(time.Duration(d.n)*time.Millisecond)) // it is missed for a while
			err = s.back()
		}
	case killAgent:
		a := s.agents[d.n]
		_, err = s.eye.fault("terminal killed", true)
		a.pid.set(0)
		a.running.kill()
		err = errors.Join(err, a.start())
		_, over := s.eye.fault("terminal killed", false)
		err = errors.Join(err, over)
	case storm:
		_, err = s.eye.fault("storm", true)
		s.crowd.cut()
		_, over := s.eye.fault("storm", false)
		err = errors.Join(err, over)
	case fillDisk, emptyDisk:
		if !s.mounted {
			return nil
		}
		err = s.disk(d.what == fillDisk)
	case jumpClock, jumpBack:
		if !s.clocked {
			return nil
		}
		set := false
		if set, err = s.setWall(ctx, d.by, d.what == jumpClock); !set {
			return err
		}
	case backUp:
		err = s.backUp(ctx)
	case restoreBackup:
		err = s.restore(ctx)
	}
	if err == nil {
		s.tally.count(d.what)
		s.say("%s", describe(d))
	}
	return err
}

func describe(d deed) string {
	if d.what == killAgent {
		return fmt.Sprintf("%s: R%03d", d.what, d.n)
	}
	if d.what == jumpClock {
		return fmt.Sprintf("%s by %v", d.what, d.by)
	}
	return string(d.what)
}

// disk fills the data folder's disk to the last byte, or makes room again.
func (s *soak) disk(full bool) error {
	filler := s.path("data", "filler")
	if !full {
		if err := os.Remove(filler); err != nil {
			return err
		}
		s.full.Store(false)
		_, err := s.eye.fault("dispatcher disk full", false)
		if err == nil && s.waits {
			err = s.back()
		}
		return err
	}
	s.full.Store(true)
	if _, err := s.eye.fault("dispatcher disk full", true); err != nil {
		return err
	}
	file, err := os.Create(filler)
	if err != nil {
		return err
	}
	defer file.Close()
	at := int64(0)
	for block := int64(256 << 20); block >= 4096; { // down to a page
		switch err := syscall.Fallocate(int(file.Fd()), 0, at, block); {
		case err == nil:
			at += block
		case errors.Is(err, syscall.ENOSPC):
			block /= 2
		case !errors.Is(err, syscall.EINTR):
			return err
		}
	}
	return nil
}

// backUp makes a backup of the database, and then of the reports, as the
// operator's guide says.
func (s *soak) backUp(ctx context.Context) error {
	n := len(s.epochs)
	e := s.current()
	e.Backup = s.path("backups", fmt.Sprintf("muster-%d.db", n))
	line, err := s.eye.fault("terminal backup", true)
	if err != nil {
		return err
	}
	e.BackAt, e.BackUs = line.AtMs, line.MonoUs
	if _, _, err := run(ctx, s.bin("dispatcher"), "backup", e.Backup, "--data", s.path("data")); err != nil {
		return err
	}
	copied := s.path("backups", fmt.Sprintf("reports-%d", n))
	if _, _, err := run(ctx, "cp", "-al", s.path("reports"), copied); err != nil { // published files never change: links will do
		return err
	}
	for _, step := range [][]string{{"rm", "-rf", filepath.Join(copied, "audit")}, {"cp", "-a", s.path("reports", "audit"), copied}} {
		if _, _, err := run(ctx, step...); err != nil {
			return err
		}
	}
	_, err = s.eye.fault("terminal backup", false)
	return errors.Join(err, s.forget(ctx, e.Backup, copied))
}

// restore kills headquarters, keeps what it left as the epoch's evidence, and
// begins the next epoch from the backup.
func (s *soak) restore(ctx context.Context) error {
	if err := s.gone(); err != nil {
		return err
	}
	e := s.current()
	if err := s.keep(ctx, e); err != nil {
		return err
	}
	said, _, err := run(ctx, s.bin("dispatcher"), "restore", e.Backup, "--data", s.path("data"), "--json")
	if err != nil {
		return err
	}
	var done struct{ Kept string }
	if err := json.Unmarshal(said, &done); err != nil {
		return fmt.Errorf("the restore said %q: %w", said, err)
	}
	for _, suffix := range []string{"", "-wal"} {
		if err := move(done.Kept+suffix, filepath.Join(e.Folder, "muster.db"+suffix)); err != nil {
			return err
		}
	}
	if _, _, err := run(ctx, "sh", "-c", `rm -f "$0"*`, done.Kept); err != nil {
		return err
	}
	if err := os.Rename(s.path("backups", fmt.Sprintf("reports-%d", len(s.epochs))), s.path("reports")); err != nil {
		return err
	}
	if err := s.turn(); err != nil {
		return err
	}
	return s.back()
}

// keep puts the reports and the word about the audit aside, while headquarters
// is dead. The database follows when it is replaced, or at the end.
func (s *soak) keep(ctx context.Context, e *epoch) error {
	s.look(true)
	e.TakenMs = time.Now().UnixMilli()
	e.Folder = s.path("epochs", fmt.Sprint(len(s.epochs)))
	if err := os.MkdirAll(e.Folder, 0o700); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, s.bin("dispatcher"), "audit", "verify", "--json", "--data", s.path("data"), "--reports", s.path("reports"))
	out, err := cmd.Output()
	if cmd.ProcessState == nil {
		return err
	}
	e.Audit = &checker.Audit{Exit: cmd.ProcessState.ExitCode(), Output: out}
	s.looks.mu.Lock()
	defer s.looks.mu.Unlock()
	s.looks.seen = nil
	return os.Rename(s.path("reports"), filepath.Join(e.Folder, "reports"))
}

// turn ends the epoch and begins the next one, with a headquarters that is away.
func (s *soak) turn() error {
	if err := s.ledger.turn(); err != nil {
		return err
	}
	line, err := s.eye.fault("dispatcher", true)
	if err != nil {
		return err
	}
	e := s.current()
	e.ToUs, e.ToMs = line.MonoUs, line.AtMs
	s.mu.Lock()
	s.epochs = append(s.epochs, *e)
	s.now = &epoch{FromUs: line.MonoUs, FromMs: line.AtMs}
	s.mu.Unlock()
	return s.record(false)
}

// move moves a file to another file system, and is content when there is none.
func move(from, to string) error {
	if _, err := os.Lstat(from); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	_, _, err := run(context.Background(), "mv", from, to)
	return err
}

// current is the epoch that goes on.
func (s *soak) current() *epoch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		s.now = &epoch{}
	}
	return s.now
}

// epoch is the number of the epoch that goes on, and changes while nobody can be
// asked.
func (s *soak) epoch() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.epochs)
}
