package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/internal/protocol"
	"muster/internal/task"
	"muster/tests/fleet"
	"muster/tests/programs"
)

// TestKillDuringFanOutLeavesAllTasksOrNone kills the real headquarters at some
// moment between the request for 50,000 stores and its last offer, several
// times over. The technician who sends the same request again is told of one
// run with every task, whether it was there already or not, and the offers come
// again.
func TestKillDuringFanOutLeavesAllTasksOrNone(t *testing.T) { // I4
	if testing.Short() {
		t.Skip("it creates 50,000 tasks several times")
	}
	t.Parallel()
	const stores = 50_000
	s := newSite(t, nil, "")
	var register strings.Builder
	register.WriteString("store_id,name,time_zone,labels\n")
	for i := range stores {
		fmt.Fprintf(&register, "S%05d,S,Asia/Shanghai,\n", i)
	}
	s.write("stores.csv", register.String())
	s.serve()
	created := 0
	const rounds = 5
	for round := range rounds {
		user := fmt.Sprintf("u%d", round)
		request := []byte(`{"requestId":"big","job":"probe","stores":"all","barrierSeconds":3600}`)
		conn, err := fleet.Dial(t.Context(), s.addr, fleet.Login{User: user}, func(fleet.Message) {})
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Publish("muster/v1/req/"+user+"/run", request); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Duration(rand.IntN(1500)) * time.Millisecond) // when, not whether: the kill is the event
		s.hq.Kill()
		conn.Close()
		s.serve()
		reply, err := s.asks(user, "", "run", string(request))
		if err != nil || !reply.OK || reply.Stores != stores || reply.Duplicate == nil {
			t.Fatalf("round %d: reply %+v, %v", round, reply, err)
		}
		if *reply.Duplicate {
			created++
		}
		status, err := s.asks(user, "", "status", fmt.Sprintf(`{"runId":%q}`, reply.RunID))
		if err != nil || status.State == nil || status.State.Targets != stores || status.State.Tasks[task.Pending] != stores {
			t.Fatalf("round %d: status %+v, %v", round, status.State, err)
		}
	}
	t.Logf("%d of %d runs were there when headquarters came back", created, rounds)
	s.offered(fmt.Sprintf("S%05d", stores-1), rounds)
	s.hq.Terminate()
	s.serve()
	s.offered("S00000", rounds)
}

// offered waits until a terminal that subscribes is given the offers of its
// store, one of each run.
func (s *site) offered(store string, runs int) {
	s.t.Helper()
	programs.Eventually(s.t, fmt.Sprintf("%d offers for store %s", runs, store), func() bool {
		got := make(chan string, 10*runs)
		conn, err := fleet.Dial(s.t.Context(), s.addr, fleet.Login{User: store + "/pos1"}, func(m fleet.Message) {
			if len(m.Payload) > 0 {
				got <- filepath.Base(m.Topic)
			}
		})
		if err != nil {
			return false
		}
		defer conn.Close()
		if err := conn.Subscribe(s.t.Context(), "muster/v1/stores/"+store+"/tasks/+"); err != nil {
			return false
		}
		tasks := map[string]bool{}
		for deadline := time.After(time.Second); len(tasks) < runs; {
			select {
			case id := <-got:
				tasks[id] = true
			case <-deadline:
				return false
			}
		}
		return true
	})
}

// TestRetainedTriggerIsRefusedClearedAndWarnedOfOverEveryBroker: a request with
// the retain flag would come again with every start.
func TestRetainedTriggerIsRefusedClearedAndWarnedOfOverEveryBroker(t *testing.T) {
	t.Parallel()
	for name, start := range brokers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, []string{"A"}, start(t))
			s.serve()
			const topic = "muster/v1/req/wang/run"
			s.mosquitto("pub", "-u", "wang", "-q", "1", "-r", "-t", topic, "-m", `{"job":"probe","stores":"all","barrierSeconds":1}`)
			s.hq.AwaitOutput("retained request refused and cleared")
			s.hq.Terminate()
			if name != "embedded" { // while nobody is there to refuse it
				s.mosquitto("pub", "-u", "dispatcher", "-i", "sender", "-q", "1", "-r", "-t", topic, "-m", `{"job":"probe","stores":"all","barrierSeconds":1}`)
			}
			s.serve()
			if name != "embedded" {
				s.hq.AwaitOutput("retained request refused and cleared")
			}
			s.hq.Terminate()
			s.serve()
			reply := s.ask("run", `{"requestId":"after","job":"probe","stores":"all","barrierSeconds":1}`)
			s.report(reply.RunID, 1)
			if manifests := s.manifests("*"); len(manifests) != 1 {
				t.Errorf("reports %v", manifests)
			}
			if name == "embedded" {
				return // requests cannot be read there by anybody
			}
			kept := make(chan fleet.Message, 1)
			conn, err := fleet.Dial(t.Context(), s.addr, fleet.Login{User: "dispatcher", ClientID: "reader"}, func(m fleet.Message) { kept <- m })
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.Subscribe(t.Context(), topic); err != nil {
				t.Fatal(err)
			}
			select {
			case m := <-kept:
				t.Errorf("the broker still keeps %s", m.Payload)
			case <-time.After(200 * time.Millisecond): // a retained message follows the SUBACK at once
			}
		})
	}
}

// TestOversizeRequestsAreAnswered: a payload beyond what headquarters takes,
// and yet within what the broker passes, gets its refusal over every broker.
// One that the broker does not read to its end can have none, so the log has it.
func TestOversizeRequestsAreAnswered(t *testing.T) {
	t.Parallel()
	for name, start := range brokers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, []string{"A"}, start(t))
			s.serve()
			big := `{"job":"probe","stores":"all","reason":"` + strings.Repeat("x", protocol.MaxPayloadBytes) + `"}`
			replies := make(chan protocol.Reply, 10)
			conn, err := fleet.Dial(t.Context(), s.addr, fleet.Login{User: "li"}, func(m fleet.Message) {
				var reply protocol.Reply
				if protocol.Decode(m.Payload, protocol.MaxPayloadBytes, &reply) == nil {
					replies <- reply
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.Subscribe(t.Context(), "muster/v1/rep/li/#"); err != nil {
				t.Fatal(err)
			}
			for payload, code := range map[string]protocol.Code{big: protocol.CodeTooLarge, "": protocol.CodeEmptyPayload,
				"\xff\xfe{\x00}\x00": protocol.CodeBadJSON, strings.Repeat("[", 10_000): protocol.CodeBadJSON} {
				if err := conn.Publish("muster/v1/req/li/run", []byte(payload)); err != nil {
					t.Fatal(err)
				}
				select {
				case r := <-replies:
					if r.OK || r.Code != code || r.Message == "" || r.MessageZh == "" || r.Hint == "" {
						t.Errorf("%.20q: reply %+v", payload, r)
					}
				case <-time.After(programs.Patience):
					t.Fatalf("%.20q: no reply", payload)
				}
			}
			if name == "embedded" {
				_ = conn.Publish("muster/v1/req/li/run", make([]byte, 2<<20)) // refused before it is written to its end
				s.hq.AwaitOutput("level=INFO msg=\"connection ended\" user=li")
				s.hq.AwaitOutput("packet too large")
			}
		})
	}
}
