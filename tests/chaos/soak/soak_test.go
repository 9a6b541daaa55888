package main

import (
	"errors"
	"os"
	"testing"
	"time"

	"muster/tests/programs"
)

// bin is the folder of the programs, which only the whole amount needs.
var bin string

func TestMain(m *testing.M) {
	if !programs.Full() {
		os.Exit(m.Run())
	}
	os.Exit(programs.BuildAndRun(m, func(folder string) { bin = folder }))
}

// TestASmallSoakFindsNothing: each fault once, over a few terminals; and nothing when
// what it kept is judged again.
func TestASmallSoakFindsNothing(t *testing.T) {
	t.Parallel()
	if !programs.Full() {
		t.Skip("it takes two minutes: MUSTER_CHAOS=full")
	}
	folder := t.TempDir() + "/soak"
	err := attackAndJudge(t.Context(), options{duration: leastDuration, seed: 7, bin: bin, folder: folder, terminals: 200, agents: 5, keep: true})
	if err := errors.Join(err, judgeAgain(t.Context(), folder)); err != nil {
		t.Error(err)
	}
}

// TestASoakIsNotTooShort: one of each fault needs its time.
func TestASoakIsNotTooShort(t *testing.T) {
	t.Parallel()
	if err := attackAndJudge(t.Context(), options{duration: leastDuration - time.Second, terminals: 1, agents: 1}); err == nil {
		t.Error("it went on")
	}
}
