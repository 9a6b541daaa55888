package attack_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"muster/internal/protocol"
	"muster/internal/trust"
	"muster/tests/programs"
)

// bin is the folder of the programs.
var bin string

func TestMain(m *testing.M) {
	os.Exit(programs.BuildAndRun(m, func(folder string) { bin = folder }))
}

// site is a headquarters with an identity, as dispatcher init makes it, on
// addresses of its own, with people in every role.
type site struct {
	t         *testing.T
	dir       string // made by dispatcher init
	broker    string // host:port of TLS
	enrolment string
	authority *x509.CertPool
	hq        *programs.Process
}

// passwords are those of the people; each one's name is their role's.
func passwords() map[string]string {
	return map[string]string{
		"technician": "tin roof 41", "mate": "open door 52", "operator": "long night 63",
		"developer": "red thread 74", "approver": "second key 85", "auditor": "cold eye 96",
	}
}

// roleOf is the role of one of the people.
func roleOf(name string) string {
	if name == "mate" {
		return "technician"
	}
	return name
}

// settings change a headquarters' configuration. The default limits let one
// identity connect as often as these tests need.
type settings struct {
	limits string // of the broker, YAML in one line
	more   string // top-level keys
}

// newSite makes a headquarters of the given stores and starts it.
func newSite(t *testing.T, with settings, stores ...string) *site {
	t.Helper()
	if with.limits == "" {
		with.limits = "flapping_connects: 1000"
	}
	s := &site{t: t, dir: filepath.Join(t.TempDir(), "hq"), broker: programs.FreeAddr(t), enrolment: programs.FreeAddr(t)}
	s.run("dispatcher", "init", s.dir, "--host", "127.0.0.1", "--host", "localhost", "--operator", "olga")
	s.authority = x509.NewCertPool()
	s.authority.AppendCertsFromPEM(s.read("identity/ca.crt"))
	register := "store_id,name,time_zone,labels\n"
	for _, id := range stores {
		register += id + ",门店 " + id + ",Asia/Shanghai,region=east\n"
	}
	s.write("stores.csv", register)
	s.write("jobs/probe.yaml", probe(""))
	s.write("jobs/guarded.yaml", strings.Replace(probe("approval: true\n"), "name: probe", "name: guarded", 1))
	s.write("jobs/probe_input.json", `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`)
	s.write("jobs/probe_output.json", `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","required":["marker"]}`)
	s.write("users.yaml", s.users())
	s.write("dispatcher.yaml", fmt.Sprintf(`data_folder: data
reports_folder: reports
stores_file: stores.csv
jobs_folder: jobs
identity: {folder: identity}
enrolment: {address: "%[1]s", url: "https://%[1]s"}
broker:
  anonymous: false
  users_file: users.yaml
  listeners:
    tcp: {address: ""}
    tls: {address: "%[2]s"}
  limits: {%[3]s}
log: {level: debug}
%[4]s`, s.enrolment, s.broker, with.limits, with.more))
	s.serve()
	return s
}

func probe(more string) string {
	return `name: probe
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
` + more
}

// users is the users file: the passwords of everybody, and two technicians
// that are held to the store A.
func (s *site) users() string {
	s.t.Helper()
	known, err := hashes()
	if err != nil {
		s.t.Fatal(err)
	}
	var text strings.Builder
	text.WriteString("users:\n")
	for name, hash := range known {
		scope := ""
		if roleOf(name) == "technician" {
			scope = `, jobs: [probe], stores: ["A"]`
		}
		fmt.Fprintf(&text, "  - {name: %s, role: %s, password: %q%s}\n", name, roleOf(name), hash, scope)
	}
	return text.String()
}

// hashes are what hash-password makes of the passwords, once for all sites.
var hashes = sync.OnceValues(func() (map[string]string, error) {
	made := map[string]string{}
	for name, password := range passwords() {
		cmd := exec.CommandContext(context.Background(), filepath.Join(bin, "broker"), "hash-password")
		cmd.Stdin = strings.NewReader(password + "\n")
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("hash-password: %w", err)
		}
		made[name] = strings.TrimSpace(string(out))
	}
	return made, nil
})

func (s *site) serve() {
	s.t.Helper()
	s.hq = programs.Launch(s.t, filepath.Join(bin, "dispatcher"), "serve", "--config", s.path("dispatcher.yaml"))
	s.hq.AwaitOutput("headquarters is ready")
}

func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

func (s *site) read(name string) []byte {
	s.t.Helper()
	data, err := os.ReadFile(s.path(name))
	if err != nil {
		s.t.Fatal(err)
	}
	return data
}

func (s *site) write(name, text string) string {
	s.t.Helper()
	path := s.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// try runs one of the programs to its end.
func (s *site) try(program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), programs.Patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(bin, program), args...).CombinedOutput()
	return string(out), err
}

