package real_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"muster/internal/protocol"
	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
	"muster/tests/chaos/tap"
	"muster/tests/fleet"
	"muster/tests/programs"
)

// bin is the folder of the programs.
var bin string

// The participants beside the agents.
var (
	wang  = history.Participant{Who: "wang", Role: history.RoleClient}
	watch = history.Participant{Who: "watch", Role: history.RoleCollector}
)

func TestMain(m *testing.M) {
	os.Exit(programs.BuildAndRun(m, func(folder string) { bin = folder }))
}

// site is a real headquarters whose participants write histories.
type site struct {
	t       *testing.T
	dir     string
	addr    string
	hq      *programs.Process
	clients map[string]*history.Writer
	agents  map[string]string // store: the address of its tap
}

func newSite(t *testing.T, stores ...string) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), addr: programs.FreeAddr(t), clients: map[string]*history.Writer{}, agents: map[string]string{}}
	register := "store_id,name,time_zone,labels\n"
	for _, id := range stores {
		register += id + ",门店 " + id + ",Asia/Shanghai,region=east\n"
	}
	s.write("stores.csv", register)
	s.write("jobs/probe.yaml", `name: probe
version: 1
title: Probe
title_zh: 探测
input_schema: probe_input.json
output_schema: probe_output.json
policy: {attempts: 2, run_timeout: 30s, lease: 10s, barrier: 30s, makeup: 1h, retry_first: 100ms, retry_max: 1s}
columns:
  - {name: marker, pointer: /marker, title: Marker, title_zh: 标记}
`)
	s.write("jobs/probe_input.json", `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`)
	s.write("jobs/probe_output.json", `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","required":["marker"]}`)
	s.write("dispatcher.yaml", fmt.Sprintf(`data_folder: data
reports_folder: reports
stores_file: stores.csv
jobs_folder: jobs
broker:
  listeners: {tcp: {address: %q}}
admission: {max_running: 3, grants_per_second: 5, grant_burst: 2}
`, s.addr))
	s.write("history/.keep", "")
	return s
}

func (s *site) write(name, text string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

func (s *site) writer(who history.Participant) *history.Writer {
	s.t.Helper()
	w, err := history.Create(filepath.Join(s.dir, "history"), who)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = w.Close() })
	return w
}

func (s *site) serve() {
	s.t.Helper()
	s.hq = programs.Launch(s.t, filepath.Join(bin, "dispatcher"), "serve", "--config", filepath.Join(s.dir, "dispatcher.yaml"))
	s.hq.AwaitOutput("headquarters is ready")
}

// agent starts the agent of a store behind its tap. Its executor marks each
// execution and waits for the store's gate.
func (s *site) agent(store string) *programs.Process {
	s.t.Helper()
	if s.agents[store] == "" {
		w := s.writer(history.Participant{Who: store + "/pos1", Role: history.RoleAgent, Store: store, Terminal: "pos1"})
		relay, err := tap.Start(s.t.Context(), s.addr, w)
		if err != nil {
			s.t.Fatal(err)
		}
		s.agents[store] = relay.Addr()
		s.t.Cleanup(func() {
			relay.Close()
			if err := relay.Failed(); err != nil {
				s.t.Error(err)
			}
		})
	}
	script := s.write(store+".sh", fmt.Sprintf(`echo "$MUSTER_TASK_ID $MUSTER_ATTEMPT $$ $(date +%%s%%3N)" >> %q
while [ ! -e %q ]; do sleep 0.05; done
echo '{"marker":"%s did it"}'
`, s.marks(store), s.gate(store), store))
	config := s.write("agents/"+store+"/edge-agent.yaml", fmt.Sprintf(`store: %q
terminal: pos1
time_zone: Asia/Shanghai
work_folder: work
broker: {url: "mqtt://%s"}
executors:
  - {type: probe, version: 1, command: [sh, %q]}
`, store, s.agents[store], script))
	return programs.Launch(s.t, filepath.Join(bin, "edge-agent"), "-config", config)
}

func (s *site) marks(store string) string { return filepath.Join(s.dir, "history", store+".markers") }
func (s *site) gate(store string) string  { return filepath.Join(s.dir, store+".gate") }

// executed waits until a store has executed n times.
func (s *site) executed(store string, n int) {
	s.t.Helper()
	programs.Eventually(s.t, fmt.Sprintf("execution %d of store %s", n, store), func() bool {
		text, err := os.ReadFile(s.marks(store))
		return err == nil && strings.Count(string(text), "\n") == n
	})
}

