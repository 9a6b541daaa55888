//go:build !windows

package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"muster/broker/server/users"
	"muster/internal/protocol"
	"muster/tests/programs"
)

// TestReloadDropsNobodyAndTakesAllOrNothing sends SIGHUP to a headquarters with a
// watcher and a task that runs: wrong files change nothing and raise an alarm, right
// ones change jobs, stores, users and limits, and end the session of the user alone
// who is no longer let in.
func TestReloadDropsNobodyAndTakesAllOrNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t, []string{"A1"}, "")
	hash, err := users.HashPassword([]byte("correct horse"))
	if err != nil {
		t.Fatal(err)
	}
	user := func(names ...string) {
		text := "users:\n"
		for _, name := range names {
			text += fmt.Sprintf("  - {name: %s, role: operator, password: %q}\n", name, hash)
		}
		s.write("users.yaml", text+fmt.Sprintf("terminals:\n  - {store: A1, terminal: pos1, password: %q}\n", hash))
	}
	user("wang", "li")
	line := programs.FreeAddr(t)
	s.configured(line, "")
	s.serve()
	mark := filepath.Join(s.dir, "go-on")
	s.agentWith("A1", fmt.Sprintf(`broker: {url: "mqtt://%s", password: "correct horse"}
executors:
  - {type: probe, version: 1, command: [/bin/sh, -c, "while [ ! -e %s ]; do sleep 0.05; done; echo '{\"marker\":\"m\"}'"]}
`, s.addr, mark)).AwaitOutput("link is up")
	wang, li := s.watcher("wang", "correct horse"), s.watcher("li", "correct horse")
	asked := s.mosquitto("rr", "-u", "wang", "-P", "correct horse", "-q", "1", "-t", "muster/v1/req/wang/run", "-e", "muster/v1/rep/wang/e2e",
		"-m", `{"job":"probe","stores":"all","barrierSeconds":120}`)
	var reply protocol.Reply
	if err := json.Unmarshal([]byte(asked), &reply); err != nil || !reply.OK {
		t.Fatalf("%s: %v", asked, err)
	}
	wang.AwaitOutput(`"RUNNING":1`)

	// Stores and users would be right; the job's file is wrong.
	user("wang", "zhao")
	s.write("stores.csv", "store_id,name,time_zone,labels\nA1,One,Asia/Shanghai,\nB2,Two,Asia/Shanghai,\n")
	s.write("jobs/second.yaml", "name: second\nversion: many\n")
	s.hangup("second.yaml:2: version: must be a whole number")
	wang.AwaitOutput("alarms/warning/reload_refused")
	wang.AwaitOutput("what was in force stays")
	if list := s.dispatcher("stores", "list", "-c", s.config); strings.Contains(list, "B2") {
		t.Errorf("a refused reload has changed the stores:\n%s", list)
	}
	if said, code := programs.Run(t, filepath.Join(bin, "dispatcher"), "jobs", "--broker", "mqtt://"+s.addr, "--user", "zhao", "--password-file", s.write("pw", "correct horse\n")); code != 2 {
		t.Errorf("a refused reload lets zhao in: %d, %s", code, said)
	}

	s.write("jobs/second.yaml", "name: second\nversion: 1\ntitle: Second\ninput_schema: probe_input.json\noutput_schema: probe_output.json\n")
	s.configured(line, "admission: {max_running: 7}\nlog: {level: debug}\n")
	s.hangup("jobs, stores, users and limits were read again")
	if !strings.Contains(s.hq.Output(), "needs_restart=log.level") {
		t.Error("it is not said that log.level needs a restart")
	}
	wang.AwaitOutput(`"recovered":true`)
	if list := s.dispatcher("stores", "list", "-c", s.config); !strings.Contains(list, "B2") {
		t.Errorf("the new store is missing:\n%s", list)
	}
	if jobs := s.dispatcher("jobs", "--broker", "mqtt://"+s.addr, "--user", "zhao", "--password-file", filepath.Join(s.dir, "pw")); !strings.Contains(jobs, "second") {
		t.Errorf("the new user is not shown the new job:\n%s", jobs)
	}
	programs.Eventually(t, "the session of li, who is no longer let in, ending", func() bool {
		select {
		case <-li.Done():
			return true
		default:
			return strings.Count(s.hq.Output(), "ended a session") > 0
		}
	})

	s.write("go-on", "")
	wang.AwaitOutput(`"SUCCEEDED":1`)
	wang.AwaitOutput("runs/" + reply.RunID + "/summary")
	if err := syscall.Kill(wang.PID(), 0); err != nil {
		t.Errorf("the watcher was dropped: %v\n%s", err, wang.Output())
	}
	s.measured(line)
	s.looked(reply.RunID)
	if said := s.dispatcher("reload", "-c", s.config); !strings.Contains(said, "in force: jobs 3, stores 2 (added 0, changed 0, retired 0)\nthese keys have changed too, and count from the next start on: log.level\n") {
		t.Errorf("reload says %q", said)
	}
}

// hangup sends SIGHUP and waits until headquarters says what came of it.
func (s *site) hangup(want string) {
	s.t.Helper()
	before := strings.Count(s.hq.Output(), want)
	if err := syscall.Kill(s.hq.PID(), syscall.SIGHUP); err != nil {
		s.t.Fatal(err)
	}
	programs.Eventually(s.t, "headquarters saying "+want, func() bool { return strings.Count(s.hq.Output(), want) > before })
}