// run is try for what must end well.
func (s *site) run(program string, args ...string) string {
	s.t.Helper()
	out, err := s.try(program, args...)
	if err != nil {
		s.t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return out
}

// token asks for the token of a terminal.
func (s *site) token(store, terminal string) string {
	s.t.Helper()
	var facts struct {
		Token string `json:"token"`
	}
	out := s.run("dispatcher", "enroll", store, terminal, "--data", s.path("data"), "--json")
	if err := json.Unmarshal([]byte(out), &facts); err != nil || facts.Token == "" {
		s.t.Fatalf("enroll said %q: %v", out, err)
	}
	return facts.Token
}

// enrol gives a terminal its identity and returns the folder.
func (s *site) enrol(store, terminal string) string {
	s.t.Helper()
	folder := s.path("terminals/" + store + "/" + terminal)
	s.run("edge-agent", "enroll", "--token", s.token(store, terminal), "--headquarters", "https://"+s.enrolment, "--identity", folder)
	return folder
}

// stolen is what whoever copies a terminal's identity folder holds.
type stolen struct {
	store, terminal string
	certificate     tls.Certificate
	signer          *trust.Signer
}

// steal reads the identity folder of a terminal.
func (s *site) steal(store, terminal, folder string) stolen {
	s.t.Helper()
	certificate, err := tls.LoadX509KeyPair(filepath.Join(folder, "terminal.crt"), filepath.Join(folder, "terminal.key"))
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "terminal.key"))
	if err != nil {
		s.t.Fatal(err)
	}
	signer, err := trust.DecodeSigner(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return stolen{store, terminal, certificate, signer}
}

// login is the terminal's own.
func (x stolen) login() login {
	name := x.store + "/" + x.terminal
	return login{user: name, clientID: name, certificate: &x.certificate}
}

// answers has the probe of a terminal answer with a text of its own from now on.
func (s *site) answers(store, terminal, text string) {
	s.write(store+"."+terminal+".answer", text)
}

// agent starts the agent of an enrolled terminal, whose probe writes a line into
// the file markers for each execution.
func (s *site) agent(store, terminal, folder string) (agent *programs.Process, markers string) {
	s.t.Helper()
	markers = s.path(store + "." + terminal + ".markers")
	script := s.write(store+"."+terminal+".sh", fmt.Sprintf("echo \"$MUSTER_TASK_ID/$MUSTER_ATTEMPT\" >> %q\nif [ -e %[2]q ]; then cat %[2]q; else echo '{\"marker\":\"done\"}'; fi\n",
		markers, s.path(store+"."+terminal+".answer")))
	config := s.write("agents/"+store+"/"+terminal+".yaml", fmt.Sprintf(`store: %q
terminal: %q
time_zone: Asia/Shanghai
work_folder: work-%[2]s
identity: {folder: %[3]q}
broker: {url: "mqtts://%[4]s"}
log: {level: debug}
executors:
  - {type: probe, version: 1, command: [sh, %[5]q]}
  - {type: guarded, version: 1, command: [sh, %[5]q]}
`, store, terminal, folder, s.broker, script))
	agent = programs.Launch(s.t, filepath.Join(bin, "edge-agent"), "-config", config)
	return agent, markers
}

func lines(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Fields(string(data))
}

// as is the login of one of the people.
func as(name string) login {
	return login{user: name, clientID: "laptop-" + name, password: passwords()[name]}
}

// ask sends a request as one of the people and returns the reply.
func (s *site) ask(name, verb, payload string) protocol.Reply {
	s.t.Helper()
	who := as(name)
	who.clientID += "-" + fmt.Sprint(len(payload)) + verb
	c := s.enter(who)
	defer func() { _ = c.paho.Disconnect(&paho.Disconnect{}) }()
	return c.ask(name, verb, payload)
}

// ask sends a request on an open connection and returns the reply.
func (c *client) ask(name, verb, payload string) protocol.Reply {
	c.t.Helper()
	box := fmt.Sprintf("muster/v1/rep/%s/%d", name, c.count())
	if code := c.subscribe(box); code >= 0x80 {
		c.t.Fatalf("subscribing %s: 0x%02x", box, code)
	}
	if code, err := c.publish(message{topic: "muster/v1/req/" + name + "/" + verb, payload: payload, answerTo: box}); err != nil || code >= 0x80 {
		c.t.Fatalf("publishing %s: 0x%02x %v", verb, code, err)
	}
	var reply protocol.Reply
	if err := json.Unmarshal(c.take(box).Payload, &reply); err != nil {
		c.t.Fatal(err)
	}
	return reply
}

// report waits for the JSON report of a revision.
func (s *site) report(runID string, revision int) protocol.Report {
	s.t.Helper()
	pattern := filepath.Join(s.dir, "reports", "*", "*", fmt.Sprintf("*_%s_r%d_manifest.json", runID, revision))
	var found []string
	programs.Eventually(s.t, fmt.Sprintf("revision %d of run %s", revision, runID), func() bool {
		found, _ = filepath.Glob(pattern)
		return len(found) == 1
	})
	data, err := os.ReadFile(strings.TrimSuffix(found[0], "_manifest.json") + ".json")
	if err != nil {
		s.t.Fatal(err)
	}
	var report protocol.Report
	if err := json.Unmarshal(data, &report); err != nil {
		s.t.Fatal(err)
	}
	return report
}
