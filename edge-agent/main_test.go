package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/broker/server"
	"muster/edge-agent/internal/stamp"
	"muster/internal/protocol"
	"muster/internal/trust"
)

// patience bounds what must happen; it passes in full only in a failure.
const patience = 20 * time.Second

// build makes the program once for the test.
func build(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "edge-agent")
	if runtime.GOOS == "windows" {
		bin += ".exe"
	}
	if out, err := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X main.version=v9", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	info, err := os.Stat(bin)
	if err != nil || info.Size() > 20<<20 {
		t.Errorf("the program has %d bytes, %v; 20 MiB is the bound for a terminal", info.Size(), err)
	}
	return bin
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	bin := build(t)
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("store: \"1\"\nstroe: 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	lost := filepath.Join(t.TempDir(), "lost.yaml")
	if err := os.WriteFile(lost, []byte("store: \"1\"\nidentity: {folder: nowhere}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	itself := filepath.Join(t.TempDir(), "itself.yaml")
	if err := os.WriteFile(itself, []byte("store: \"1\"\nidentity: {folder: nowhere, headquarters: \"https://hq\", token_file: token}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"-version"}, 0, "edge-agent v9 ("},
		{[]string{"-help"}, 0, "usage: edge-agent"},
		{[]string{"check-config"}, 1, "edge-agent: store is missing: write the id that headquarters' register has for this store"},
		{nil, 1, "edge-agent: store is missing"},
		{[]string{"check-config", "-store", "0001"}, 0, "configuration is valid: terminal pos-1 of store 0001"},
		{[]string{"check-config", "-store", "007"}, 0, "of store 007"},
		{[]string{"check-config", "-config", bad}, 1, bad + `:2: unknown field "stroe"`},
		{[]string{"-config", bad}, 1, bad + `:2: unknown field "stroe"`},
		{[]string{"-config", "no-such-file"}, 1, "no-such-file"},
		{[]string{"-broker", "http://x"}, 1, "broker.url: must be a URL"},
		{[]string{"-store", "1", "-broker", "mqtt://hq"}, 1, "--broker: broker.url: mqtt://hq carries password and answers in clear"},
		{[]string{"-store", "1", "-set", "broker.password=hunter2"}, 1, "--set: broker.password: every process can read a command line: give it by broker.password_file"},
		{[]string{"-nonsense"}, 2, "edge-agent: unknown flag \"-nonsense\"; edge-agent help shows what there is\n"},
		{[]string{"-stroe", "1"}, 2, "edge-agent: unknown flag \"-stroe\"; did you mean \"-store\"? edge-agent help shows what there is\n"},
		{[]string{"work"}, 2, "edge-agent: unknown command \"work\"; edge-agent help shows what there is\n"},
		{[]string{"docter"}, 2, "edge-agent: unknown command \"docter\"; did you mean \"doctor\"? "},
		{[]string{"run", "more"}, 2, "edge-agent: unknown argument \"more\"; "},
		{[]string{"help"}, 0, "usage: edge-agent"},
		{[]string{"-c", bad, "enroll"}, 2, "enroll comes before all flags; "},
		{[]string{"enroll", "-tokne", "x"}, 2, "edge-agent: enroll: unknown flag \"-tokne\"; did you mean \"-token\"? edge-agent enroll -help shows what there is\n"},
		{[]string{"check-config", "-config", lost}, 1, "no identity: run: edge-agent enroll"},
		{[]string{"-config", lost}, 1, "no identity: run: edge-agent enroll"},
		{[]string{"version"}, 0, "edge-agent v9 ("},
		{[]string{"version", "-json"}, 0, `"version": "v9"`},
		{[]string{"check-config", "-store", "0001", "-print-effective"}, 0, `store: "0001" # --store`},
		{[]string{"check-config", "-json", "-set", "store=A1"}, 0, `"store": "A1"`},
		{[]string{"check-config", "-json", "-config", bad}, 1, "{\n  \"ok\": false,\n  \"error\": \"" + bad + ":2: unknown field "},
		{[]string{"check-config", "-set", "store=A/1"}, 1, "--set: store: must be 1 to 63"},
		{[]string{"check-config", "-set", "stroe=A1"}, 1, "--set: stroe is no key"},
		{[]string{"run", "-config", bad}, 1, bad + `:2: unknown field "stroe"`},
		{[]string{"run-once"}, 2, "run-once needs the file of a task"},
		{[]string{"run-once", "-store", "1", "no-such-file"}, 1, "cannot read the task"},
		{[]string{"doctor", "-config", bad}, 1, "fail  configuration: " + bad + ":2"},
		{[]string{"enroll", "-help"}, 0, "usage: edge-agent enroll"},
		{[]string{"enroll", "--headquarters", "https://hq", "--identity", "x"}, 2, "--token-file is missing"},
		{[]string{"enroll", "--token", "x", "--identity", "x"}, 2, "--headquarters is missing"},
		{[]string{"enroll", "--token", "x", "--headquarters", "https://hq"}, 2, "--identity is missing"},
		{[]string{"enroll", "--token", "x", "--headquarters", "https://hq", "--identity", "x", "--store", "1"}, 2, "go together"},
		{[]string{"enroll", "--token", "x", "--headquarters", "https://hq", "--config", lost}, 1, "this is no token"},
		{[]string{"enroll", "--token", "x", "--config", itself}, 1, "this is no token"},
		{[]string{"enroll", "--config", "no-such-file"}, 1, "no-such-file"},
	} {
		cmd := exec.Command(bin, tc.args...)
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != tc.code || !strings.Contains(string(out), tc.want) {
			t.Errorf("%v: code %d, %v: %s", tc.args, code, err, out)
		}
	}
}

// TestStopEndsRunningWorkWithinFiveSeconds runs the real program against the
// real broker and ends it in the middle of an execution.
func TestStopEndsRunningWorkWithinFiveSeconds(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no SIGTERM")
	}
	topics, err := protocol.NewTopics(protocol.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	hq := startHQ(t, topics, plain())
	folder := t.TempDir()
	alive := filepath.Join(folder, "alive")
	config := fmt.Sprintf(`store: "007"
broker: {url: "mqtt://%s"}
work_folder: data
executors:
  - type: stubborn
    version: 1
    command: [/bin/sh, -c, "trap '' TERM; i=0; while [ $i -lt 600 ]; do i=$((i+1)); echo x >> %s; sleep 0.05; done"]
`, hq.broker.Addr("tcp"), alive)
	path := filepath.Join(folder, "agent.yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	bin := build(t)
	first := exec.Command(bin, "-config", path)
	first.Env = append(first.Environ(), "MUSTER_WORK_FODLER=elsewhere")
	var log bytes.Buffer
	first.Stderr = &log
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = first.Process.Kill() })
	size := func() int64 {
		info, err := os.Stat(alive)
		if err != nil {
			return 0
		}
		return info.Size()
	}
	for deadline := time.Now().Add(patience); size() < 4; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the work never started: %s", log.String())
		}
	}
	second, err := exec.Command(bin, "-config", path).CombinedOutput()
	if err == nil || !strings.Contains(string(second), fmt.Sprintf("another agent holds the work folder: pid %d", first.Process.Pid)) {
		t.Errorf("a second agent: %v: %s", err, second)
	}
	began := time.Now()
	if err := first.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	misspelt := "variable=MUSTER_WORK_FODLER did_you_mean=MUSTER_WORK_FOLDER\n"
	if err := first.Wait(); err != nil || !strings.Contains(log.String(), misspelt) {
		t.Errorf("it ended with %v, and has to say %s: %s", err, misspelt, log.String())
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v to stop", took)
	}
	before := size()
	time.Sleep(300 * time.Millisecond) // six rounds of a loop that still ran
	if size() != before {
		t.Error("the work outlived its agent")
	}
	again := exec.Command(bin, "-config", path)
	if err := again.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = again.Process.Kill()
		_ = again.Wait()
	})
	select {
	case r := <-hq.results:
		if !strings.Contains(string(r.Error), string(protocol.CodeInterrupted)) {
			t.Errorf("answered %s %s", r.Outcome, r.Error)
		}
	case <-time.After(patience):
		t.Error("no answer after the restart")
	}
}

