package storage_test

import (
	"fmt"
	"net"
	"path/filepath"
	"testing"

	"muster/tests/programs"
)

// However many connect, headquarters has files left for its database and its reports: a
// barrier closes in time, and its report is published.
func TestConnectionsTakeNoFileThatAReportNeeds(t *testing.T) {
	t.Parallel()
	const files = 160
	s := newHeadquarters(t, 20, 64)
	s.hq = programs.Launch(t, "/bin/sh", "-c", fmt.Sprintf("ulimit -n %d; exec %q serve --config %q", files, filepath.Join(bin, "dispatcher"), s.config))
	programs.Seldom(t, "headquarters", func() bool {
		_, code := dispatcher(t, "jobs", "--broker", "mqtt://"+s.addr, "--user", "ops", "--timeout", "2s")
		return code == 0
	})
	said, code := dispatcher(t, "run", "probe", "--stores", "all", "--barrier", "5s", "--json", "--broker", "mqtt://"+s.addr, "--user", "ops", "--timeout", "10s")
	if code != 0 {
		t.Fatal(said)
	}
	for i := range 2 * files {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_, _ = fmt.Fprintf(c, "\x10\x15\x00\x04MQTT\x04\x82\x00\x3c\x00\x03%03d\x00\x04crew", i) // or it is refused
	}
	programs.Seldom(t, "the report", func() bool {
		found, err := filepath.Glob(filepath.Join(s.dir, "reports", "*", "*", "*_manifest.json"))
		return err == nil && len(found) == 1
	})
	if said, code := dispatcher(t, "health", "--data", s.data); code != 0 || said != "" {
		t.Errorf("health ends with %d: %s", code, said)
	}
}