// ask asks as wang over a connection of its own and writes down what came of it.
func (s *site) ask(w *history.Writer, verb protocol.Verb, payload string) (reply protocol.Reply) {
	s.t.Helper()
	topic := "muster/v1/req/wang/" + string(verb)
	answers := make(chan []byte, 8)
	conn, err := fleet.Dial(s.t.Context(), s.addr, fleet.Login{User: "wang"}, func(m fleet.Message) { answers <- m.Payload })
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Subscribe(s.t.Context(), "muster/v1/rep/wang/chaos"); err != nil {
		s.t.Fatal(err)
	}
	answered, err := w.Asked(topic, []byte(payload))
	if err == nil {
		err = conn.Send(fleet.Outgoing{Topic: topic, Payload: []byte(payload), ResponseTopic: "muster/v1/rep/wang/chaos"})
	}
	outcome, body := history.OutcomeUnknown, []byte(nil)
	select {
	case body = <-answers:
		outcome = history.OutcomeRefused
		if err = errors.Join(err, json.Unmarshal(body, &reply)); reply.OK {
			outcome = history.OutcomeOK
		}
	case <-conn.Done():
	case <-time.After(programs.Patience):
	}
	if err := errors.Join(err, answered(outcome, body)); err != nil {
		s.t.Fatal(err)
	}
	return reply
}

// watch writes down the events of all runs until headquarters goes away.
func (s *site) watch(w *history.Writer) {
	s.t.Helper()
	conn, err := fleet.Dial(s.t.Context(), s.addr, fleet.Login{User: "watch"}, func(m fleet.Message) {
		if err := w.Got(m.Topic, m.Payload, m.Retained); err != nil {
			s.t.Error(err)
		}
	})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := conn.Subscribe(s.t.Context(), "muster/v1/runs/#"); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(conn.Close)
}

// sample writes down what headquarters uses, until stop is called.
func (s *site) sample(w *history.Writer) (stop func()) {
	ctx := s.t.Context()
	done := make(chan struct{})
	var all sync.WaitGroup
	pid := s.hq.PID()
	all.Go(func() {
		for tick := time.NewTicker(100 * time.Millisecond); ; {
			select {
			case <-done:
				return
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			folder := filepath.Join("/proc", strconv.Itoa(pid))
			open, err := os.ReadDir(filepath.Join(folder, "fd"))
			memory, err2 := os.ReadFile(filepath.Join(folder, "statm"))
			fields := strings.Fields(string(memory))
			if err != nil || err2 != nil || len(fields) < 2 {
				continue // it has ended, or there is no /proc
			}
			pages, _ := strconv.ParseInt(fields[1], 10, 64)
			if err := w.Sampled("dispatcher", pid, history.Sample{Descriptors: len(open), RSSBytes: pages * int64(os.Getpagesize())}); err != nil {
				s.t.Error(err)
			}
		}
	})
	return func() { close(done); all.Wait() }
}

// revision waits for a revision's manifest.
func (s *site) revision(run string, revision int) {
	s.t.Helper()
	programs.Eventually(s.t, fmt.Sprintf("revision %d of run %s", revision, run), func() bool {
		found, _ := filepath.Glob(filepath.Join(s.dir, "reports", "*", "*", fmt.Sprintf("*_%s_r%d_manifest.json", run, revision)))
		return len(found) == 1
	})
}

// look writes down every report file as it is.
func (s *site) look(w *history.Writer) map[string][]byte {
	s.t.Helper()
	files, err := checker.ReadReports(os.DirFS(filepath.Join(s.dir, "reports")))
	if err != nil {
		s.t.Fatal(err)
	}
	for name, content := range files {
		if err := w.Looked(name, content); err != nil {
			s.t.Fatal(err)
		}
	}
	return files
}

// store reads the database as it is, in one transaction.
func (s *site) store() checker.Store {
	s.t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.dir, "data", "muster.db")+"?mode=ro&_pragma=busy_timeout(5000)")
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.BeginTx(s.t.Context(), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }() // it was read only
	read, err := checker.ReadStore(func(statement string) (rows []string, err error) {
		found, err := tx.QueryContext(s.t.Context(), statement)
		if err != nil {
			return nil, err
		}
		defer found.Close()
		for found.Next() {
			var text string
			if err := found.Scan(&text); err != nil {
				return nil, err
			}
			rows = append(rows, text)
		}
		return rows, found.Err()
	}, time.Now().UnixMilli())
	if err != nil {
		s.t.Fatal(err)
	}
	return read
}

// audit runs dispatcher audit verify.
func (s *site) audit() *checker.Audit {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), filepath.Join(bin, "dispatcher"), "audit", "verify", "--json",
		"--data", filepath.Join(s.dir, "data"), "--reports", filepath.Join(s.dir, "reports"))
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	return &checker.Audit{Exit: cmd.ProcessState.ExitCode(), Output: out}
}
