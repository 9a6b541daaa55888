package app_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/broker/server"
	"muster/edge-agent/app"
	"muster/edge-agent/internal/hqtest"
	"muster/edge-agent/internal/identity"
	"muster/internal/doctor"
	"muster/internal/trust"
)

// TestDoctorSaysWhetherTheBrokerTakesTheCertificate looks at three terminals before a
// real broker with a list of revoked certificates.
func TestDoctorSaysWhetherTheBrokerTakesTheCertificate(t *testing.T) {
	t.Parallel()
	authority, folder := hqtest.New(t), t.TempDir()
	taken, revoked := authority.Enrolled("007", "pos-1"), authority.Enrolled("007", "pos-2")
	id, err := identity.Open(revoked, "007", "pos-2", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	crl := filepath.Join(folder, "crl.pem")
	paths := authority.Files(authority.Server(time.Now().Add(-time.Hour), time.Now().Add(time.Hour)), folder)
	if err := trust.WritePrivate(crl, authority.Revoke(id.Certificate().Leaf)); err != nil {
		t.Fatal(err)
	}
	broker, err := server.New(server.Config{Anonymous: true, Listeners: server.Listeners{TLS: server.ListenerConfig{Address: "127.0.0.1:0",
		CertFile: paths.Certificate, KeyFile: paths.Key, ClientCAFile: paths.Authority, CRLFile: crl}}},
		server.Options{Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = broker.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = broker.Stop(t.Context()) })
	for _, c := range []struct {
		terminal, identity string
		state              doctor.State
		text               string
	}{
		{"pos-1", fmt.Sprintf("folder: %q", taken), doctor.Well, "is reached and proven, and takes the certificate"},
		{"pos-2", fmt.Sprintf("folder: %q", revoked), doctor.Ill, "is reached and proven, but turns this terminal away: the certificate is revoked"},
		{"pos-3", "folder: none, headquarters: \"https://localhost:1\", token_file: token", doctor.Unseen, "this terminal is not enrolled yet"},
	} {
		path := filepath.Join(folder, c.terminal+".yaml")
		text := fmt.Sprintf("store: \"007\"\nterminal: %s\nidentity: {%s}\nbroker: {url: \"mqtts://%s\"}\n", c.terminal, c.identity, broker.Addr("tls"))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := app.Load(path, app.Overrides{})
		if err != nil {
			t.Fatal(err)
		}
		all := doctor.Run(t.Context(), app.Checks(cfg, path, nil, nil)).Findings
		if found := all[len(all)-1]; found.Check != "broker" || found.State != c.state || !strings.Contains(found.Text, c.text) || (found.Mend != "") != (c.state == doctor.Ill) {
			t.Errorf("%s: %+v, want %s: %s", c.terminal, found, c.state, c.text)
		}
	}
}
