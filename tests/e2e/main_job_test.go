// Package e2e_test keeps the promises of the main job with real processes:
// the three programs as they are built, and the stock mosquitto tools.
package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"muster/internal/protocol"
	"muster/internal/task"
	"muster/tests/programs"
)

// brokers names every way to a broker and how to start it; "" is the embedded
// one.
func brokers() map[string]func(t *testing.T) string {
	return map[string]func(t *testing.T) string{
		"embedded":    func(*testing.T) string { return "" },
		"stand-alone": standAlone,
		"mosquitto":   mosquitto,
	}
}

func standAlone(t *testing.T) string {
	t.Helper()
	addr := programs.FreeAddr(t)
	config := filepath.Join(t.TempDir(), "broker.yaml")
	text := fmt.Sprintf("broker:\n  listeners: {tcp: {address: %q}}\n  anonymous: true\n", addr)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	programs.Launch(t, filepath.Join(bin, "broker"), "-config", config).AwaitOutput("broker listens")
	return addr
}

// mosquitto starts Debian's broker with the settings that docs/guides name.
func mosquitto(t *testing.T) string {
	t.Helper()
	addr := programs.FreeAddr(t)
	_, port, _ := strings.Cut(addr, ":")
	config := filepath.Join(t.TempDir(), "mosquitto.conf")
	text := fmt.Sprintf("listener %s 127.0.0.1\nallow_anonymous true\nmax_inflight_messages 0\nmax_queued_messages 0\n", port)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	programs.Launch(t, programs.Installed(t, "mosquitto"), "-c", config).AwaitOutput("running")
	return addr
}

const collectSettings = `collect:
  logs: [ "logs/*.log" ]
  config_files: [ "pos.ini" ]
`

func TestTechnicianCollectsConfigurationAndLogsOverEveryBroker(t *testing.T) {
	t.Parallel()
	for name, start := range brokers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, []string{"007", "1E5"}, start(t))
			s.serve()
			for _, store := range []string{"007", "1E5"} {
				s.write("agents/"+store+"/logs/pos.log", "2026-09-17 07:30:00 INFO 开店\r\n2026-09-17 08:00:00 ERROR 打印机缺纸\r\n2026-09-18 00:00:00 INFO next day\r\n")
				s.write("agents/"+store+"/pos.ini", "[db]\nhost=10.0.0.1\npassword=canary-4711\n")
				s.agent(store, collectSettings)
			}
			reply := s.ask("run", `{"requestId":"`+name+`","job":"collect_log","stores":"all","input":{"date":"2026-09-17"},"barrierSeconds":40}`)
			if !reply.OK || reply.Stores != 2 {
				t.Fatalf("reply %+v", reply)
			}
			report, path := s.report(reply.RunID, 1)
			if report.Counts != (protocol.Counts{Succeeded: 2}) || report.Verdict != protocol.VerdictComplete {
				t.Errorf("counts %+v, verdict %s", report.Counts, report.Verdict)
			}
			for _, row := range report.Stores {
				if got := column(t, report, row, "lines"); got != "2" {
					t.Errorf("store %s: %s lines in range, want 2", row.StoreID, got)
				}
			}
			noCanary(t, s.dir, filepath.Dir(path))
		})
	}
}

// column returns the value of a job's column in a row, as it was sent.
func column(t *testing.T, report protocol.Report, row protocol.StoreRow, name string) string {
	t.Helper()
	for i, c := range report.Columns {
		if c.Name == name {
			return string(row.Columns[i])
		}
	}
	t.Fatalf("the report has no column %s: %+v", name, report.Columns)
	return ""
}

