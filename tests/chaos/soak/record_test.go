package main

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"muster/tests/chaos/checker"
)

// TestASoakThatWasIsKnownByItsFolder: wherever that is by now.
func TestASoakThatWasIsKnownByItsFolder(t *testing.T) {
	t.Parallel()
	was, is := filepath.Join(t.TempDir(), "was"), filepath.Join(t.TempDir(), "is")
	if err := os.Mkdir(was, 0o700); err != nil {
		t.Fatal(err)
	}
	s := &soak{opts: options{duration: leastDuration, seed: 7, terminals: 20, agents: 2}, dir: was, begin: time.Now().Round(0), findings: []string{"one"}}
	s.plan = newPlan(s.opts.duration, s.opts.agents, s.opts.seed)
	first := epoch{Folder: s.path("epochs", "0"), Audit: &checker.Audit{Exit: 1, Output: []byte("said")}, Backup: s.path("backups", "muster-0.db"),
		BackAt: 1, BackUs: 2, FromUs: 3, FromMs: 4, ToUs: 5, ToMs: 6, TakenMs: 7}
	s.epochs = []epoch{first, {Folder: s.path("epochs", "1"), TakenMs: 8}}
	if err := s.record(true); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(was, is); err != nil {
		t.Fatal(err)
	}
	again, err := recorded(is)
	if err != nil {
		t.Fatal(err)
	}
	first.Folder, first.Backup = filepath.Join(is, "epochs", "0"), filepath.Join(is, "backups", "muster-0.db")
	want := []epoch{first, {Folder: filepath.Join(is, "epochs", "1"), TakenMs: 8}}
	if !reflect.DeepEqual(again.epochs, want) || !reflect.DeepEqual(again.plan, s.plan) || !reflect.DeepEqual(again.findings, s.findings) {
		t.Errorf("%+v %+v %q", again.epochs, again.plan, again.findings)
	}
	if got := again.ledger.of(1); got != filepath.Join(is, "history", "epoch-1") {
		t.Error(got)
	}
	if _, err := recorded(was); err == nil {
		t.Error("a folder that is not there was known")
	}
}
