// Package cases holds the cases that must be right, each with a test that names
// it: real programs, hundreds of terminals or one real agent, and what stands in
// the database and in the reports afterwards.
package cases_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"muster/internal/protocol"
	"muster/tests/chaos/site"
	"muster/tests/fleet"
	"muster/tests/programs"
)

// bin is the folder of the programs.
var bin string

func TestMain(m *testing.M) {
	programs.SideBySide(4)
	os.Exit(programs.BuildAndRun(m, func(folder string) { bin = folder }))
}

// full is n when the whole is asked for, else the share.
func full(n, share int) int {
	if programs.Full() {
		return n
	}
	return share
}

// house is a headquarters of its own process, before which nothing stands.
type house struct {
	t      *testing.T
	dir    string
	addr   string
	topics protocol.Topics
	hq     *programs.Process
	asked  int
}

// limits is what headquarters admits.
type limits struct {
	running int
	rate    float64
	burst   int
}

// none is out of everybody's way.
func none() limits { return limits{1_000_000, 100_000, 100_000} }

func newHouse(t *testing.T, l limits, stores []string) *house {
	t.Helper()
	topics, err := protocol.NewTopics(protocol.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, dir: t.TempDir(), addr: programs.FreeAddr(t), topics: topics}
	var register strings.Builder
	register.WriteString("store_id,name,time_zone,labels\n")
	for _, id := range stores {
		fmt.Fprintf(&register, "%s,门店 %s,Asia/Shanghai,region=east\n", id, id)
	}
	h.write("stores.csv", register.String())
	h.write("jobs/probe.yaml", `name: probe
version: 1
title: Probe
input_schema: in.json
output_schema: out.json
policy: {attempts: 1, run_timeout: 5m, lease: 5m, barrier: 1h, makeup: 1h, backlog: all}
columns:
  - {name: value, pointer: /value, title: Value}
`)
	h.write("jobs/in.json", `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`)
	h.write("jobs/out.json", `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","required":["value"],"properties":{"value":{"type":"string"}}}`)
	h.write("dispatcher.yaml", fmt.Sprintf(`data_folder: data
reports_folder: reports
stores_file: stores.csv
jobs_folder: jobs
broker: {listeners: {tcp: {address: %q}}, limits: {flapping_connects: 100000}}
admission: {max_running: %d, grants_per_second: %.0f, grant_burst: %d}
log: {level: warn}
`, h.addr, l.running, l.rate, l.burst))
	return h
}

