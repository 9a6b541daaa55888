// Package site is a real headquarters with real agents whose participants write
// histories: built programs, each agent behind its tap, executors that mark
// what they execute, and the judge over all of it.
//
// It makes no fault by itself. Tests and the soak start, kill and cut what it
// hands out.
package site

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
	"muster/tests/chaos/tap"
	"muster/tests/programs"
)

// The participants that most tests need beside the agents.
var (
	Wang  = history.Participant{Who: "wang", Role: history.RoleClient}
	Watch = history.Participant{Who: "watch", Role: history.RoleCollector}
)

// Job is the name of the registered job, which every agent executes.
const Job = "probe"

// AwaitGate is Work that waits until the store's gate is opened. When its agent was
// killed it ends with the site's folder.
const AwaitGate = `while [ -e "$0" ] && [ ! -e "$GATE" ]; do sleep 0.05; done`

// defaultPolicy is the job's where Config says none.
const defaultPolicy = "attempts: 2, run_timeout: 30s, lease: 10s, barrier: 30s, makeup: 1h, retry_first: 100ms, retry_max: 1s"

// Config says how the site differs from the defaults.
type Config struct {
	// Limits is what the checker holds the site to. MaxRunning (3),
	// GrantsPerSecond (5) and GrantBurst (2) are configured at headquarters
	// too; Settle and Retained are 5 s, Reoffer 10 s and Barrier 3 s unless said: the
	// machine runs other attacks beside, and the promised second is held by clocked
	// and sim.
	Limits checker.Limits
	// Claims are parts of the rules that Judge must have something for, beside those
	// that it always must, as checker.Weights name them.
	Claims []string
	// Policy is the job's, as members of a YAML mapping.
	Policy string
	// Headquarters and Agent are YAML lines for the end of the configurations.
	Headquarters, Agent string
	// Work is shell that an execution runs between its marker and its answer;
	// STORE and GATE are set. It may answer by itself and exit.
	Work string
	// Front puts something between an agent and its tap, Behind between the
	// tap and the broker: it is given where to go and returns where to connect.
	Front, Behind func(store, addr string) string
}

// Site is one headquarters with its stores below Dir. Its methods fail the test
// themselves. Agent, Serve and Writer are not for concurrent use.
type Site struct {
	Dir    string
	Addr   string // of headquarters' broker
	HQ     *programs.Process
	Config Config

	t      testing.TB
	bin    string
	relays map[string]*tap.Tap
	agents map[string]string // store: where its agent connects

	mu    sync.Mutex
	names map[*history.Writer]string
}

// New writes the configuration of a site; bin is the folder of the programs.
func New(t testing.TB, bin string, cfg Config, stores ...string) *Site {
	t.Helper()
	l := &cfg.Limits
	l.MaxRunning, l.GrantsPerSecond, l.GrantBurst = cmp.Or(l.MaxRunning, 3), cmp.Or(l.GrantsPerSecond, 5), cmp.Or(l.GrantBurst, 2)
	l.Settle, l.Reoffer = cmp.Or(l.Settle, 5*time.Second), cmp.Or(l.Reoffer, 10*time.Second)
	l.Retained, l.Barrier = cmp.Or(l.Retained, 5*time.Second), cmp.Or(l.Barrier, 3*time.Second)
	s := &Site{Dir: t.TempDir(), Addr: programs.FreeAddr(t), Config: cfg, t: t, bin: bin,
		relays: map[string]*tap.Tap{}, agents: map[string]string{}, names: map[*history.Writer]string{}}
	register := "store_id,name,time_zone,labels\n"
	for _, id := range stores {
		register += id + ",门店 " + id + ",Asia/Shanghai,region=east\n"
	}
	s.Write("stores.csv", register)
	s.Write("jobs/probe.yaml", fmt.Sprintf(`name: probe
version: 1
title: Probe
title_zh: 探测
input_schema: probe_input.json
output_schema: probe_output.json
policy: {%s}
columns:
  - {name: marker, pointer: /marker, title: Marker, title_zh: 标记, type: text, aggregate: [distinct, top]}
`, cmp.Or(cfg.Policy, defaultPolicy)))
	s.Write("jobs/probe_input.json", `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`)
	s.Write("jobs/probe_output.json", `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","required":["marker"]}`)
	s.Write("dispatcher.yaml", fmt.Sprintf(`data_folder: data
reports_folder: reports
stores_file: stores.csv
jobs_folder: jobs
broker:
  listeners: {tcp: {address: %q}}
admission: {max_running: %d, grants_per_second: %g, grant_burst: %d}
%s`, s.Addr, l.MaxRunning, l.GrantsPerSecond, l.GrantBurst, cfg.Headquarters))
	s.Write("history/.keep", "")
	return s
}

