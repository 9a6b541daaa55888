package app_test

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/dispatcher/app"
	"muster/dispatcher/config"
	"muster/internal/protocol"
	"muster/tests/fleet"
)

// patience bounds every wait of these tests; nothing waits for it to pass.
const patience = 60 * time.Second

// headquarters is a dispatcher that runs in this process, on a folder that
// outlives it.
type headquarters struct {
	t      *testing.T
	cfg    config.Config
	topics protocol.Topics
	addr   string
	wall   func() time.Time // nil: this machine's
	cancel context.CancelFunc
	ended  chan error
	hangup chan os.Signal
	next   atomic.Pointer[config.Config] // what a reload reads
}

// setup prepares headquarters for the given stores over the given transport and
// starts it. tune may change the configuration and jobs before the start.
func setup(t *testing.T, transport string, stores []string, tune func(*config.Config)) *headquarters {
	t.Helper()
	dir := t.TempDir()
	cfg, err := config.Load("")
	if err != nil {
		t.Fatal(err)
	}
	cfg.DataFolder, cfg.ReportsFolder = filepath.Join(dir, "data"), filepath.Join(dir, "reports")
	cfg.StoresFile, cfg.JobsFolder = filepath.Join(dir, "stores.csv"), filepath.Join(dir, "jobs")
	cfg.Broker.Listeners.TCP.Address = "127.0.0.1:0"
	cfg.Broker.Limits.FlappingConnects = 10_000 // these terminals come and go as a test likes
	writeStores(t, cfg.StoresFile, stores)
	writeJob(t, cfg.JobsFolder, "probe", nil)
	if transport == config.TransportMQTT {
		cfg.Transport = config.TransportMQTT
		cfg.MQTT.URL = "mqtt://" + startBroker(t)
	}
	if tune != nil {
		tune(&cfg)
	}
	topics, err := protocol.NewTopics(cfg.TopicRoot)
	if err != nil {
		t.Fatal(err)
	}
	hq := &headquarters{t: t, cfg: cfg, topics: topics, hangup: make(chan os.Signal, 1)}
	hq.start()
	t.Cleanup(hq.stop)
	return hq
}

func (hq *headquarters) start() {
	hq.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	hq.cancel, hq.ended = cancel, make(chan error, 1)
	ready := make(chan string, 1)
	go func() {
		hq.ended <- app.Run(ctx, hq.cfg, app.Options{Version: "test", Logger: logger(hq.t), Wall: hq.wall, Ready: func(addr string) { ready <- addr },
			Hangup: hq.hangup, Again: func() (config.Config, error) { return *hq.next.Load(), nil }})
	}()
	select {
	case hq.addr = <-ready:
	case err := <-hq.ended:
		hq.t.Fatalf("headquarters did not start: %v", err)
	case <-time.After(patience):
		hq.t.Fatal("headquarters did not start in time")
	}
	if hq.cfg.Transport == config.TransportEmbedded {
		hq.cfg.Broker.Listeners.TCP.Address = hq.addr // the same port after a restart
	}
}

func (hq *headquarters) stop() {
	if hq.cancel == nil {
		return
	}
	hq.cancel()
	if err := <-hq.ended; err != nil {
		hq.t.Errorf("headquarters ended with %v", err)
	}
	hq.cancel = nil
}

func (hq *headquarters) restart() {
	hq.t.Helper()
	hq.stop()
	hq.start()
}

// terminal starts one simulated terminal with what is set in opts.
func (hq *headquarters) terminal(store string, opts fleet.Options) *fleet.Terminal {
	hq.t.Helper()
	ctx, cancel := context.WithTimeout(hq.t.Context(), patience)
	defer cancel()
	opts.Addr, opts.Topics, opts.Store = hq.addr, hq.topics, store
	if opts.Terminal == "" {
		opts.Terminal = "pos1"
	}
	term, err := fleet.Start(ctx, opts)
	if err != nil {
		hq.t.Fatalf("terminal of store %s: %v", store, err)
	}
	hq.t.Cleanup(term.Close)
	return term
}

// technician is a user with a connection and what came in on it.
type technician struct {
	hq   *headquarters
	name string
	conn *fleet.Conn

	mu   sync.Mutex
	got  []fleet.Message
	news chan struct{}
}

func (hq *headquarters) technician(name string) *technician {
	hq.t.Helper()
	ctx, cancel := context.WithTimeout(hq.t.Context(), patience)
	defer cancel()
	tech := &technician{hq: hq, name: name, news: make(chan struct{}, 1)}
	conn, err := fleet.Dial(ctx, hq.addr, fleet.Login{User: name}, tech.receive)
	if err != nil {
		hq.t.Fatal(err)
	}
	tech.conn = conn
	hq.t.Cleanup(conn.Close)
	if err := conn.Subscribe(ctx, hq.topics.Replies(name)+"#", hq.topics.Root()+"/runs/#"); err != nil {
		hq.t.Fatal(err)
	}
	return tech
}

func (tech *technician) receive(m fleet.Message) {
	tech.mu.Lock()
	tech.got = append(tech.got, m)
	tech.mu.Unlock()
	select {
	case tech.news <- struct{}{}:
	default:
	}
}

// await returns the first message, from the given position on, that fits.
func (tech *technician) await(what string, fits func(fleet.Message) bool) fleet.Message {
	tech.hq.t.Helper()
	deadline := time.After(patience)
	for from := 0; ; {
		tech.mu.Lock()
		got := tech.got[from:]
		from = len(tech.got)
		tech.mu.Unlock()
		for _, m := range got {
			if fits(m) {
				return m
			}
		}
		select {
		case <-tech.news:
		case <-deadline:
			tech.hq.t.Fatalf("%s did not come; got %s", what, tech.topicsSeen())
		}
	}
}

