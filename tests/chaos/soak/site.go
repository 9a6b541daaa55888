package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"muster/internal/protocol"
	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
	"muster/tests/chaos/tap"
)

// What headquarters is configured with, and the judge holds it to.
const (
	maxRunning      = 150
	grantsPerSecond = 60
	grantBurst      = 50
	diskBytes       = 1 << 30 // of the data folder, when it is a disk of its own
	startPatience   = 90 * time.Second
	// lifeMemory is how far the memory of one life of headquarters may go up, over
	// minutes in which reports on all stores are written now and then. Over all its
	// lives the least that it has is judged, and sharper.
	lifeMemory = 128 << 20
)

var watcher = history.Participant{Who: "watch", Role: history.RoleCollector}

// soak is the whole of it. What the goroutines share is safe for concurrent use;
// processes are started and ended by one goroutine alone.
type soak struct {
	opts   options
	plan   plan
	dir    string
	addr   string
	topics protocol.Topics
	ledger *ledger
	eye    scribe
	begin  time.Time

	hq      *process
	hqPID   syncInt
	full    atomic.Bool // the disk
	waits   bool        // headquarters, for room to start
	mounted bool
	clocked bool // headquarters' wall can be set
	agents  []*agent
	crowd   *crowd
	looks   looks
	keeper  *person // orders what headquarters' time hangs on
	epochs  []epoch // that are over; mu
	now     *epoch  // mu
	tally   tally

	mu       sync.Mutex
	findings []string // of the soak itself
}

// found notes what is wrong beside what the checker judges.
func (s *soak) found(text string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := fmt.Sprintf(text, args...)
	if len(s.findings) < 200 {
		s.findings = append(s.findings, one)
	}
	fmt.Fprintf(os.Stderr, "soak: %8v FOUND %s\n", time.Since(s.begin).Round(time.Second), one)
}

func (s *soak) say(text string, args ...any) {
	fmt.Fprintf(os.Stderr, "soak: %8v %s\n", time.Since(s.begin).Round(time.Second), fmt.Sprintf(text, args...))
}

func (s *soak) failed(err error) {
	if err != nil && !errors.Is(err, errOver) {
		s.found("the history has a hole: %v", err)
	}
}

func (s *soak) path(parts ...string) string {
	return filepath.Join(append([]string{s.dir}, parts...)...)
}

func (s *soak) bin(name string) string { return filepath.Join(s.opts.bin, name) }

func (s *soak) limits() checker.Limits {
	return checker.Limits{MaxRunning: maxRunning, GrantsPerSecond: grantsPerSecond, GrantBurst: grantBurst, Settle: s.plan.settle,
		Slack: 250 * time.Millisecond, Barrier: 3 * time.Second, Reoffer: 15 * time.Second, MemoryMore: lifeMemory,
		UploadsInFlight: 8, UploadBytesPerSecond: 8 << 20, UploadBurstBytes: 2 << 20} // headquarters' defaults
}

// stores are the ids of all stores: the real agents' first.
func (s *soak) stores() (all []string) {
	for i := range s.opts.agents {
		all = append(all, fmt.Sprintf("R%03d", i))
	}
	for i := range s.opts.terminals {
		all = append(all, fmt.Sprintf("S%05d", i))
	}
	return append(all, closedStore)
}

// closedStore has no terminal: it is missing in every report, and a run for it
// stays open until its barrier.
const closedStore = "Z999"

// setUp makes folders, configuration and the small disk.
func (s *soak) setUp(ctx context.Context) error {
	address, err := freeAddr(ctx)
	if err != nil {
		return err
	}
	s.addr = address
	for _, folder := range []string{"data", "reports", "history/agents", "epochs", "backups", "logs", "jobs"} {
		if err := os.MkdirAll(s.path(filepath.FromSlash(folder)), 0o700); err != nil {
			return err
		}
	}
	if err := syscall.Mount("none", s.path("data"), "tmpfs", 0, fmt.Sprintf("mode=700,size=%d", diskBytes)); err != nil {
		s.say("no small disk can be mounted here, so the disk is never full: %v", err)
	} else {
		s.mounted = true
	}
	register := "store_id,name,time_zone,labels\n"
	for i, id := range s.stores() {
		register += fmt.Sprintf("%s,门店 %s,Asia/Shanghai,region=r%d\n", id, id, i%10)
	}
	for name, text := range map[string]string{
		"stores.csv": register,
		"jobs/probe.yaml": fmt.Sprintf(`name: probe
version: 1
title: Probe
title_zh: 探测
input_schema: probe_input.json
output_schema: probe_output.json
policy: {attempts: 2, run_timeout: 30s, lease: 10s, barrier: %ds, makeup: %ds, retry_first: 500ms, retry_max: 5s}
columns:
  - {name: marker, pointer: /marker, title: Marker, title_zh: 标记, type: text, aggregate: [distinct, top]}
`, int(s.plan.barrier.Seconds()), int(s.plan.makeup.Seconds())),
		"jobs/probe_input.json":  `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`,
		"jobs/probe_output.json": `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","required":["marker"],"properties":{"marker":{"type":"string"}}}`,
		"dispatcher.yaml": fmt.Sprintf(`data_folder: data
reports_folder: reports
stores_file: stores.csv
jobs_folder: jobs
broker:
  listeners: {tcp: {address: %q}}
  limits: {flapping_connects: 1000}
admission: {max_running: %d, grants_per_second: %d, grant_burst: %d}
`, s.addr, maxRunning, grantsPerSecond, grantBurst),
	} {
		if err := os.WriteFile(s.path(filepath.FromSlash(name)), []byte(text), 0o600); err != nil {
			return err
		}
	}
	s.ledger, err = newLedger(s.path("history"))
	s.eye = scribe{s.ledger, watcher}
	return err
}

