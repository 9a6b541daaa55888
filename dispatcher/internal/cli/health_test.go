package cli_test

import (
	"strings"
	"testing"

	"muster/broker/server"
)

func TestHealthAsksHeadquarters(t *testing.T) {
	t.Parallel()
	hq := setup(t)
	for _, args := range [][]string{{"health"}, {"health", "--broker-only"}} {
		if out, errs, code := hq.shell(args...); code != 0 || out+errs != "" {
			t.Errorf("%v: code %d, %q, %q; want 0 and not a word", args, code, out, errs)
		}
	}
}

// TestHealthTellsBrokerFromHeadquarters: a broker that runs alone answers for
// itself and not for a headquarters that is not there.
func TestHealthTellsBrokerFromHeadquarters(t *testing.T) {
	t.Parallel()
	cfg := server.DefaultConfig()
	cfg.Anonymous, cfg.UsersFile = true, ""
	cfg.Listeners.TCP.Address = "127.0.0.1:0"
	broker, err := server.New(cfg, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := broker.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	address := "mqtt://" + broker.Addr("tcp").String()
	if out, errs, code := shell(t.Context(), t, "", "health", "--broker-only", "--broker", address); code != 0 {
		t.Errorf("the broker alone: code %d, %q, %q; want 0", code, out, errs)
	}
	_, errs, code := shell(t.Context(), t, "", "health", "--broker", address, "--timeout", "300ms")
	if code != 5 || !strings.Contains(errs, "no answer from headquarters") {
		t.Errorf("no headquarters: code %d, %q; want 5 and that nobody answers", code, errs)
	}
	if err := broker.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, errs, code = shell(t.Context(), t, "", "health", "--broker-only", "--broker", address, "--timeout", "300ms")
	if code != 5 || !strings.Contains(errs, "cannot be reached") {
		t.Errorf("no broker: code %d, %q; want 5 and that it cannot be reached", code, errs)
	}
}
