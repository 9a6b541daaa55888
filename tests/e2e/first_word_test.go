package e2e_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/internal/protocol"
	"muster/tests/programs"
)

// external is a broker beside headquarters that can be killed and started
// again at the same address, with nothing remembered.
type external struct {
	t     *testing.T
	addr  string
	name  string
	args  []string
	ready string
	proc  *programs.Process
}

// externals names every broker beside headquarters; each is not yet started.
func externals() map[string]func(t *testing.T) *external {
	return map[string]func(t *testing.T) *external{
		"stand-alone": func(t *testing.T) *external {
			t.Helper()
			e := &external{t: t, addr: programs.FreeAddr(t), name: filepath.Join(bin, "broker"), ready: "broker listens"}
			e.args = []string{"-config", e.write("broker.yaml", fmt.Sprintf("broker:\n  listeners: {tcp: {address: %q}}\n  anonymous: true\n", e.addr))}
			return e
		},
		"mosquitto": func(t *testing.T) *external {
			t.Helper()
			e := &external{t: t, addr: programs.FreeAddr(t), name: programs.Installed(t, "mosquitto"), ready: "running"}
			_, port, _ := net.SplitHostPort(e.addr)
			e.args = []string{"-c", e.write("mosquitto.conf",
				fmt.Sprintf("listener %s 127.0.0.1\nallow_anonymous true\nmax_inflight_messages 0\nmax_queued_messages 0\n", port))}
			return e
		},
	}
}

func (e *external) write(name, text string) string {
	e.t.Helper()
	path := filepath.Join(e.t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		e.t.Fatal(err)
	}
	return path
}

func (e *external) start() {
	e.t.Helper()
	e.proc = programs.Launch(e.t, e.name, e.args...)
	e.proc.AwaitOutput(e.ready)
}

// quickProbe is an executor of the job probe that answers at once.
func quickProbe(s *site) string {
	script := s.write("quick.sh", "echo '{\"marker\":\"done\"}'\n")
	return fmt.Sprintf("executors:\n  - type: probe\n    version: 1\n    command: [sh, %q]\n", script)
}

// settles orders a run over all stores and returns how long it took to be
// settled by every one of them.
func (s *site) settles(stores int) time.Duration {
	s.t.Helper()
	began := time.Now()
	reply := s.ask("run", `{"job":"probe","stores":"all","barrierSeconds":55}`)
	if !reply.OK {
		s.t.Fatalf("reply %+v", reply)
	}
	report, _ := s.report(reply.RunID, 1)
	took := time.Since(began)
	if report.Counts != (protocol.Counts{Succeeded: stores}) {
		s.t.Errorf("counts %+v after %v", report.Counts, took)
	}
	return took
}

// soon bounds a run that nothing but the first words hold up. Without anybody
// repeating them it takes 15 to 30 s.
const soon = 10 * time.Second

var trio = []string{"A", "B", "C"}

// TestAgentsThatWereThereFirstAreReachedSoon starts headquarters right behind
// the agents' first hello, which it misses, and in the middle of their longest
// pause between two hellos, 15 to 30 s.
func TestAgentsThatWereThereFirstAreReachedSoon(t *testing.T) {
	t.Parallel()
	for name, prepare := range externals() {
		for when, hellos := range map[string]int{"at once": 1, "much later": 5} {
			t.Run(name+" "+when, func(t *testing.T) {
				t.Parallel()
				broker := prepare(t)
				broker.start()
				s := newSite(t, trio, broker.addr)
				var agents []*programs.Process
				for _, store := range trio {
					agents = append(agents, s.agent(store, quickProbe(s)))
				}
				for _, a := range agents {
					a.AwaitOutput(fmt.Sprintf("unanswered=%d", hellos))
				}
				s.serve()
				if took := s.settles(len(trio)); took > soon {
					t.Errorf("settled after %v", took)
				}
			})
		}
	}
}

// TestARestartInAnyOrderIsSettledSoon kills the broker, headquarters and the
// agents and starts them again in every order. Whoever finds no broker tries
// again by itself.
func TestARestartInAnyOrderIsSettledSoon(t *testing.T) {
	t.Parallel()
	for name, prepare := range externals() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			broker := prepare(t)
			broker.start()
			s := newSite(t, trio, broker.addr)
			parts := parts{s: s, broker: broker, settings: quickProbe(s), agents: map[string]*programs.Process{}}
			parts.start("hq", "agents")
			for _, order := range []string{
				"hq", "agents", "broker", "hq agents", "agents hq", "broker hq", "broker agents",
				"broker hq agents", "broker agents hq", "agents broker hq", "agents hq broker",
			} {
				which := strings.Fields(order)
				parts.kill(which...)
				parts.start(which...)
				// Headquarters is there once its retained word is.
				s.mosquitto("sub", "-u", "wang", "-t", "muster/v1/info", "-C", "1")
				if took := s.settles(len(trio)); took > soon {
					t.Errorf("after %s anew: settled after %v", order, took)
				}
			}
		})
	}
}

// parts are the processes of one site.
type parts struct {
	s        *site
	broker   *external
	settings string
	agents   map[string]*programs.Process
}

func (p parts) kill(which ...string) {
	for _, name := range which {
		switch name {
		case "broker":
			p.broker.proc.Kill()
		case "hq":
			p.s.hq.Kill()
		case "agents":
			for _, agent := range p.agents {
				agent.Kill()
			}
		}
	}
}

// start starts what is named, in that order. Headquarters says that it is ready
// only over a broker, so nothing waits for that here.
func (p parts) start(which ...string) {
	for _, name := range which {
		switch name {
		case "broker":
			p.broker.start()
		case "hq":
			p.s.hq = programs.Launch(p.s.t, filepath.Join(bin, "dispatcher"), "serve", "--config", p.s.config)
		case "agents":
			for _, store := range trio {
				p.agents[store] = p.s.agent(store, p.settings)
			}
		}
	}
}
