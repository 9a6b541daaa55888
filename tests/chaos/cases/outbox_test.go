package cases_test

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"muster/tests/chaos/history"
	"muster/tests/chaos/tap"
	"muster/tests/programs"
)

// TestAnOutboxOfHundredsOutlivesKills: the answers of one terminal get lost on
// their way, again and again, so that it keeps hundreds. It is killed while it makes
// them and while it sends them. In the end each is at headquarters, once, as it was
// made, and nothing was done twice.
func TestAnOutboxOfHundredsOutlivesKills(t *testing.T) {
	t.Parallel()
	tasks := full(250, 120) // at 256 an agent claims no more
	const parallel = 8
	h := newHouse(t, none(), []string{"A"})
	h.serve()
	for range tasks {
		h.run(`["A"]`)
	}
	addr, steals := thief(t, h.addr)
	marks := h.path("marks")
	script := h.write("work.sh", fmt.Sprintf("echo \"$MUSTER_TASK_ID $MUSTER_ATTEMPT\" >> %q\necho \"{\\\"value\\\":\\\"of $MUSTER_TASK_ID\\\"}\"\n", marks))
	config := h.write("agent/edge-agent.yaml", fmt.Sprintf(`store: A
terminal: pos1
time_zone: Asia/Shanghai
work_folder: work
max_parallel: %d
broker: {url: "mqtt://%s"}
executors:
  - {type: probe, version: 1, command: [sh, %q]}
log: {level: warn}
`, parallel, addr, script))
	start := func() *programs.Process {
		return programs.Launch(t, filepath.Join(bin, "edge-agent"), "-config", config)
	}
	kept := func() int {
		found, _ := filepath.Glob(filepath.Join(h.path("agent"), "work", "outbox", "*.answer"))
		return len(found)
	}
	agent, kills := start(), 0
	again := func(moment string, at func() bool) {
		t.Helper()
		programs.Eventually(t, moment, at)
		agent.Kill()
		t.Logf("killed with %d answers in the outbox", kept())
		kills++
		agent = start()
	}
	again("a third of the answers", func() bool { return kept() >= tasks/3 })
	again("two thirds of the answers", func() bool { return kept() >= 2*tasks/3 })
	programs.Eventually(t, "an answer to each task", func() bool { return kept() == tasks })
	if n := h.number(`SELECT count(*) FROM attempts WHERE received_at > 0`); n != 0 {
		t.Fatalf("%d answers were taken too early", n)
	}
	steals.Store(false)
	agent.Kill()
	agent = start()
	again("the first of the answers at headquarters", func() bool { return kept() < tasks-tasks/8 })
	programs.Eventually(t, "a receipt for each answer", func() bool { return kept() == 0 })

	h.none("the end of every task", `SELECT task_id FROM tasks WHERE settled_at = 0`)
	if n := h.number(`SELECT count(*) FROM attempts WHERE received_at > 0`); n != tasks {
		t.Errorf("%d answers of %d tasks", n, tasks)
	}
	if n := h.number(`SELECT count(*) FROM attempts WHERE answer = 'succeeded' AND result = '{"value":"of ' || task_id || '"}'`); n < tasks-kills*parallel {
		t.Errorf("%d answers are as they were made", n)
	}
	if other := h.rows(`SELECT task_id, answer, code FROM attempts WHERE answer <> 'succeeded' AND code <> 'INTERRUPTED'`); len(other) > 0 {
		t.Errorf("answers %q", other)
	}
	executed := map[string]bool{}
	for line := range strings.Lines(readFile(t, marks)) {
		if executed[line] {
			t.Errorf("executed twice: %s", line)
		}
		executed[line] = true
	}
}

// thief stands between an agent and its broker, and takes results away as long as
// it is said so: acknowledged, as by a broker that loses.
func thief(t *testing.T, broker string) (addr string, steals *atomic.Bool) {
	t.Helper()
	steals = &atomic.Bool{}
	steals.Store(true)
	record, err := history.Create(t.TempDir(), history.Participant{Who: "A/pos1", Role: history.RoleAgent, Store: "A", Terminal: "pos1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = record.Close() })
	relay := tap.Bent(record, func(m tap.Message) []tap.Passage {
		if m.Sent && strings.HasSuffix(m.Topic, "/result") && steals.Load() {
			return nil
		}
		return tap.Straight(m)
	})
	listen, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listen.Close(); relay.Close() })
	go func() {
		for {
			near, err := listen.Accept()
			if err != nil {
				return
			}
			if far, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", broker); err == nil {
				relay.Join(near, far)
			} else {
				_ = near.Close()
			}
		}
	}()
	return listen.Addr().String(), steals
}
