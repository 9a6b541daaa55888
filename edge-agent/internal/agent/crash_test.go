package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"muster/broker/server"
	"muster/edge-agent/internal/agent"
	"muster/edge-agent/internal/executor"
	"muster/edge-agent/internal/journal"
	"muster/edge-agent/internal/link"
	"muster/edge-agent/internal/outbox"
	"muster/edge-agent/internal/stamp"
	"muster/internal/protocol"
)

// The test binary also plays the agent's process, which is killed, and the
// program that the agent executes.
const (
	envRole   = "MUSTER_TEST_ROLE" // agent, program
	envFolder = "MUSTER_TEST_FOLDER"
	envBroker = "MUSTER_TEST_BROKER"
	envKillAt = "MUSTER_TEST_KILL_AT"
)

// patience bounds what must happen; it passes in full only in a failure.
const patience = 20 * time.Second

func TestMain(m *testing.M) {
	switch os.Getenv(envRole) {
	case "agent":
		exitWith(playAgent(os.Getenv(envFolder), os.Getenv(envBroker), os.Getenv(envKillAt)))
	case "program":
		exitWith(playProgram(os.Getenv(envFolder), os.Getenv(envKillAt)))
	}
	os.Exit(m.Run())
}

func exitWith(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// playProgram leaves its mark, and hangs with an open port when it is to be
// found in the middle of its work.
func playProgram(folder, killAt string) error {
	f, err := os.OpenFile(filepath.Join(folder, "marks"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s/%s\n", os.Getenv(executor.EnvTask), os.Getenv(executor.EnvAttempt))
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if killAt == "middle" && os.Getenv(executor.EnvAttempt) == "1" {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		temp := filepath.Join(folder, "port.new")
		if err := os.WriteFile(temp, []byte(listener.Addr().String()), 0o600); err != nil {
			return err
		}
		if err := os.Rename(temp, filepath.Join(folder, "port")); err != nil {
			return err
		}
		for { // until killed
			if conn, err := listener.Accept(); err == nil {
				_ = conn.Close()
			}
		}
	}
	fmt.Println(`{"done":true}`)
	return nil
}

// killer ends its own process the hard way, once in the life of a folder.
type killer struct{ folder, at string }

func (k killer) reached(point string) {
	if k.at != point {
		return
	}
	f, err := os.OpenFile(filepath.Join(k.folder, "killed"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return // that was in an earlier life
	}
	_ = f.Close()
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	panic(fmt.Sprintf("still alive: %v", err))
}

func (k killer) wrap(inner executor.Executor) executor.Executor {
	return executorFunc(func(ctx context.Context, o executor.Order) (executor.Output, error) {
		k.reached("intent")
		if k.at == "middle" {
			go func() {
				for ctx.Err() == nil {
					if _, err := os.Stat(filepath.Join(k.folder, "port")); err == nil {
						k.reached("middle")
						return
					}
					time.Sleep(time.Millisecond)
				}
			}()
		}
		out, err := inner.Run(ctx, o)
		k.reached("effect")
		return out, err
	})
}

// killingSender dies with the answer on disk, before or after it is sent.
type killingSender struct {
	*link.Link
	killer
}

func (s killingSender) Send(kind protocol.Kind, payload []byte) bool {
	if kind == protocol.KindResult {
		s.reached("outbox")
	}
	sent := s.Link.Send(kind, payload)
	if kind == protocol.KindResult && s.at == "sent" {
		time.Sleep(100 * time.Millisecond) // let it leave
		s.reached("sent")
	}
	return sent
}

func playAgent(folder, broker, killAt string) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	lock, err := journal.Acquire(folder, time.Now())
	if err != nil {
		return err
	}
	book, err := journal.Open(folder, time.Now, log)
	if err != nil {
		return err
	}
	box, err := outbox.Open(filepath.Join(folder, "outbox"), log)
	if err != nil {
		return err
	}
	topics, err := protocol.NewTopics(protocol.DefaultRoot)
	if err != nil {
		return err
	}
	if err := os.Setenv(envRole, "program"); err != nil {
		return err
	}
	k := killer{folder: folder, at: killAt}
	a := agent.New(agent.Config{StoreID: storeID, TerminalID: terminalID, Topics: topics, MaxParallel: 1,
		Jobs:    executor.Registry{{Type: "count", Version: 1}: k.wrap(executor.Program{Argv: []string{os.Args[0]}})},
		Measure: func() protocol.Condition { return protocol.Condition{} },
		Journal: book, Outbox: box, Stamp: stamp.New(time.Now, book.LastWrite()), Logger: log})
	l := link.New(link.Config{Broker: &url.URL{Scheme: "mqtt", Host: broker}, Store: storeID, Terminal: terminalID,
		User: storeID + "/" + terminalID, Topics: topics, Logger: log}, a)
	go l.Run(context.Background())
	a.Run(context.Background(), killingSender{l, k})
	return lock.Release()
}

// TestKilledAgentRunsOnceAndAnswersOnce kills -9 the agent's process at each
// point where something could be done twice or lost.
func TestKilledAgentRunsOnceAndAnswersOnce(t *testing.T) {
	for point, want := range map[string]struct {
		outcome protocol.Answer
		marks   []string
	}{
		"intent": {protocol.AnswerFailed, nil}, // journalled, not started
		"middle": {protocol.AnswerFailed, []string{"middle/1"}},
		"effect": {protocol.AnswerFailed, []string{"effect/1"}}, // done, result not stored
		"outbox": {protocol.AnswerSucceeded, []string{"outbox/1"}},
		"sent":   {protocol.AnswerSucceeded, []string{"sent/1"}},
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			hq := newRealHQ(t, point) // the task is named as the point
			folder := t.TempDir()
			first := hq.boot(folder, point)
			if err := first.Wait(); err == nil {
				t.Fatal("the agent was not killed")
			}
			hq.receipts.Store(true)
			hq.boot(folder, point)
			r := hq.waitResult()
			if r.Outcome != want.outcome || r.Attempt != 1 {
				t.Errorf("answered %s with %s", r.Outcome, r.Error)
			}
			if r.Outcome == protocol.AnswerFailed {
				if f := decode[protocol.Failure](t, r.Error); f.Code != protocol.CodeInterrupted {
					t.Errorf("failed with %+v", f)
				}
			}
			hq.waitSettled(folder)
			b := bench{t: t, folder: folder}
			b.wantMarks(want.marks...)
			if point == "middle" {
				port, err := os.ReadFile(filepath.Join(folder, "port"))
				if err != nil {
					t.Fatal(err)
				}
				if conn, err := net.Dial("tcp", string(port)); err == nil {
					_ = conn.Close()
					t.Error("the program outlived its agent")
				}
			}
		})
	}
}

// realHQ is a scripted headquarters on a real broker: one task, granted to
// whoever claims it, receipted when answered.
type realHQ struct {
	t       *testing.T
	broker  *server.Server
	topics  protocol.Topics
	results chan protocol.Result
	taskID  string
	// receipts are given from when this is set.
	receipts atomic.Bool
}

func newRealHQ(t *testing.T, taskID string) *realHQ {
	hq := &realHQ{t: t, taskID: taskID, topics: topics(t), results: make(chan protocol.Result, 100)}
	var err error
	hq.broker, err = server.New(server.Config{Listeners: server.Listeners{TCP: server.ListenerConfig{Address: "127.0.0.1:0"}},
		Anonymous: true}, server.Options{Intake: hq.intake, ManagedPresence: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := hq.broker.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		if err := hq.broker.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	now := time.Now()
	hq.publish(hq.topics.Offer(storeID, taskID), true, protocol.Offer{Meta: meta(), TypeVersion: 1, Attempts: 1,
		QueueDeadline: now.Add(time.Hour).UnixMilli(), Record: protocol.Record{TaskID: taskID, ParentID: "run1", StoreID: storeID,
			Type: "count", Input: json.RawMessage(`{}`), Deadline: now.Add(time.Minute).UnixMilli()}})
	return hq
}

func meta() protocol.Meta {
	return stamp.New(time.Now, time.Time{}).Meta()
}

func (hq *realHQ) publish(topic string, retain bool, message any) {
	payload, err := protocol.Encode(message)
	if err == nil {
		err = hq.broker.Publish(context.Background(), server.Outgoing{Topic: topic, Payload: payload, Retain: retain})
	}
	if err != nil {
		hq.t.Error(err)
	}
}

func (hq *realHQ) order(o protocol.Order) {
	o.Meta = meta()
	// Not from within the intake: the client's goroutine is in it.
	go hq.publish(hq.topics.Terminal(storeID, terminalID, protocol.KindOrders), false, o)
}

func (hq *realHQ) intake(_ context.Context, m server.Message) error {
	address, ok := hq.topics.Parse(m.Topic)
	if !ok {
		return fmt.Errorf("foreign topic %s", m.Topic)
	}
	switch address.Kind {
	case protocol.KindHello:
		hello := decode[protocol.Hello](hq.t, m.Payload)
		hq.order(protocol.Order{Order: protocol.OrderSync, HelloID: hello.ID, ServerTimeMs: time.Now().UnixMilli(),
			Open: []protocol.SyncTask{pending(hq.taskID)}})
	case protocol.KindClaim:
		hq.order(protocol.Order{Order: protocol.OrderGrant, TaskID: hq.taskID, Attempt: 1, LeaseMs: 30_000, RunTimeoutMs: 30_000})
	case protocol.KindResult:
		r := decode[protocol.Result](hq.t, m.Payload)
		hq.results <- r
		if accepted := true; hq.receipts.Load() {
			hq.order(protocol.Order{Order: protocol.OrderReceipt, TaskID: hq.taskID, Attempt: 1, SHA256: r.SHA256, Accepted: &accepted})
		}
	default:
	}
	return nil
}

// boot starts the agent's process; it ends with the test.
func (hq *realHQ) boot(folder, killAt string) *exec.Cmd {
	hq.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envRole+"=agent", envFolder+"="+folder,
		envBroker+"="+hq.broker.Addr("tcp").String(), envKillAt+"="+killAt)
	if testing.Verbose() {
		cmd.Stderr = os.Stderr
	}
	if err := cmd.Start(); err != nil {
		hq.t.Fatal(err)
	}
	hq.t.Cleanup(func() {
		// It may be gone already.
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// waitResult waits for an answer; copies of it must be the same.
func (hq *realHQ) waitResult() protocol.Result {
	hq.t.Helper()
	var all []protocol.Result
	timeout := time.After(patience)
	select {
	case r := <-hq.results:
		all = append(all, r)
	case <-timeout:
		hq.t.Fatal("no answer")
	}
	for len(hq.results) > 0 {
		all = append(all, <-hq.results)
	}
	if slices.ContainsFunc(all, func(r protocol.Result) bool { return r.SHA256 != all[0].SHA256 }) {
		hq.t.Errorf("answers that differ: %+v", all)
	}
	return all[0]
}

// waitSettled waits until the agent obeyed the receipt.
func (hq *realHQ) waitSettled(folder string) {
	hq.t.Helper()
	b := bench{t: hq.t, folder: folder}
	for deadline := time.Now().Add(patience); b.answers() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			hq.t.Fatal("the answer is kept in spite of its receipt")
		}
	}
}