func (h *house) write(name, text string) string {
	h.t.Helper()
	path := filepath.Join(h.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
	return path
}

func (h *house) serve() {
	h.t.Helper()
	h.hq = programs.Launch(h.t, filepath.Join(bin, "dispatcher"), "serve", "--config", h.path("dispatcher.yaml"))
	programs.Eventually(h.t, "headquarters", func() bool {
		conn, err := fleet.Dial(h.t.Context(), h.addr, fleet.Login{User: "knock"}, func(fleet.Message) {})
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

// run asks for a run of the job over the stores, a JSON value, with more members
// if need be, and returns its id. Each request is another, of another user but each hundredth: none is over
// its rate.
func (h *house) run(stores string, more ...string) string {
	h.t.Helper()
	h.asked++
	request := fmt.Sprintf(`{"requestId":"r%d","job":"probe","stores":%s%s}`, h.asked, stores, strings.Join(more, ""))
	user := fmt.Sprintf("u%d", h.asked%100)
	reply := h.ask(user, protocol.VerbRun, request)
	if !reply.OK {
		h.t.Fatalf("run %s was refused: %+v", request, reply)
	}
	return reply.RunID
}

func (h *house) ask(user string, verb protocol.Verb, request string) (reply protocol.Reply) {
	h.t.Helper()
	answers := make(chan []byte, 8)
	conn, err := fleet.Dial(h.t.Context(), h.addr, fleet.Login{User: user}, func(m fleet.Message) { answers <- m.Payload })
	if err != nil {
		h.t.Fatal(err)
	}
	defer conn.Close()
	topic := h.topics.Replies(user) + "cases"
	if err := conn.Subscribe(h.t.Context(), topic); err != nil {
		h.t.Fatal(err)
	}
	if err := conn.Send(fleet.Outgoing{Topic: h.topics.Request(user, verb), Payload: []byte(request), ResponseTopic: topic}); err != nil {
		h.t.Fatal(err)
	}
	select {
	case body := <-answers:
		if err := json.Unmarshal(body, &reply); err != nil {
			h.t.Fatal(err)
		}
	case <-time.After(programs.Patience):
		h.t.Fatalf("no answer to %s", request)
	}
	return reply
}

// stock runs a stock mosquitto client as the user and returns what it printed.
func stock(t *testing.T, addr, name, user string, args ...string) string {
	t.Helper()
	host, port, _ := strings.Cut(addr, ":")
	out, err := exec.CommandContext(t.Context(), programs.Installed(t, name), append([]string{"-h", host, "-p", port, "-u", user, "-V", "5", "-q", "1"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
	return string(out)
}

// rows runs a SELECT on the database as it is and returns its rows, columns
// parted by blanks.
func (h *house) rows(query string, args ...any) []string {
	h.t.Helper()
	return site.Rows(h.t, h.path("data"), query, args...)
}

func (h *house) number(query string, args ...any) int {
	h.t.Helper()
	return int(site.Number(h.t, h.path("data"), query, args...))
}

// none waits until a SELECT finds no row any more.
func (h *house) none(what, query string, args ...any) {
	h.t.Helper()
	site.None(h.t, h.path("data"), what, query, args...)
}

func (h *house) path(name string) string { return filepath.Join(h.dir, name) }

// published waits until n revisions have their manifests.
func (h *house) published(n int) {
	h.t.Helper()
	programs.Eventually(h.t, fmt.Sprintf("%d reports", n), func() bool {
		return len(programs.Manifests(h.path("reports"), "*")) >= n
	})
}

// puppet is a terminal that claims what is offered, starts what is granted, and
// ends nothing by itself.
type puppet struct {
	*fleet.Terminal
	store string

	mu       sync.Mutex
	orders   map[protocol.OrderKind]int
	granted  map[string]int       // task: attempt
	sent     map[string]time.Time // task: when its result left
	waited   map[string]time.Duration
	refusals []protocol.Order
}

func (h *house) puppet(store, terminal string, mute bool) *puppet {
	h.t.Helper()
	p := &puppet{store: store, orders: map[protocol.OrderKind]int{}, granted: map[string]int{}, sent: map[string]time.Time{}, waited: map[string]time.Duration{}}
	var err error
	p.Terminal, err = fleet.Start(h.t.Context(), fleet.Options{Addr: h.addr, Topics: h.topics, Store: store, Terminal: terminal, Mute: mute, Observe: p.observe})
	if err != nil {
		h.t.Fatalf("terminal %s/%s: %v", store, terminal, err)
	}
	h.t.Cleanup(p.Close)
	return p
}

func (p *puppet) observe(kind string, o protocol.Order) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if kind != string(o.Order) {
		return
	}
	p.orders[o.Order]++
	switch o.Order {
	case protocol.OrderGrant:
		p.granted[o.TaskID] = o.Attempt
	case protocol.OrderReceipt:
		if o.Accepted == nil || !*o.Accepted {
			p.refusals = append(p.refusals, o)
		}
		if at, ok := p.sent[o.TaskID]; ok && p.waited[o.TaskID] == 0 {
			p.waited[o.TaskID] = now.Sub(at)
		}
	case protocol.OrderDeny, protocol.OrderSend, protocol.OrderCancel, protocol.OrderSync:
	}
}

func (p *puppet) count(kind protocol.OrderKind) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.orders[kind]
}

// has reports whether the task was granted.
func (p *puppet) has(task string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.granted[task] > 0
}

// forget forgets what was sent so far.
func (p *puppet) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.sent)
	clear(p.waited)
}

// answer sends the result of an attempt.
func (p *puppet) answer(task string, attempt int) {
	p.mu.Lock()
	if _, again := p.sent[task]; !again {
		p.sent[task] = time.Now()
	}
	p.mu.Unlock()
	_ = p.Send(protocol.KindResult, p.NewResult(task, attempt, fleet.Reply{Result: json.RawMessage(`{"value":"of ` + task + `"}`)}))
}

// sum adds up what each puppet says.
func sum(all []*puppet, of func(*puppet) int) (n int) {
	for _, p := range all {
		p.mu.Lock()
		n += of(p)
		p.mu.Unlock()
	}
	return n
}
