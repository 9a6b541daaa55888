package links_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
	"muster/tests/chaos/site"
	"muster/tests/programs"
)

// TestABrokerMayForgetEverything (I10): the broker alone is killed and started
// again while runs go on. It comes back without a single retained message, and
// every offer is there again.
func TestABrokerMayForgetEverything(t *testing.T) {
	t.Parallel()
	for name, command := range map[string]func(*testing.T, *site.Site) []string{"ours": ours, "mosquitto": mosquitto} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newForgetful(t, command)
			f.Open("A")
			f.Open("C")
			f.Agent("A")
			f.Agent("B") // its gate stays shut: its task is open to the end
			first := f.order("r1", 8, "A", "B", "C")
			f.Executed("A", 1)
			f.Executed("B", 1)
			f.forget(0)
			f.Agent("C") // it can have its offer from the new broker alone
			f.Executed("C", 1)
			f.order("r2", 8, "A", "C", "D")
			f.forget(500 * time.Millisecond)
			if programs.Full() {
				for n := range 4 {
					f.order(fmt.Sprintf("more%d", n), 6, "A", "C")
					f.forget(time.Second)
				}
			}
			if again := f.order("r1", 8, "A", "B", "C"); again != first {
				t.Errorf("the same request is run %s and run %s", first, again)
			}
			f.Open("D")
			f.Agent("D")
			f.Executed("D", 1)
			f.Offered("A", "B", "C", "D")
			f.Open("B")
			f.allSucceed()
			f.judgeAll(nil)
		})
	}
}

// forgetful is a site whose broker runs apart.
type forgetful struct {
	bench
	command []string
	broker  *programs.Process
}

func newForgetful(t *testing.T, command func(*testing.T, *site.Site) []string) *forgetful {
	t.Helper()
	address := programs.FreeAddr(t)
	f := &forgetful{bench: bench{t: t}}
	f.Site = site.New(t, bin, site.Config{Policy: patient, Work: site.AwaitGate, Claims: site.Executed("I2 events", "I10 offers"),
		Headquarters: fmt.Sprintf("transport: mqtt\nmqtt: {url: \"mqtt://%s\"}\n", address),
		Limits:       checker.Limits{MaxRunning: 4, GrantsPerSecond: 20, GrantBurst: 5, Settle: 5 * time.Second, Reoffer: 10 * time.Second}},
		"A", "B", "C", "D")
	f.Addr = address
	f.wang, f.eye = f.Writer(site.Wang), f.Writer(site.Watch)
	f.command = command(t, f.Site)
	f.broker = f.start()
	f.Serve()
	f.Watch(f.eye)
	return f
}

func ours(_ *testing.T, s *site.Site) []string {
	return []string{program("broker"), "-config", s.Write("broker.yaml", fmt.Sprintf("broker:\n  listeners: {tcp: {address: %q}}\n  anonymous: true\n", s.Addr))}
}

func mosquitto(t *testing.T, s *site.Site) []string {
	t.Helper()
	_, port, _ := net.SplitHostPort(s.Addr)
	return []string{programs.Installed(t, "mosquitto"), "-c", s.Write("mosquitto.conf", fmt.Sprintf("listener %s 127.0.0.1\nallow_anonymous true\nmax_inflight_messages 0\nmax_queued_messages 0\n", port))}
}

func (f *forgetful) start() *programs.Process {
	f.t.Helper()
	broker := programs.Launch(f.t, f.command[0], f.command[1:]...)
	programs.Eventually(f.t, "the broker", func() bool {
		conn, err := (&net.Dialer{}).DialContext(f.t.Context(), "tcp", f.Addr)
		return err == nil && conn.Close() == nil
	})
	return broker
}

// forget kills the broker, lets it be away for a time, and waits until
// headquarters and store B, whose task is open, are as if nothing had been.
func (f *forgetful) forget(away time.Duration) {
	f.t.Helper()
	back := func() int { return strings.Count(f.HQ.Output(), "connected to the broker") }
	before, had := back(), f.seen("B", history.ActConnected, "")
	if err := f.eye.Fault("broker", true); err != nil {
		f.t.Fatal(err)
	}
	f.broker.Kill()
	play(away, nil)
	f.broker = f.start()
	if err := f.eye.Fault("broker", false); err != nil {
		f.t.Fatal(err)
	}
	programs.Eventually(f.t, "headquarters at the new broker", func() bool { return back() > before })
	f.Watch(f.eye)
	programs.Seldom(f.t, "the open offer from a broker that had forgotten it", func() bool {
		return f.seen("B", history.ActConnected, "") > had && f.reoffered("B")
	})
}
