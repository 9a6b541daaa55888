package app_test

import (
	"context"
	"testing"
	"time"

	"muster/broker/server"
	"muster/dispatcher/config"
	"muster/internal/protocol"
	"muster/tests/fleet"
	"muster/tests/programs"
)

// startBroker starts a broker of our own beside headquarters and returns its
// address.
func startBroker(t *testing.T) string {
	t.Helper()
	return brokerAt(t, "127.0.0.1:0").Addr("tcp").String()
}

func brokerAt(t *testing.T, addr string) *server.Server {
	t.Helper()
	cfg := server.DefaultConfig()
	cfg.Listeners.TCP.Address, cfg.Anonymous = addr, true
	broker, err := server.New(cfg, server.Options{Logger: logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := broker.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopBroker(t, broker) })
	return broker
}

func stopBroker(t *testing.T, broker *server.Server) {
	t.Helper()
	if err := broker.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}

// Invariant I10: the broker keeps nothing, and nothing is missed.
func TestTheBrokerMayLoseEverything(t *testing.T) {
	t.Parallel()
	addr := programs.FreeAddr(t)
	broker := brokerAt(t, addr)
	hq := setup(t, config.TransportMQTT, []string{"A", "B"}, func(cfg *config.Config) { cfg.MQTT.URL = "mqtt://" + addr })
	run := hq.technician("wang").run(`{"job":"probe","stores":"all"}`)
	stopBroker(t, broker)
	brokerAt(t, addr)
	offered := make(chan string, 16) // to a terminal that says nothing
	silent, err := fleet.Dial(t.Context(), addr, fleet.Login{User: "A/pos2"}, func(m fleet.Message) { offered <- m.Topic })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(silent.Close)
	if err := silent.Subscribe(t.Context(), hq.topics.Offer("A", "+")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-offered:
	case <-time.After(patience):
		t.Fatal("the open offers did not come back by themselves")
	}
	hq.terminal("A", fleet.Options{Execute: value("1")})
	hq.terminal("B", fleet.Options{Execute: value("2")})
	if report := hq.report(hq.technician("wang").summary(run.RunID, 1)); report.Counts != (protocol.Counts{Succeeded: 2}) {
		t.Errorf("counts %+v", report.Counts)
	}
}