type hq struct {
	broker  *server.Server
	results chan protocol.Result
	// With identity on: the key that signs, and all that terminals said.
	signer *trust.Signer
	heard  chan server.Message
}

// plain is one listener without TLS.
func plain() server.Listeners {
	return server.Listeners{TCP: server.ListenerConfig{Address: "127.0.0.1:0"}}
}

// startHQ grants one task to whoever claims it.
func startHQ(t *testing.T, topics protocol.Topics, listeners server.Listeners, change ...func(*hq)) *hq {
	t.Helper()
	h := &hq{results: make(chan protocol.Result, 100), heard: make(chan server.Message, 1000)}
	for _, f := range change {
		f(h)
	}
	meta := stamp.New(time.Now, time.Time{}).Meta
	publish := func(topic string, retain bool, message any) {
		payload, err := protocol.Encode(message)
		out := server.Outgoing{Topic: topic, Payload: payload, Retain: retain}
		if h.signer != nil {
			out.Signature = h.signer.Sign(topic, payload)
		}
		if err == nil {
			err = h.broker.Publish(t.Context(), out)
		}
		if err != nil {
			t.Error(err)
		}
	}
	now := time.Now()
	offer := protocol.Offer{Meta: meta(), TypeVersion: 1, Attempts: 1,
		QueueDeadline: now.Add(time.Hour).UnixMilli(), Record: protocol.Record{TaskID: "of-the-program", ParentID: "run1", StoreID: "007",
			Type: "stubborn", Input: json.RawMessage(`{}`), Status: "PENDING", Deadline: now.Add(time.Minute).UnixMilli()}}
	intake := func(_ context.Context, m server.Message) error {
		h.heard <- m
		address, _ := topics.Parse(m.Topic)
		order := protocol.Order{Meta: meta()}
		switch address.Kind {
		case protocol.KindHello:
			var hello protocol.Hello
			if err := json.Unmarshal(m.Payload, &hello); err != nil {
				return err
			}
			order.Order, order.HelloID, order.ServerTimeMs = protocol.OrderSync, hello.ID, time.Now().UnixMilli()
			order.Open = []protocol.SyncTask{{TaskID: "of-the-program", Status: "PENDING"}}
		case protocol.KindClaim:
			order.Order, order.TaskID, order.Attempt = protocol.OrderGrant, "of-the-program", 1
			order.LeaseMs, order.RunTimeoutMs = 30_000, 60_000
			order.OfferSHA256 = offer.Hash()
		case protocol.KindResult:
			var r protocol.Result
			if err := json.Unmarshal(m.Payload, &r); err != nil {
				return err
			}
			h.results <- r
			return nil
		default:
			return nil
		}
		go publish(topics.Terminal(address.Store, address.Terminal, protocol.KindOrders), false, order)
		return nil
	}
	var err error
	h.broker, err = server.New(server.Config{Anonymous: true, Listeners: listeners},
		server.Options{Intake: intake, ManagedPresence: true, Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = h.broker.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		if err := h.broker.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	publish(topics.Offer("007", "of-the-program"), true, offer)
	return h
}