// noCanary looks for the planted secret in everything headquarters wrote.
func noCanary(t *testing.T, folders ...string) {
	t.Helper()
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Base(path) == "pos.ini" {
				return err
			}
			data, err := os.ReadFile(path)
			if strings.Contains(string(data), "canary-4711") {
				t.Errorf("%s holds the secret", path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// markingExecutor appends one line to the store's marker file a real
// execution, waits while the gate file is absent, and answers.
func markingExecutor(s *site, store string) (settings, markers, gate string) {
	markers = filepath.Join(s.dir, store+".markers")
	gate = filepath.Join(s.dir, store+".gate")
	script := s.write(store+".sh", fmt.Sprintf(`echo "$MUSTER_TASK_ID $MUSTER_ATTEMPT" >> %q
while [ -e "$0" ] && [ ! -e %q ]; do sleep 0.05; done
echo '{"marker":"done"}'
`, markers, gate))
	return fmt.Sprintf("executors:\n  - type: probe\n    version: 1\n    command: [sh, %q]\n", script), markers, gate
}

func lines(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Fields(strings.ReplaceAll(strings.TrimSpace(string(data)), " ", "/"))
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestResultSurvivesDispatcherKill(t *testing.T) {
	t.Parallel()
	for name, start := range brokers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, []string{"A"}, start(t))
			s.serve()
			settings, markers, gate := markingExecutor(s, "A")
			s.agent("A", settings)
			reply := s.ask("run", `{"job":"probe","stores":"all"}`)
			if !reply.OK {
				t.Fatalf("reply %+v", reply)
			}
			programs.Eventually(t, "the execution", func() bool { return len(lines(t, markers)) == 1 })
			s.hq.Kill()
			touch(t, gate) // the work ends while headquarters is away
			s.serve()
			report, _ := s.report(reply.RunID, 1)
			if report.Counts != (protocol.Counts{Succeeded: 1}) {
				t.Errorf("counts %+v", report.Counts)
			}
			if got := lines(t, markers); len(got) != 1 {
				t.Errorf("executed %v", got)
			}
		})
	}
}

func TestAgentKilledMidExecutionNeverRepeatsAnAttempt(t *testing.T) {
	t.Parallel()
	s := newSite(t, []string{"A"}, "")
	s.serve()
	settings, markers, gate := markingExecutor(s, "A")
	agent := s.agent("A", settings)
	reply := s.ask("run", `{"job":"probe","stores":"all"}`)
	programs.Eventually(t, "the execution", func() bool { return len(lines(t, markers)) == 1 })
	agent.Kill()
	touch(t, gate)
	s.agent("A", settings)
	report, _ := s.report(reply.RunID, 1)
	row := report.Stores[0]
	if row.Outcome != task.OutcomeFailed || row.Error == nil || row.Error.Code != protocol.CodeInterrupted {
		t.Errorf("row %+v, error %+v; the job does not allow a retry after a crash", row, row.Error)
	}
	if got := lines(t, markers); len(got) != 1 {
		t.Errorf("executed %v", got)
	}
}

func TestRetainedTriggerMakesOneRunAtMost(t *testing.T) {
	t.Parallel()
	s := newSite(t, []string{"A"}, "")
	s.serve()
	s.mosquitto("pub", "-u", "wang", "-q", "1", "-r", "-t", "muster/v1/req/wang/run", "-m", `{"job":"probe","stores":"all","barrierSeconds":1}`)
	for range 2 {
		s.hq.Terminate()
		s.serve()
	}
	reply := s.ask("run", `{"job":"probe","stores":"all","barrierSeconds":1}`)
	s.report(reply.RunID, 1)
	if manifests := s.manifests("*"); len(manifests) != 1 {
		t.Errorf("reports %v", manifests)
	}
}

func TestSecondDispatcherOnOneDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, []string{"A"}, "")
	s.serve()
	second := programs.Launch(t, filepath.Join(bin, "dispatcher"), "serve", "--config", s.config)
	if want := fmt.Sprintf("process %d", s.hq.PID()); second.ExitCode() == 0 || !strings.Contains(second.Output(), want) {
		t.Errorf("exit %d, said %q, want the holder's %q", second.ExitCode(), second.Output(), want)
	}
}