// tearDown ends every process and the small disk. It may be called twice.
func (s *soak) tearDown() {
	if s.crowd != nil {
		s.crowd.stop()
	}
	for _, a := range s.agents {
		a.close()
	}
	s.agents = nil
	if s.hq != nil {
		s.hq.kill()
	}
	if s.ledger != nil {
		_ = s.ledger.close() // the judge has read it, or nobody will
	}
	if s.mounted {
		s.mounted = false
		if err := syscall.Unmount(s.path("data"), 0); err != nil {
			s.say("the small disk stays mounted: %v", err)
		}
	}
}

// freeAddr is a loopback address below the ports of outgoing connections, which
// would take a listener's port while headquarters is started anew.
func freeAddr(ctx context.Context) (string, error) {
	for range 100 {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(10_000+rand.IntN(20_000)))
		if l, err := new(net.ListenConfig).Listen(ctx, "tcp", address); err == nil {
			return address, l.Close()
		}
	}
	return "", errors.New("no port is free")
}

// serve starts headquarters and waits until it is ready.
func (s *soak) serve() error {
	command := []string{s.bin("dispatcher"), "serve", "--config", s.path("dispatcher.yaml")}
	if s.clocked {
		command = s.clockedCommand()
	}
	p, err := launch(s.path("logs", "headquarters.log"), "headquarters is ready", command, func(p *process) {
		if s.full.Load() {
			return // it says so and ends when there is no room to start: back sees to it
		}
		s.found("headquarters ended by itself: %s", strings.TrimSpace(p.words()))
	})
	if err != nil {
		return err
	}
	s.hq = p
	s.hqPID.set(p.pid())
	if err := p.ready(startPatience); err != nil {
		return err
	}
	s.tally.starts.Add(1)
	return nil
}

// gone takes headquarters away as by kill -9.
func (s *soak) gone() error {
	if s.waits {
		return nil
	}
	_, err := s.eye.fault("dispatcher", true)
	s.tally.used(s.hq.pid())
	s.hqPID.set(0)
	s.hq.kill()
	return err
}

// back starts headquarters again. Without a byte to write it may refuse to start;
// then it is started when there is room, as whoever watches over it would do.
func (s *soak) back() error {
	if err := s.serve(); err != nil {
		if s.waits = s.full.Load(); !s.waits {
			return err
		}
		s.tally.noRoom.Add(1)
		s.say("headquarters waits for room to start")
		return nil
	}
	s.waits = false
	_, err := s.eye.fault("dispatcher", false)
	return err
}

// agent is a real agent: the program behind its tap behind a door.
type agent struct {
	soak    *soak
	store   string
	door    *door
	tap     *tap.Tap
	out     *history.Writer
	running *process
	pid     syncInt
}

func (s *soak) newAgent(ctx context.Context, store string) (*agent, error) {
	a := &agent{soak: s, store: store}
	var err error
	if a.door, err = newDoor(ctx, s.addr); err != nil {
		return nil, err
	}
	folder := s.path("history", "agents")
	a.out, err = history.Create(folder, history.Participant{Who: store + "/pos1", Role: history.RoleAgent, Store: store, Terminal: "pos1"})
	if err != nil {
		return nil, err
	}
	if a.tap, err = tap.Start(context.WithoutCancel(ctx), a.door.addr(), a.out); err != nil {
		return nil, err
	}
	home := s.path("agents", store)
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, err
	}
	script := fmt.Sprintf(`echo "$MUSTER_TASK_ID $MUSTER_ATTEMPT $$ $(date +%%s%%3N)" >> %q
case "$MUSTER_TASK_ID" in *7) sleep 2;; *3) sleep 1;; esac
case "$MUSTER_TASK_ID" in *b) exit 3;; esac
echo '{"marker":"%s did it"}'
`, filepath.Join(folder, store+".markers"), store)
	config := fmt.Sprintf(`store: %q
terminal: pos1
time_zone: Asia/Shanghai
work_folder: work
broker: {url: "mqtt://%s"}
executors:
  - {type: probe, version: 1, command: [sh, %q]}
`, store, a.tap.Addr(), filepath.Join(home, "probe.sh"))
	err = errors.Join(os.WriteFile(filepath.Join(home, "probe.sh"), []byte(script), 0o600),
		os.WriteFile(filepath.Join(home, "edge-agent.yaml"), []byte(config), 0o600))
	return a, errors.Join(err, a.start())
}

func (a *agent) start() error {
	p, err := launch(a.soak.path("logs", a.store+".log"), "", []string{a.soak.bin("edge-agent"), "-config",
		a.soak.path("agents", a.store, "edge-agent.yaml")}, func(p *process) {
		a.soak.found("the agent of %s ended by itself: %s", a.store, strings.TrimSpace(p.words()))
	})
	if a.running = p; p != nil {
		a.pid.set(p.pid())
	}
	return err
}

func (a *agent) close() {
	if a.running != nil {
		a.running.kill()
	}
	a.tap.Close()
	a.door.close()
	if err := errors.Join(a.tap.Failed(), a.out.Close()); err != nil {
		a.soak.failed(err)
	}
	a.running, a.out = nil, nil
}

func cores() int { return runtime.NumCPU() }
