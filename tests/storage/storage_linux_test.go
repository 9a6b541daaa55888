// Package storage_test runs headquarters as a process on a disk that fills up,
// and backs it up and restores it from outside.
package storage_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/tests/disk"
	"muster/tests/programs"
)

// bin is where the programs are.
var bin string

func TestMain(m *testing.M) {
	programs.SideBySide(4)
	os.Exit(programs.BuildAndRun(m, func(folder string) { bin = folder }))
}

// headquarters is one with stores that nobody answers for, and its data folder
// on a disk of its own.
type headquarters struct {
	t      *testing.T
	dir    string
	data   string
	addr   string
	config string
	hq     *programs.Process
}

func newHeadquarters(t *testing.T, stores, megabytes int) *headquarters {
	t.Helper()
	s := &headquarters{t: t, dir: t.TempDir(), addr: programs.FreeAddr(t)}
	s.data = filepath.Join(s.dir, "data")
	disk.Small(t, s.data, megabytes)
	register := "store_id,name,time_zone,labels\n"
	for i := range stores {
		register += fmt.Sprintf("S%05d,Store,UTC,\n", i)
	}
	s.write("stores.csv", register)
	s.write("jobs/probe.yaml", "name: probe\nversion: 1\ntitle: Probe\ntitle_zh: 探测\ninput_schema: in.json\noutput_schema: in.json\n"+
		"policy: {attempts: 2, run_timeout: 30s, lease: 10s, barrier: 10m, makeup: 1h, retry_first: 100ms, retry_max: 1s}\n")
	s.write("jobs/in.json", `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`)
	s.config = s.write("dispatcher.yaml", fmt.Sprintf("data_folder: data\nreports_folder: reports\nstores_file: stores.csv\njobs_folder: jobs\n"+
		"broker: {listeners: {tcp: {address: %q}}}\nlog: {level: warn}\n", s.addr))
	return s
}

func (s *headquarters) write(name, text string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return path
}

func (s *headquarters) serve() {
	s.t.Helper()
	s.hq = programs.Launch(s.t, filepath.Join(bin, "dispatcher"), "serve", "--config", s.config)
	programs.Seldom(s.t, "headquarters", func() bool {
		_, code := dispatcher(s.t, "jobs", "--broker", "mqtt://"+s.addr, "--user", "ops", "--timeout", "2s")
		return code == 0
	})
}

// dispatcher runs one command to its end.
func dispatcher(t *testing.T, args ...string) (said string, code int) {
	t.Helper()
	return programs.Run(t, filepath.Join(bin, "dispatcher"), args...)
}

// order orders a run over all stores, and returns its id, "" when it was refused.
func (s *headquarters) order() (runID, said string) {
	s.t.Helper()
	said, code := dispatcher(s.t, "run", "probe", "--stores", "all", "--json", "--broker", "mqtt://"+s.addr, "--user", "ops", "--timeout", "10s")
	if code != 0 {
		return "", said
	}
	var reply struct{ RunID string }
	line, _, _ := strings.Cut(said, "\n")
	if err := json.Unmarshal([]byte(line), &reply); err != nil || reply.RunID == "" {
		s.t.Fatalf("%q, %v", said, err)
	}
	return reply.RunID, said
}

// ordered is order of a run that has to be accepted.
func (s *headquarters) ordered() (runID string) {
	s.t.Helper()
	runID, said := s.order()
	if runID == "" {
		s.t.Fatal(said)
	}
	return runID
}

// known asks whether headquarters has the run.
func (s *headquarters) known(runID string) bool {
	s.t.Helper()
	_, code := dispatcher(s.t, "status", runID, "--broker", "mqtt://"+s.addr, "--user", "ops")
	return code == 0
}

func TestHeadquartersOnAFullDiskRefusesOrdersAndGoesOnWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	s := newHeadquarters(t, 3000, 64)
	s.serve()
	var accepted []string
	first := s.ordered()
	accepted = append(accepted, first)
	disk.Fill(t, s.data)
	refusal := ""
	for range 40 {
		runID, said := s.order()
		if runID == "" {
			refusal = said
			break
		}
		accepted = append(accepted, runID)
	}
	if refusal == "" {
		t.Fatal("nothing was ever refused")
	}
	t.Logf("%d runs of 3,000 tasks were accepted on the full disk, then: %s", len(accepted)-1, refusal)
	if !s.known(first) {
		t.Error("headquarters does not answer on a full disk")
	}
	disk.Free(t, s.data)
	programs.Seldom(t, "an accepted order", func() bool {
		runID, _ := s.order()
		if runID != "" {
			accepted = append(accepted, runID)
		}
		return runID != ""
	})
	s.hq.Kill()
	s.serve()
	for _, runID := range accepted {
		if !s.known(runID) {
			t.Errorf("run %s was accepted and is lost", runID)
		}
	}
}

func TestKilledHeadquartersStartsOnAFullDisk(t *testing.T) {
	t.Parallel()
	s := newHeadquarters(t, 100, 64)
	s.serve()
	runID := s.ordered()
	s.hq.Kill()
	disk.Fill(t, s.data)
	s.serve()
	if !s.known(runID) {
		t.Errorf("run %s was accepted and is lost", runID)
	}
}

func TestRestoreOfWhatWasBackedUpWhileHeadquartersRan(t *testing.T) {
	t.Parallel()
	s := newHeadquarters(t, 100, 64)
	s.serve()
	before := s.ordered()
	file := filepath.Join(s.dir, "backup.db")
	if said, code := dispatcher(t, "backup", file, "--data", s.data); code != 0 {
		t.Fatal(said)
	}
	after := s.ordered()
	if said, code := dispatcher(t, "restore", file, "--data", s.data); code == 0 || !strings.Contains(said, "stop the dispatcher first") {
		t.Errorf("restored under a running dispatcher: %q", said)
	}
	s.hq.Kill()
	if said, code := dispatcher(t, "restore", file, "--data", s.data); code != 0 {
		t.Fatal(said)
	}
	s.serve()
	if !s.known(before) || s.known(after) {
		t.Errorf("before: %t, after: %t", s.known(before), s.known(after))
	}
}
