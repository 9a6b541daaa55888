package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"muster/internal/protocol"
	"muster/tests/programs"
)

// bin is the folder of the programs.
var bin string

func TestMain(m *testing.M) {
	programs.SideBySide(4)
	os.Exit(programs.BuildAndRun(m, func(folder string) { bin = folder }))
}

// site is one headquarters with its folder, and the address of its broker.
type site struct {
	t      *testing.T
	dir    string
	addr   string
	config string
	hq     *programs.Process
}

// newSite writes the configuration of a headquarters with the embedded broker,
// or over the broker at external when that is not empty.
func newSite(t *testing.T, stores []string, external string) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), addr: external}
	transport := "mqtt"
	if external == "" {
		s.addr, transport = programs.FreeAddr(t), "embedded"
	}
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
policy:
  attempts: 2
  run_timeout: 30s
  lease: 10s
  barrier: 30s
  makeup: 1h
  retry_first: 100ms
  retry_max: 1s
columns:
  - {name: marker, pointer: /marker, title: Marker, title_zh: 标记}
`)
	s.write("jobs/probe_input.json", `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`)
	s.write("jobs/probe_output.json", `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","required":["marker"]}`)
	collect, err := os.ReadFile(filepath.Join("..", "..", "configs", "jobs", "collect_log.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s.write("jobs/collect_log.yaml", string(collect))
	s.config = s.write("dispatcher.yaml", fmt.Sprintf(`data_folder: data
reports_folder: reports
stores_file: stores.csv
jobs_folder: jobs
transport: %s
broker:
  listeners: {tcp: {address: "%s"}}
mqtt:
  url: mqtt://%s
log: {level: debug}
`, transport, s.addr, s.addr))
	return s
}

// write puts a file below the site's folder and returns its path.
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

// serve starts headquarters and waits until it says that it is ready.
func (s *site) serve() {
	s.t.Helper()
	s.hq = programs.Launch(s.t, filepath.Join(bin, "dispatcher"), "serve", "--config", s.config)
	s.hq.AwaitOutput("headquarters is ready")
}

// agent starts the agent of a store's terminal pos1. extra is added to its
// configuration.
func (s *site) agent(store, extra string) *programs.Process {
	s.t.Helper()
	return s.agentWith(store, fmt.Sprintf("broker: {url: \"mqtt://%s\"}\n", s.addr)+extra)
}

// agentWith is agent, with the way to the broker in the settings.
func (s *site) agentWith(store, settings string) *programs.Process {
	s.t.Helper()
	config := s.write("agents/"+store+"/edge-agent.yaml", fmt.Sprintf(`store: %q
terminal: pos1
time_zone: Asia/Shanghai
work_folder: kept
log: {level: debug, format: text}
%s`, store, settings))
	return programs.Launch(s.t, filepath.Join(bin, "edge-agent"), "-config", config)
}

// mosquitto runs one of the stock tools to its end and returns what it printed.
func (s *site) mosquitto(tool string, args ...string) string {
	s.t.Helper()
	host, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), programs.Patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, programs.Installed(s.t, "mosquitto_"+tool), append([]string{"-h", host, "-p", port, "-V", "5"}, args...)...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("mosquitto_%s %v: %v\n%s", tool, args, err, out)
	}
	return string(out)
}

// ask sends a request as the technician wang and returns the reply.
func (s *site) ask(verb, payload string) protocol.Reply {
	s.t.Helper()
	out := s.mosquitto("rr", "-u", "wang", "-q", "1", "-t", "muster/v1/req/wang/"+verb, "-e", "muster/v1/rep/wang/e2e", "-m", payload)
	var reply protocol.Reply
	if err := protocol.Decode([]byte(out), protocol.MaxPayloadBytes, &reply); err != nil {
		s.t.Fatalf("reply %q: %v", out, err)
	}
	return reply
}

// manifests lists those of the site's reports, as programs.Manifests.
func (s *site) manifests(of string) []string {
	return programs.Manifests(filepath.Join(s.dir, "reports"), of)
}

// report waits for the JSON report of a revision and returns it with its path.
func (s *site) report(runID string, revision int) (protocol.Report, string) {
	s.t.Helper()
	var manifests []string
	programs.Eventually(s.t, fmt.Sprintf("revision %d of run %s", revision, runID), func() bool {
		manifests = s.manifests(fmt.Sprintf("%s_r%d", runID, revision))
		return len(manifests) == 1
	})
	path := strings.TrimSuffix(manifests[0], "_manifest.json") + ".json"
	data, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	var report protocol.Report
	if err := json.Unmarshal(data, &report); err != nil {
		s.t.Fatal(err)
	}
	return report, path
}
