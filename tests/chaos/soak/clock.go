package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"muster/internal/protocol"
	"muster/tests/chaos/clocked"
	"muster/tests/chaos/history"
)

// clock builds a headquarters whose wall can be set. Without a compiler its
// clock never jumps.
func (s *soak) clock(ctx context.Context) error {
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", s.path("headquarters"), "muster/tests/chaos/clocked/headquarters")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		s.say("no headquarters with a clock to set can be built, so its clock never jumps: %v: %s", err, out)
		return ctx.Err()
	}
	s.clocked = true
	return clocked.Set(s.path("offset"), 0)
}

func (s *soak) clockedCommand() []string {
	return []string{s.path("headquarters"), "-config", s.path("dispatcher.yaml"), "-offset-file", s.path("offset")}
}

// hangOn orders a run that stays open for longer than the wall is set: while one
// is before its barrier, headquarters' time must not step with the wall. It
// reports whether there is one.
func (s *soak) hangOn(ctx context.Context) bool {
	if s.keeper == nil {
		s.keeper = s.newPerson("keeper", 9)
	}
	s.keeper.next++
	reply, outcome := s.keeper.try(ctx, protocol.VerbRun, fmt.Sprintf(`{"requestId":"hang-%d","job":"probe","stores":[%q],"barrierSeconds":%d}`,
		s.keeper.next, closedStore, int(hangs.Seconds())))
	return outcome == history.OutcomeOK && reply.OK
}

// hangs is longer than the wall is ever set.
const hangs = 40 * time.Second

// setWall sets the wall that headquarters sees, or puts it right again. What hangs
// on the time must not notice. Where nothing does, because headquarters has other
// troubles, the wall is not set.
func (s *soak) setWall(ctx context.Context, by time.Duration, on bool) (set bool, err error) {
	if on && !s.hangOn(ctx) {
		s.say("headquarters does not answer, so its clock does not jump this time")
		return false, nil
	}
	if !on {
		by = 0
	}
	if _, err := s.eye.fault("clock set", on); err != nil {
		return false, err
	}
	return true, clocked.Set(s.path("offset"), by)
}
