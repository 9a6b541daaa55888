package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"muster/dispatcher/config"
	"muster/dispatcher/internal/identity"
	"muster/internal/trust"
)

// TestABrokerApartHasWhatItNeedsAndNoMore: certificates and revocations, as they
// change, and none of the keys that speak for headquarters.
func TestABrokerApartHasWhatItNeedsAndNoMore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	from, to := filepath.Join(dir, "identity"), filepath.Join(dir, "broker")
	if err := identity.Create(from, []string{"127.0.0.1"}, time.Now()); err != nil {
		t.Fatal(err)
	}
	setup(t, config.TransportMQTT, []string{"A"}, func(cfg *config.Config) {
		cfg.Identity.Folder, cfg.Identity.BrokerFolder = from, to
	})
	same := func(name string) bool {
		want, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		has, err := os.ReadFile(filepath.Join(to, name))
		return err == nil && bytes.Equal(has, want)
	}
	names := []string{"ca.crt", "broker.crt", "broker.key", "crl.pem"}
	for _, name := range names {
		if !same(name) {
			t.Errorf("%s is not there at the start", name)
		}
	}
	if entries, err := os.ReadDir(to); err != nil || len(entries) != len(names) {
		t.Errorf("the broker sees %v, %v", entries, err)
	}
	if err := trust.CheckPrivate(filepath.Join(to, "broker.key")); err != nil {
		t.Error(err)
	}
	id, err := identity.Open(from, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := id.WriteCRL([]identity.Revoked{{Serial: "1f", At: time.Now()}}, time.Now()); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); !same("crl.pem"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the broker is not told of a revocation")
		}
	}
}

// TestHeadquartersStartsWhileTheBrokersFilesCannotBeReplaced: as when the disk is
// full. The broker has those of an earlier start, and the new ones once there is room.
func TestHeadquartersStartsWhileTheBrokersFilesCannotBeReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	from, to := filepath.Join(dir, "identity"), filepath.Join(dir, "broker")
	if err := identity.Create(from, []string{"127.0.0.1"}, time.Now()); err != nil {
		t.Fatal(err)
	}
	inTheWay := filepath.Join(to, "ca.crt", "not empty")
	if err := os.MkdirAll(inTheWay, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"broker.crt", "broker.key", "crl.pem"} {
		if err := os.WriteFile(filepath.Join(to, name), []byte("of an earlier start"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	setup(t, config.TransportMQTT, []string{"A"}, func(cfg *config.Config) {
		cfg.Identity.Folder, cfg.Identity.BrokerFolder = from, to
	})
	if err := os.RemoveAll(filepath.Dir(inTheWay)); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(filepath.Join(from, "crl.pem"))
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		if has, err := os.ReadFile(filepath.Join(to, "crl.pem")); err == nil && bytes.Equal(has, want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the broker keeps the old list of what is revoked")
		}
	}
}
