package cli_test

import (
	"os"
	"path/filepath"
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

// TestARefusalProvesThatTheBrokerLives, to whoever does not say who they are: a
// health check then needs no password.
func TestARefusalProvesThatTheBrokerLives(t *testing.T) {
	t.Setenv("MUSTER_USER", "")
	users := filepath.Join(t.TempDir(), "users.yaml")
	if err := os.WriteFile(users, []byte("users: []\nterminals: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := server.DefaultConfig()
	cfg.UsersFile, cfg.Listeners.TCP.Address = users, "127.0.0.1:0"
	broker, err := server.New(cfg, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := broker.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	args := []string{"health", "--broker-only", "--broker", "mqtt://" + broker.Addr("tcp").String(), "--timeout", "3s"}
	if out, errs, code := shell(t.Context(), t, "", args...); code != 0 || out+errs != "" {
		t.Errorf("nobody: code %d, %q, %q; want 0 and not a word", code, out, errs)
	}
	if _, errs, code := shell(t.Context(), t, "", append(args, "--user", "wang")...); code != 2 || !strings.Contains(errs, "refuses user wang") {
		t.Errorf("wang: code %d, %q; want 2 and that they are refused", code, errs)
	}
	if err := broker.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := shell(t.Context(), t, "", append(args, "--timeout", "300ms")...); code != 5 || !strings.Contains(errs, "cannot be reached") {
		t.Errorf("stopped: code %d, %q; want 5 and that it cannot be reached", code, errs)
	}
}