// topicsSeen lists the last messages, cut short.
func (tech *technician) topicsSeen() string {
	tech.mu.Lock()
	defer tech.mu.Unlock()
	var b strings.Builder
	for _, m := range tech.got[max(0, len(tech.got)-10):] {
		fmt.Fprintf(&b, "\n  %s %.300s", m.Topic, m.Payload)
	}
	return b.String()
}

// ask sends a request and returns its reply.
func (tech *technician) ask(verb protocol.Verb, payload string) protocol.Reply {
	tech.hq.t.Helper()
	topic := tech.hq.topics.Replies(tech.name) + fmt.Sprint(time.Now().UnixNano())
	err := tech.conn.Send(fleet.Outgoing{Topic: tech.hq.topics.Request(tech.name, verb), Payload: []byte(payload), ResponseTopic: topic})
	if err != nil {
		tech.hq.t.Fatal(err)
	}
	m := tech.await("the reply to "+string(verb), func(m fleet.Message) bool { return m.Topic == topic })
	var reply protocol.Reply
	if err := protocol.Decode(m.Payload, protocol.MaxPayloadBytes, &reply); err != nil {
		tech.hq.t.Fatalf("reply %s: %v", m.Payload, err)
	}
	return reply
}

// run asks for a run and fails the test unless it is accepted.
func (tech *technician) run(payload string) protocol.Reply {
	tech.hq.t.Helper()
	reply := tech.ask(protocol.VerbRun, payload)
	if !reply.OK || !protocol.ValidID(reply.RunID) {
		tech.hq.t.Fatalf("the run was not accepted: %+v", reply)
	}
	return reply
}

// summary waits for a revision's retained summary.
func (tech *technician) summary(runID string, revision int) protocol.Summary {
	tech.hq.t.Helper()
	var summary protocol.Summary
	tech.await(fmt.Sprintf("summary %d of run %s", revision, runID), func(m fleet.Message) bool {
		return m.Topic == tech.hq.topics.Run(runID, protocol.RunSummary) &&
			protocol.Decode(m.Payload, protocol.MaxPayloadBytes, &summary) == nil && summary.Revision == revision
	})
	return summary
}

// report reads the JSON report of a revision from its file.
func (hq *headquarters) report(s protocol.Summary) protocol.Report {
	hq.t.Helper()
	var report protocol.Report
	if err := json.Unmarshal(hq.file(s, ".json"), &report); err != nil {
		hq.t.Fatal(err)
	}
	return report
}

// rows reads the CSV report of a revision.
func (hq *headquarters) rows(s protocol.Summary) [][]string {
	hq.t.Helper()
	data := strings.TrimPrefix(string(hq.file(s, ".csv")), "\ufeff")
	rows, err := csv.NewReader(strings.NewReader(data)).ReadAll()
	if err != nil {
		hq.t.Fatal(err)
	}
	return rows
}

func (hq *headquarters) file(s protocol.Summary, ext string) []byte {
	hq.t.Helper()
	for _, f := range s.Files {
		if strings.HasSuffix(f.Name, ext) {
			data, err := os.ReadFile(filepath.Join(hq.cfg.ReportsFolder, s.Folder, f.Name))
			if err != nil {
				hq.t.Fatal(err)
			}
			return data
		}
	}
	hq.t.Fatalf("revision %d has no %s file: %+v", s.Revision, ext, s.Files)
	return nil
}

func writeStores(t *testing.T, path string, stores []string) {
	t.Helper()
	var b strings.Builder
	b.WriteString("store_id,name,time_zone,labels\n")
	w := csv.NewWriter(&b)
	for _, s := range stores {
		id, name, named := strings.Cut(s, "=")
		if !named {
			name = "Store " + id
		}
		if err := w.Write([]string{id, name, "Asia/Shanghai", "region=east"}); err != nil {
			t.Fatal(err)
		}
	}
	w.Flush()
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// writeJob writes a job "name" whose result is {"value": anything, ...}, with
// short times; policy overrides single settings.
func writeJob(t *testing.T, dir, name string, policy map[string]string) {
	t.Helper()
	settings := map[string]string{"attempts": "2", "run_timeout": "30s", "lease": "30s", "barrier": "60s", "makeup": "1h",
		"retry_first": "100ms", "retry_max": "1s", "quorum": "0.5"}
	maps.Copy(settings, policy)
	var b strings.Builder
	fmt.Fprintf(&b, `name: %s
version: 1
title: Probe
title_zh: 探测
input_schema: %s_input.json
output_schema: %s_output.json
columns:
  - {name: value, pointer: /value, title: Value, title_zh: 值}
policy:
`, name, name, name)
	for key, value := range settings {
		fmt.Fprintf(&b, "  %s: %s\n", key, value)
	}
	files := map[string]string{
		name + ".yaml":        b.String(),
		name + "_input.json":  `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`,
		name + "_output.json": `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","required":["value"]}`,
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// value is an execution that succeeds with one value.
func value(v string) func(protocol.Offer, int) fleet.Reply {
	return func(protocol.Offer, int) fleet.Reply {
		return fleet.Reply{Result: json.RawMessage(`{"value":` + v + `}`)}
	}
}

func logger(t *testing.T) *slog.Logger {
	if os.Getenv("MUSTER_TEST_LOG") == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}
