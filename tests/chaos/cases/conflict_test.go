package cases_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"muster/internal/protocol"
	"muster/internal/trust"
	"muster/tests/chaos/site"
	"muster/tests/fleet"
	"muster/tests/programs"
)

// contested is a headquarters with an identity and one agent, over a broker on
// which others may publish in headquarters' place.
type contested struct {
	t      *testing.T
	dir    string
	addr   string // of the broker
	topics protocol.Topics
	eye    *fleet.Conn
	agent  *programs.Process

	mu  sync.Mutex
	got []fleet.Message
}

// newContested starts all of it. What the agent executes is marked with its
// input, and waits for the file gate.
func newContested(t *testing.T) *contested {
	t.Helper()
	mosquitto := programs.Installed(t, "mosquitto")
	topics, err := protocol.NewTopics(protocol.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	c := &contested{t: t, dir: filepath.Join(t.TempDir(), "hq"), addr: programs.FreeAddr(t), topics: topics}
	_, port, _ := net.SplitHostPort(c.addr)
	conf := filepath.Join(t.TempDir(), "mosquitto.conf")
	if err := os.WriteFile(conf, []byte("listener "+port+" 127.0.0.1\nallow_anonymous true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	programs.Launch(t, mosquitto, "-c", conf)
	programs.Eventually(t, "the broker", func() bool {
		c.eye, err = fleet.Dial(t.Context(), c.addr, fleet.Login{User: "eye"}, c.receive)
		return err == nil
	})
	t.Cleanup(c.eye.Close)
	if err := c.eye.Subscribe(t.Context(), topics.Root()+"/#"); err != nil {
		t.Fatal(err)
	}
	c.headquarters()
	c.terminal()
	return c
}

func (c *contested) receive(m fleet.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, m)
}

func (c *contested) headquarters() {
	h := &house{t: c.t, dir: c.dir}
	enrolment := programs.FreeAddr(c.t)
	c.program("dispatcher", "init", c.dir, "--host", "127.0.0.1", "--operator", "olga")
	h.write("stores.csv", "store_id,name,time_zone,labels\nA,门店 A,Asia/Shanghai,region=east\n")
	h.write("jobs/probe.yaml", `name: probe
version: 1
title: Probe
input_schema: in.json
output_schema: out.json
policy: {attempts: 2, run_timeout: 5m, lease: 1m, barrier: 1h, makeup: 1h, backlog: all, retry_first: 100ms}
`)
	h.write("jobs/in.json", `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`)
	h.write("jobs/out.json", `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object"}`)
	h.write("dispatcher.yaml", fmt.Sprintf(`data_folder: data
reports_folder: reports
stores_file: stores.csv
jobs_folder: jobs
identity: {folder: identity}
enrolment: {address: %[1]q, url: "https://%[1]s"}
transport: mqtt
mqtt: {url: "mqtt://%[2]s", trust_requests: true}
admission: {max_running: 1}
`, enrolment, c.addr))
	programs.Launch(c.t, filepath.Join(bin, "dispatcher"), "serve", "--config", filepath.Join(c.dir, "dispatcher.yaml")).AwaitOutput("headquarters is ready")
	var made struct {
		Token string `json:"token"`
	}
	out := c.program("dispatcher", "enroll", "A", "pos1", "--data", filepath.Join(c.dir, "data"), "--json")
	if err := json.Unmarshal([]byte(out), &made); err != nil {
		c.t.Fatalf("enroll said %q: %v", out, err)
	}
	c.program("edge-agent", "enroll", "--token", made.Token, "--headquarters", "https://"+enrolment, "--identity", c.path("terminal"))
}

func (c *contested) terminal() {
	h := &house{t: c.t, dir: c.dir}
	script := h.write("probe.sh", fmt.Sprintf("echo \"$MUSTER_TASK_ID $MUSTER_ATTEMPT $(cat)\" >> %q\nwhile [ -e \"$0\" ] && [ ! -e %q ]; do sleep 0.05; done\necho '{}'\n",
		c.path("markers"), c.path("gate")))
	config := h.write("edge-agent.yaml", fmt.Sprintf(`store: A
terminal: pos1
time_zone: Asia/Shanghai
work_folder: work
max_parallel: 4
identity: {folder: %q}
broker: {url: "mqtt://%s"}
executors:
  - {type: probe, version: 1, command: [sh, %q]}
`, c.path("terminal"), c.addr, script))
	c.agent = programs.Launch(c.t, filepath.Join(bin, "edge-agent"), "-config", config)
}

func (c *contested) path(name string) string { return filepath.Join(c.dir, name) }

func (c *contested) program(name string, args ...string) string {
	c.t.Helper()
	out, code := programs.Run(c.t, filepath.Join(bin, name), args...)
	if code != 0 {
		c.t.Fatalf("%s %q ends with %d: %s", name, args, code, out)
	}
	return out
}

// executed are the lines of what was executed: task, attempt and input.
func (c *contested) executed() []string {
	text, err := os.ReadFile(c.path("markers"))
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// heard waits for a message on a topic that matches, and returns its payload.
func (c *contested) heard(what, topic string, match func(payload string) bool) []byte {
	c.t.Helper()
	var found []byte
	programs.Eventually(c.t, what, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		i := slices.IndexFunc(c.got, func(m fleet.Message) bool { return m.Topic == topic && match(string(m.Payload)) })
		if i >= 0 {
			found = c.got[i].Payload
		}
		return i >= 0
	})
	return found
}

// order makes a run and returns its task's offer, once its claim came.
func (c *contested) order(id string) (offer protocol.Offer) {
	c.t.Helper()
	out := stock(c.t, c.addr, "mosquitto_rr", "wang", "-t", c.topics.Request("wang", protocol.VerbRun), "-e", c.topics.Replies("wang")+id, "-W", "60",
		"-m", fmt.Sprintf(`{"requestId":%q,"job":"probe","stores":["A"],"input":{"wanted":%q}}`, id, id))
	var reply protocol.Reply
	if err := json.Unmarshal([]byte(out), &reply); err != nil || !reply.OK {
		c.t.Fatalf("reply %q: %v", out, err)
	}
	task := ""
	programs.Eventually(c.t, "the offer of "+id, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return slices.ContainsFunc(c.got, func(m fleet.Message) bool {
			if json.Unmarshal(m.Payload, &offer) == nil && offer.ParentID == reply.RunID && m.Topic == c.topics.Offer("A", offer.TaskID) {
				task = offer.TaskID
			}
			return task != ""
		})
	})
	c.heard("the claim for "+id, c.topics.Terminal("A", "pos1", protocol.KindClaim), func(payload string) bool { return strings.Contains(payload, task) })
	return offer
}

// forge retains other content under a task's name, as somebody with all rights at
// the broker, signed with headquarters' own key or not at all. It returns the
// hash of it.
func (c *contested) forge(offer protocol.Offer, signed bool) string {
	c.t.Helper()
	offer.Input = json.RawMessage(`{"forged":true}`)
	payload, err := protocol.Encode(offer)
	if err != nil {
		c.t.Fatal(err)
	}
	topic := c.topics.Offer("A", offer.TaskID)
	args := []string{"-r", "-t", topic, "-m", string(payload)}
	if signed {
		keys, err := filepath.Glob(c.path("identity/signing/*.key"))
		if err != nil || len(keys) != 1 {
			c.t.Fatalf("keys %v, %v", keys, err)
		}
		signer, err := trust.DecodeSigner([]byte(readFile(c.t, keys[0])))
		if err != nil {
			c.t.Fatal(err)
		}
		signature := signer.Sign(topic, payload)
		args = append(args, "-D", "PUBLISH", "user-property", "kid", signature.KeyID, "-D", "PUBLISH", "user-property", "sig", signature.Value)
	}
	stock(c.t, c.addr, "mosquitto_pub", "somebody", args...)
	return offer.Hash()
}

// TestOtherContentUnderAKnownTaskRunsNothingAndAlarms: under the name of a task
// that the agent holds, and of one that it has done, the broker retains other
// content: signed with headquarters' own key, as after a restore, and unsigned.
// Nothing of it runs. The agent refuses what takes the place of a granted offer,
// headquarters says so to its operators, and the true offer runs in the end.
func TestOtherContentUnderAKnownTaskRunsNothingAndAlarms(t *testing.T) {
	t.Parallel()
	c := newContested(t)
	done, held := c.order("first"), c.order("second") // which waits for the only slot
	programs.Eventually(t, "the first execution", func() bool { return len(c.executed()) == 1 })
	forged := c.forge(held, true)
	c.forge(held, false) // refused at the door, so the signed one stays
	c.agent.AwaitOutput("reason=unsigned")
	if err := os.WriteFile(c.path("gate"), nil, 0o600); err != nil {
		t.Fatal(err)
	}

	orders, about := c.topics.Terminal("A", "pos1", protocol.KindOrders), func(task string, words ...string) func(string) bool {
		return func(payload string) bool {
			return strings.Contains(payload, task) && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(payload, w) })
		}
	}
	c.heard("the receipt of the first", orders, about(done.TaskID, `"receipt"`, `"accepted":true`))
	c.heard("the withdrawal of the first offer", c.topics.Offer("A", done.TaskID), func(payload string) bool { return payload == "" })
	c.forge(done, true)
	c.heard("the word that the first is over", orders, about(done.TaskID, `"deny"`, string(protocol.CodeSettled)))

	var refusal protocol.Result
	answer := c.heard("the agent's refusal", c.topics.Terminal("A", "pos1", protocol.KindResult), about(held.TaskID, forged))
	if err := json.Unmarshal(answer, &refusal); err != nil || refusal.Attempt != 1 || refusal.Executed || refusal.Error == nil ||
		!strings.Contains(string(refusal.Error), string(protocol.CodeRefused)) {
		t.Errorf("the agent refuses with %s: %v", answer, err)
	}
	c.heard("headquarters' word for it", orders, about(held.TaskID, `"receipt"`, `"accepted":false`, string(protocol.CodeWrongOffer)))
	var alarm protocol.Alarm
	said := c.heard("the alarm", c.topics.Alarm(protocol.SeverityCritical, "wrong_offer"), func(string) bool { return true })
	if err := json.Unmarshal(said, &alarm); err != nil || alarm.Recovered || !strings.HasPrefix(alarm.Message, "A/pos1: task "+held.TaskID+", attempt 1 of run "+held.ParentID+" at store A: ") ||
		!strings.Contains(alarm.Message, "executed nothing") || !strings.HasPrefix(alarm.MessageZh, "A/pos1：终端所持的任务内容与总部下发的不同：批次 "+held.ParentID+"，任务 "+held.TaskID) {
		t.Errorf("the alarm says %+v: %v", alarm, err)
	}
	c.heard("the receipt of the second", orders, about(held.TaskID, `"receipt"`, `"accepted":true`))
	want := []string{done.TaskID + ` 1 {"wanted":"first"}`, held.TaskID + ` 2 {"wanted":"second"}`}
	if got := c.executed(); !slices.Equal(got, want) {
		t.Errorf("executed %q", got)
	}
	if got := site.Rows(t, c.path("data"), `SELECT status, attempt FROM tasks ORDER BY task_id`); !slices.Equal(got, []string{"SUCCEEDED 1", "SUCCEEDED 2"}) {
		t.Errorf("tasks %q", got)
	}
}
