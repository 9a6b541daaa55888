package main_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/internal/protocol"
	"muster/tests/programs"
)

const onceConfig = `store: "007"
broker: {url: "mqtt://127.0.0.1:1", password: "not-for-children"}
work_folder: data
collect: {logs: ["logs/*.log"]}
executors:
  - {type: echo, version: 1, command: [/bin/sh, -c, "cat; echo heard $MUSTER_STORE_ID:$MUSTER_BROKER_PASSWORD >&2"]}
  - {type: broken, version: 2, command: [/bin/sh, -c, "echo no >&2; exit 7"]}
  - {type: slow, version: 1, command: [/bin/sh, -c, "echo began >&2; sleep 60"]}
`

func TestRunOnceExecutesATaskOffline(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the executors are shell scripts")
	}
	bin, folder := build(t), t.TempDir()
	config := filepath.Join(folder, "agent.yaml")
	if err := os.WriteFile(config, []byte(onceConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		task string
		code int
		want func(protocol.Result) bool
	}{
		"succeeds": {`{"type":"echo","input":{"a":1E5,"b":"007"}}`, 0, func(r protocol.Result) bool {
			var flat bytes.Buffer
			_ = json.Compact(&flat, r.Result) // it was decoded
			return r.Outcome == protocol.AnswerSucceeded && flat.String() == `{"a":1E5,"b":"007"}` && r.TaskID == "run-once" && r.Attempt == 1 &&
				r.OutputTail == "heard 007:\n" && *r.ExitCode == 0 && r.SHA256 != "" && r.Executed
		}},
		"an offer":   {`{"taskId":"t-1","attempt":3,"type":"echo","typeVersion":1,"input":{}}`, 0, func(r protocol.Result) bool { return r.TaskID == "t-1" && r.Attempt == 3 }},
		"fails":      {`{"type":"broken","typeVersion":2}`, 3, func(r protocol.Result) bool { return r.Outcome == protocol.AnswerFailed && *r.ExitCode == 7 }},
		"time limit": {`{"type":"slow","runTimeoutMs":300}`, 4, func(r protocol.Result) bool { return strings.Contains(string(r.Error), "TIME_LIMIT") }},
		"collects":   {`{"type":"collect_log","input":{"date":"2026-01-01"}}`, 0, func(r protocol.Result) bool { return r.Outcome == protocol.AnswerSucceeded }},
		"unknown":    {`{"type":"broken","typeVersion":1}`, 1, nil},
		"no task":    {`{"type":"echo",}`, 1, nil},
	} {
		cmd := exec.Command(bin, "run-once", "-config", config, "-")
		var out, errs bytes.Buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Dir = strings.NewReader(c.task), &out, &errs, folder
		cmd.Env = append(programs.Bare(), "MUSTER_BROKER_PASSWORD=secret-of-the-agent")
		_ = cmd.Run() // its code is looked at
		if code := cmd.ProcessState.ExitCode(); code != c.code {
			t.Errorf("%s: code %d, want %d: %s%s", name, code, c.code, out.String(), errs.String())
			continue
		}
		if c.want == nil {
			if out.Len() > 0 || !strings.HasPrefix(errs.String(), "edge-agent: ") {
				t.Errorf("%s: %q, %q", name, out.String(), errs.String())
			}
			continue
		}
		var result protocol.Result
		if err := json.Unmarshal(out.Bytes(), &result); err != nil || !c.want(result) || strings.Contains(out.String(), `"seq"`) {
			t.Errorf("%s: %v: %s", name, err, out.String())
		}
	}
	if _, err := os.Stat(filepath.Join(folder, "data")); err == nil {
		t.Error("run-once has made a work folder")
	}
}

func TestRunOnceIsInterrupted(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no SIGTERM")
	}
	bin, folder := build(t), t.TempDir()
	config := filepath.Join(folder, "agent.yaml")
	began := filepath.Join(folder, "began")
	text := strings.ReplaceAll(onceConfig, "echo began >&2", "touch "+began)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "run-once", "-config", config, "-")
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout = strings.NewReader(`{"type":"slow"}`), &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(began); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the executor has not begun")
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // its code is looked at
	if code := cmd.ProcessState.ExitCode(); code != 5 || !strings.Contains(out.String(), `"outcome": "cancelled"`) {
		t.Errorf("code %d, want 5: %s", code, out.String())
	}
}

func TestDoctorNamesWhatIsIllAndItsMend(t *testing.T) {
	t.Parallel()
	bin, folder := build(t), t.TempDir()
	config := filepath.Join(folder, "agent.yaml")
	text := strings.ReplaceAll(onceConfig, "/bin/sh, -c, \"echo no", "/no/such/program, -c, \"echo no")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "doctor", "-config", config, "-json")
	cmd.Env = programs.Bare()
	out, _ := cmd.Output() // its code is looked at
	var found struct {
		OK       bool
		Findings []struct{ Check, State, Text, Mend string }
	}
	if err := json.Unmarshal(out, &found); err != nil || cmd.ProcessState.ExitCode() != 1 || found.OK {
		t.Fatalf("%d, %v: %s", cmd.ProcessState.ExitCode(), err, out)
	}
	states := map[string]string{}
	for _, f := range found.Findings {
		states[f.Check] = f.State
		if (f.State == "fail" || f.State == "warn") && f.Mend == "" {
			t.Errorf("%+v has no mend", f)
		}
	}
	for check, want := range map[string]string{"configuration": "ok", "work folder": "warn", "identity": "warn", "executor of broken version 2": "fail", "broker": "fail",
		"executor of echo version 1": "ok", "logs to collect": "warn", "lock of the work folder": "ok"} {
		if states[check] != want && runtime.GOOS != "windows" {
			t.Errorf("%s is %q, want %q", check, states[check], want)
		}
	}
}