// Write makes a file below the site's folder and returns its path.
func (s *Site) Write(name, text string) string {
	s.t.Helper()
	path := s.path(filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

func (s *Site) path(parts ...string) string {
	return filepath.Join(append([]string{s.Dir}, parts...)...)
}

// History is the folder of the histories.
func (s *Site) History() string { return s.path("history") }

// Data is headquarters' data folder.
func (s *Site) Data() string { return s.path("data") }

// Reports is headquarters' report folder.
func (s *Site) Reports() string { return s.path("reports") }

// Kept is the work folder of a store's agent.
func (s *Site) Kept(store string) string { return s.path("agents", store, "kept") }

// Marks is the file in which a store's executions are marked.
func (s *Site) Marks(store string) string { return filepath.Join(s.History(), store+".markers") }

// Gate is the file for which AwaitGate waits; Open makes it.
func (s *Site) Gate(store string) string { return s.path(store + ".gate") }

// Open opens a store's gate.
func (s *Site) Open(store string) {
	s.t.Helper()
	s.Write(store+".gate", "")
}

// Writer begins the history of a participant; it ends with the test.
func (s *Site) Writer(who history.Participant) *history.Writer {
	s.t.Helper()
	w, err := history.Create(s.History(), who)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = w.Close() })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names[w] = who.Who
	return w
}

// Dispatcher is the command line of the program with these arguments.
func (s *Site) Dispatcher(args ...string) []string {
	return append([]string{filepath.Join(s.bin, "dispatcher")}, args...)
}

// ServeCommand is the command line of headquarters.
func (s *Site) ServeCommand() []string {
	return s.Dispatcher("serve", "--config", s.path("dispatcher.yaml"))
}

// Serve starts headquarters as HQ and waits until it is ready.
func (s *Site) Serve() *programs.Process {
	s.t.Helper()
	command := s.ServeCommand()
	s.HQ = programs.Launch(s.t, command[0], command[1:]...)
	s.HQ.AwaitOutput("headquarters is ready")
	return s.HQ
}

// Fault notes that headquarters is away, or that it is ready again.
func (s *Site) Fault(w *history.Writer, on bool) {
	s.t.Helper()
	if err := w.Fault("dispatcher", on); err != nil {
		s.t.Fatal(err)
	}
}

// Tap is the relay in front of a store's agent; nil before its first start.
func (s *Site) Tap(store string) *tap.Tap { return s.relays[store] }

// Agent starts the agent of a store behind its tap. A tap outlives its agent.
func (s *Site) Agent(store string) *programs.Process {
	s.t.Helper()
	command := s.AgentCommand(store)
	return programs.Launch(s.t, command[0], command[1:]...)
}

// AgentCommand is the command line of a store's agent. Its tap runs and its
// files are written.
func (s *Site) AgentCommand(store string) []string {
	s.t.Helper()
	if s.agents[store] == "" {
		s.agents[store] = s.connect(store)
	}
	script := s.Write(store+".sh", fmt.Sprintf(`STORE=%s GATE=%q
echo "$MUSTER_TASK_ID $MUSTER_ATTEMPT $$ $(date +%%s%%3N)" >> %q
%s
echo "{\"marker\":\"$STORE did it\"}"
`, store, s.Gate(store), s.Marks(store), s.Config.Work))
	config := s.Write("agents/"+store+"/edge-agent.yaml", fmt.Sprintf(`store: %q
terminal: pos1
time_zone: Asia/Shanghai
work_folder: kept
broker: {url: "mqtt://%s"}
executors:
  - {type: probe, version: 1, command: [sh, %q]}
%s`, store, s.agents[store], script, s.Config.Agent))
	return []string{filepath.Join(s.bin, "edge-agent"), "-config", config}
}

// connect starts the tap of a store and returns where its agent connects.
func (s *Site) connect(store string) string {
	w := s.Writer(history.Participant{Who: store + "/pos1", Role: history.RoleAgent, Store: store, Terminal: "pos1"})
	broker := s.Addr
	if s.Config.Behind != nil {
		broker = s.Config.Behind(store, broker)
	}
	relay, err := tap.Start(s.t.Context(), broker, w)
	if err != nil {
		s.t.Fatal(err)
	}
	s.relays[store] = relay
	s.t.Cleanup(func() {
		relay.Close()
		if err := relay.Failed(); err != nil {
			s.t.Error(err)
		}
	})
	if s.Config.Front != nil {
		return s.Config.Front(store, relay.Addr())
	}
	return relay.Addr()
}

// Executed waits until a store has executed n times.
func (s *Site) Executed(store string, n int) {
	s.t.Helper()
	programs.Eventually(s.t, fmt.Sprintf("execution %d of store %s", n, store), func() bool { return s.Executions(store) == n })
}

// Executions is how often a store has executed.
func (s *Site) Executions(store string) int {
	text, err := os.ReadFile(s.Marks(store))
	if err != nil {
		return 0
	}
	return strings.Count(string(text), "\n")
}
