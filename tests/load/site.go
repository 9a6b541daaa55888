package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"muster/internal/protocol"
	"muster/tests/fleet"
)

// site is one headquarters with its terminals and a technician.
type site struct {
	o      options
	dir    string
	addr   string
	topics protocol.Topics
	hq     *exec.Cmd
	log    bytes.Buffer
	fleet  []*fleet.Terminal
	tech   *fleet.Conn

	mu        sync.Mutex
	seen      map[string]bool // tasks whose offer has come once
	offered   chan time.Time
	summaries chan protocol.Summary
}

func newSite(ctx context.Context, o options) (*site, error) {
	dir, err := os.MkdirTemp("", "muster-load-")
	if err != nil {
		return nil, err
	}
	topics, err := protocol.NewTopics(protocol.DefaultRoot)
	if err != nil {
		return nil, err
	}
	s := &site{o: o, dir: dir, topics: topics,
		seen: map[string]bool{}, offered: make(chan time.Time, o.terminals), summaries: make(chan protocol.Summary, 64)}
	return s, s.configure(ctx)
}

// configure writes a headquarters with every limit out of the way but the
// machine's.
func (s *site) configure(ctx context.Context) error {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.addr = l.Addr().String()
	if err := l.Close(); err != nil {
		return err
	}
	var register strings.Builder
	register.WriteString("store_id,name,time_zone,labels\n")
	for i := range s.o.terminals {
		fmt.Fprintf(&register, "%s,Store %d,Asia/Shanghai,region=east\n", storeID(i), i)
	}
	const open = `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`
	files := map[string]string{
		"stores.csv":      register.String(),
		"jobs/load.yaml":  "name: load\nversion: 1\ntitle: Load\ninput_schema: in.json\noutput_schema: out.json\npolicy: {barrier: 10m, lease: 5m}\n",
		"jobs/in.json":    open,
		"jobs/out.json":   `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","required":["value"],"properties":{"value":{"type":"string"}}}`,
		"dispatcher.yaml": fmt.Sprintf("data_folder: data\nreports_folder: reports\nstores_file: stores.csv\njobs_folder: jobs\nbroker: {listeners: {tcp: {address: %q}}}\nadmission: {max_running: 1000000, grants_per_second: 1000000, grant_burst: 1000000}\nlog: {level: warn}\n", s.addr),
	}
	for name, text := range files {
		path := filepath.Join(s.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func storeID(i int) string { return fmt.Sprintf("S%06d", i) }

func (s *site) start(ctx context.Context) error {
	s.hq = exec.CommandContext(context.WithoutCancel(ctx), s.o.dispatcher, "serve", "--config", filepath.Join(s.dir, "dispatcher.yaml"))
	s.hq.Stdout, s.hq.Stderr = &s.log, &s.log
	if err := s.hq.Start(); err != nil {
		return fmt.Errorf("cannot start headquarters: %w", err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var err error
		if s.tech, err = fleet.Dial(ctx, s.addr, fleet.Login{User: "load"}, s.receive); err == nil {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("headquarters did not come up: %w", errors.Join(ctx.Err(), err))
		}
	}
	return s.tech.Subscribe(ctx, s.topics.Root()+"/runs/+/summary", s.topics.Replies("load")+"#")
}

func (s *site) receive(m fleet.Message) {
	if addr, ok := s.topics.Parse(m.Topic); ok && addr.RunKind == protocol.RunSummary {
		var summary protocol.Summary
		if protocol.Decode(m.Payload, protocol.MaxPayloadBytes, &summary) == nil {
			s.summaries <- summary
		}
		return
	}
	var reply protocol.Reply
	if protocol.Decode(m.Payload, protocol.MaxPayloadBytes, &reply) == nil && !reply.OK && reply.Code != "" {
		fmt.Fprintf(os.Stderr, "load: headquarters refused: %s %s\n", reply.Code, reply.Message)
	}
}

// connect brings every terminal up.
func (s *site) connect(ctx context.Context) error {
	result := json.RawMessage(`{"value":"` + strings.Repeat("x", max(0, s.o.bytes-12)) + `"}`)
	var group errgroup.Group
	group.SetLimit(64)
	for i := range s.o.terminals {
		group.Go(func() error {
			term, err := fleet.Start(ctx, fleet.Options{Addr: s.addr, Topics: s.topics, Store: storeID(i), Terminal: "pos1", Delay: s.o.work, ClaimAfter: s.o.claimAfter,
				Execute: func(protocol.Offer, int) fleet.Reply { return fleet.Reply{Result: result} },
				Observe: s.observe})
			if err != nil {
				return fmt.Errorf("terminal %d: %w", i, err)
			}
			s.mu.Lock()
			s.fleet = append(s.fleet, term)
			s.mu.Unlock()
			return nil
		})
	}
	return group.Wait()
}

// observe notes when the first offer of a task comes.
func (s *site) observe(kind string, o protocol.Order) {
	if kind != "offer" {
		return
	}
	now := time.Now()
	s.mu.Lock()
	first := !s.seen[o.TaskID]
	s.seen[o.TaskID] = true
	s.mu.Unlock()
	if first {
		s.offered <- now
	}
}

// run triggers one run and waits for its report.
func (s *site) run(ctx context.Context) (figure, error) {
	request := fmt.Sprintf(`{"requestId":"%d","job":"load","stores":"all"}`, time.Now().UnixNano())
	begin := time.Now()
	if err := s.tech.Publish(s.topics.Request("load", protocol.VerbRun), []byte(request)); err != nil {
		return figure{}, err
	}
	latencies := make([]time.Duration, 0, s.o.terminals)
	for len(latencies) < s.o.terminals {
		select {
		case at := <-s.offered:
			latencies = append(latencies, at.Sub(begin))
		case <-ctx.Done():
			return figure{}, fmt.Errorf("%d of %d offers came: %w\n%s", len(latencies), s.o.terminals, ctx.Err(), s.log.String())
		}
	}
	select {
	case summary := <-s.summaries:
		if summary.Counts.Succeeded != s.o.terminals {
			return figure{}, fmt.Errorf("the report says %+v of %d targets", summary.Counts, summary.Targets)
		}
	case <-ctx.Done():
		return figure{}, fmt.Errorf("no report: %w\n%s", ctx.Err(), s.log.String())
	}
	reported := time.Since(begin)
	slices.Sort(latencies)
	return figure{p50: latencies[len(latencies)/2], p99: latencies[len(latencies)*99/100], last: latencies[len(latencies)-1], reported: reported}, nil
}

func (s *site) close() error {
	for _, t := range s.fleet {
		t.Close()
	}
	var err error
	if s.hq != nil {
		_ = s.hq.Process.Signal(syscall.SIGTERM) // it may have ended already
		err = s.hq.Wait()
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// peakMiB is the most memory that a process had resident, from /proc.
func peakMiB(pid int) (int, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var kib int
		if n, _ := fmt.Sscanf(lines.Text(), "VmHWM: %d kB", &kib); n == 1 {
			return kib >> 10, nil
		}
	}
	return 0, fmt.Errorf("process %d does not say its memory", pid)
}
