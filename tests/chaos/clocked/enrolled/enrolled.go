// Package enrolled is a site whose headquarters and agents prove who they are:
// identities as dispatcher init and edge-agent enroll make them, TLS, signatures.
// Agents connect to headquarters itself, so there are no histories.
//
// It makes no fault by itself, and starts only what runs to its end.
package enrolled

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"muster/tests/chaos/site"
	"muster/tests/programs"
)

// operator asks for runs at headquarters; approver is the second person, with the
// same password.
const operator, approver = "olga", "amy"

// Site is a site with identities. Its methods fail the test themselves.
type Site struct {
	*site.Site
	t         testing.TB
	bin       string
	enrolment string // host:port
	password  string // file of the operator's
}

// New makes a site and the identity of its headquarters; bin is the folder of the
// programs. The work and policy of cfg count, its limits do not.
func New(t testing.TB, bin string, cfg site.Config, stores ...string) *Site {
	t.Helper()
	s := &Site{Site: site.New(t, bin, cfg, stores...), t: t, bin: bin, enrolment: programs.FreeAddr(t)}
	var made struct {
		Password string `json:"password"`
	}
	s.answer(&made, "dispatcher", "init", filepath.Join(s.Dir, "made"), "--host", "127.0.0.1", "--operator", operator, "--json")
	s.password = s.Write("password", made.Password+"\n")
	s.addApprover()
	s.Write("dispatcher.yaml", fmt.Sprintf(`data_folder: data
reports_folder: reports
stores_file: stores.csv
jobs_folder: jobs
identity: {folder: made/identity}
enrolment: {address: %[1]q, url: "https://%[1]s"}
broker:
  anonymous: false
  users_file: made/users.yaml
  listeners:
    tcp: {address: ""}
    tls: {address: %[2]q}
`, s.enrolment, s.Addr))
	return s
}

func (s *Site) addApprover() {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.Dir, "made", "users.yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.Write("made/users.yaml", fmt.Sprintf("%s\n  - {name: %s, role: approver, %s}\n", text, approver,
		regexp.MustCompile(`password: "[^"]+"`).Find(text)))
}

// run runs a program to its end and returns what it said.
func (s *Site) run(program string, args ...string) []byte {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), programs.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, program), args...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("%s %s: %v: %s%s", program, strings.Join(args, " "), err, out, said.String())
	}
	return out
}

func (s *Site) answer(into any, program string, args ...string) {
	s.t.Helper()
	if out := s.run(program, args...); json.Unmarshal(out, into) != nil {
		s.t.Fatalf("%s %s said %s", program, strings.Join(args, " "), out)
	}
}

// Identity is the identity folder of a store's agent.
func (s *Site) Identity(store string) string {
	return filepath.Join(s.Dir, "agents", store, "identity")
}

// Enrol gives a store's agent its identity, from the headquarters that runs.
func (s *Site) Enrol(store string) {
	s.t.Helper()
	var made struct {
		Token string `json:"token"`
	}
	s.answer(&made, "dispatcher", "enroll", store, "pos1", "--data", s.Data(), "--json")
	s.run("edge-agent", "enroll", "--token", made.Token, "--headquarters", "https://"+s.enrolment, "--identity", s.Identity(store))
}

// AgentCommand is the command line of a store's agent, whose files are written.
func (s *Site) AgentCommand(store string) []string {
	s.t.Helper()
	command := s.Site.AgentCommand(store)
	text, err := os.ReadFile(command[2])
	if err != nil {
		s.t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "broker:") {
			line = fmt.Sprintf("broker: {url: \"mqtts://%s\"}\nidentity: {folder: identity}\n", s.Addr)
		}
		lines = append(lines, line)
	}
	if err := os.WriteFile(command[2], []byte(strings.Join(lines, "")), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return command
}

// Run asks for a run of the probe at all stores as the operator, over TLS, and
// returns its id; barrier is a duration, and "" the job's.
func (s *Site) Run(barrier string) string {
	s.t.Helper()
	args := append([]string{"run", site.Job, "--stores", "all", "--json"}, s.as(operator)...)
	if barrier != "" {
		args = append(args, "--barrier", barrier)
	}
	var reply struct {
		RunID string `json:"runId"`
	}
	s.answer(&reply, "dispatcher", args...)
	return cmp.Or(reply.RunID, "none")
}

// Rotate replaces headquarters' signing keys at once, with the word of a second
// person.
func (s *Site) Rotate() {
	s.t.Helper()
	var asked struct {
		ApprovalID string `json:"approvalId"`
	}
	s.answer(&asked, "dispatcher", "keys", "rotate", "--now", "--data", s.Data(), "--json")
	s.run("dispatcher", append([]string{"approve", asked.ApprovalID}, s.as(approver)...)...)
}

// as is how a person connects.
func (s *Site) as(user string) []string {
	return []string{"--user", user, "--password-file", s.password, "--broker", "mqtts://" + s.Addr,
		"--ca-file", filepath.Join(s.Dir, "made", "identity", "ca.crt")}
}