// configured writes a configuration with a users file and an admin port.
func (s *site) configured(line, more string) {
	s.write("dispatcher.yaml", fmt.Sprintf(`data_folder: data
admin: {address: "`+line+`"}
reports_folder: reports
stores_file: stores.csv
jobs_folder: jobs
broker:
  anonymous: false
  users_file: users.yaml
  listeners: {tcp: {address: "%s"}}
%s`, s.addr, more))
}

// looked has the commands of an operator look at a headquarters that runs, and at a run
// of one store that succeeded.
func (s *site) looked(run string) {
	s.t.Helper()
	if said := s.dispatcher("doctor", "-c", s.config); !strings.Contains(said, "ok    broker: it answers within") || !strings.Contains(said, "ok    database: ") ||
		!strings.Contains(said, " is answered\n") || !strings.Contains(said, " 0 failed,") {
		s.t.Errorf("doctor says\n%s", said)
	}
	if runs := s.dispatcher("runs", "-c", s.config); !strings.Contains(runs, run+"  probe  closed  1       1 ") {
		s.t.Errorf("runs says\n%s", runs)
	}
	if tasks := s.dispatcher("tasks", run, "-c", s.config, "--status", "succeeded"); !strings.Contains(tasks, "A1     SUCCEEDED  1 of 2   pos1") || !strings.HasSuffix(tasks, "1 task\n") {
		s.t.Errorf("tasks says\n%s", tasks)
	}
	if manifests := s.manifests(run + "_r1"); len(manifests) != 1 {
		s.t.Errorf("manifests: %v", manifests)
	} else if said := s.dispatcher("report", "verify", manifests[0], "-c", s.config); strings.Count(said, "and the database say") < 3 {
		s.t.Errorf("report verify says\n%s", said)
	}
}

// watcher is mosquitto_sub of a user, on everything that a technician may read; it
// leaves when its connection is lost.
func (s *site) watcher(user, password string) *programs.Process {
	s.t.Helper()
	host, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	p := programs.Launch(s.t, programs.Installed(s.t, "mosquitto_sub"), "-h", host, "-p", port, "-V", "5", "-u", user, "-P", password, "-v",
		"-t", "muster/v1/runs/#", "-t", "muster/v1/alarms/#", "-t", "muster/v1/info")
	p.AwaitOutput("muster/v1/info") // it is retained
	return p
}

// measured asks the admin port what supervisors and Prometheus ask, without a token.
func (s *site) measured(line string) {
	s.t.Helper()
	for path, want := range map[string]string{"/healthz": "ok\n", "/readyz": "ok\n"} {
		if got := s.get(line, path, ""); got != want {
			s.t.Errorf("%s says %q", path, got)
		}
	}
	page := s.get(line, "/metrics", "")
	for _, want := range []string{`muster_tasks_settled_total{status="SUCCEEDED"} 1`, `muster_runs_created_total 1`, "muster_grants_total 1", `muster_results_total{verdict="accepted"} 1`,
		`muster_receipts_total{accepted="true"} 1`, `muster_receipts_total{accepted="false"} 0`,
		"muster_terminals_online 1", `muster_alarms_total{severity="warning",kind="reload_refused"} 1`, "muster_barrier_lag_seconds 0", `muster_tasks{status="RUNNING"} 0`,
		`muster_build_info{version="dev",goversion=`, `muster_disk_free_bytes{folder="data"} `, `muster_store_commit_duration_seconds_bucket{le="+Inf"} `} {
		if !strings.Contains(page, "\n"+want) {
			s.t.Errorf("no %q in\n%s", want, page)
		}
	}
	s.named(page)
	if got := s.get(line, "/v1/health", ""); !strings.Contains(got, "NOT_ALLOWED") {
		s.t.Errorf("without its token the admin line says %q", got)
	}
	if got := s.get(line, "/metrics", "http://evil.example"); !strings.Contains(got, "NOT_ALLOWED") {
		s.t.Errorf("a page of a browser is told %q", got)
	}
}

// named holds a page against the rules of Prometheus: each name once, its HELP and its
// TYPE before its samples, _total on counters alone, and durations in seconds.
func (s *site) named(page string) {
	s.t.Helper()
	ownNames := regexp.MustCompile(`^(muster|go|process)(_[a-z]+)+$`)
	name, helped, seen := "", "", map[string]bool{}
	for row := range strings.Lines(page) {
		words := strings.Fields(row)
		switch {
		case strings.HasPrefix(row, "# HELP ") && len(words) > 3:
			helped = words[2]
		case strings.HasPrefix(row, "# TYPE "):
			name = words[2]
			if name != helped || seen[name] || strings.HasSuffix(name, "_total") != (words[3] == "counter") ||
				words[3] == "histogram" && !strings.HasSuffix(name, "_seconds") || !ownNames.MatchString(name) {
				s.t.Errorf("%q is not named by the rules", row)
			}
			seen[name] = true
		case name == "" || !strings.HasPrefix(row, name):
			s.t.Errorf("%q stands under %q", row, name)
		}
	}
}

func (s *site) get(line, path, origin string) string {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+line+path, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	if origin != "" {
		request.Header.Set("Origin", origin)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// dispatcher runs a command that must succeed.
func (s *site) dispatcher(args ...string) string {
	s.t.Helper()
	said, code := programs.Run(s.t, filepath.Join(bin, "dispatcher"), args...)
	if code != 0 {
		s.t.Fatalf("%v: %d: %s", args, code, said)
	}
	return said
}
