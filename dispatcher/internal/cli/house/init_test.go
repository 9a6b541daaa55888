package house_test

import (
	"context"
	"encoding/json"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"muster/broker/server"
	"muster/broker/server/users"
	"muster/dispatcher/internal/cli/house"
	"muster/dispatcher/internal/cli/screen"
	"muster/dispatcher/internal/identity"
	"muster/internal/settings"
	"muster/internal/trust"
)

// made is the part of a configuration that init writes.
type made struct {
	DataFolder    string        `yaml:"data_folder"`
	ReportsFolder string        `yaml:"reports_folder"`
	StoresFile    string        `yaml:"stores_file"`
	Transport     string        `yaml:"transport"`
	Broker        server.Config `yaml:"broker"`
	Identity      struct {
		Folder string `yaml:"folder"`
	} `yaml:"identity"`
	Enrolment struct {
		Address string `yaml:"address"`
		URL     string `yaml:"url"`
	} `yaml:"enrolment"`
}

func loadMade(t *testing.T, folder string) made {
	t.Helper()
	var cfg made
	path := filepath.Join(folder, "dispatcher.yaml")
	if _, err := settings.Load(path, &cfg); err != nil {
		t.Fatal(err)
	}
	for _, p := range append(cfg.Broker.Files(), &cfg.StoresFile, &cfg.Identity.Folder) {
		*p = settings.Resolve(path, *p)
	}
	return cfg
}

func TestInitMakesAHeadquartersThatItsOperatorLogsInTo(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "hq")
	out, errs, code := run(t, house.InitCommand(), folder, "--host", "hq.example.com", "--host", "192.0.2.10", "--operator", "chen")
	if code != 0 {
		t.Fatalf("%d: %s", code, errs)
	}
	if !strings.Contains(out, "--user chen --password-file FILE\n") { // what is told works as it stands
		t.Errorf("said %s", out)
	}
	cfg := loadMade(t, folder)
	if cfg.Enrolment.Address != "0.0.0.0:8443" || cfg.Enrolment.URL != "https://hq.example.com:8443" || cfg.Broker.Listeners.TLS.Address != "0.0.0.0:8883" ||
		cfg.Broker.Listeners.TCP.Address != "" || cfg.Transport != "embedded" || cfg.DataFolder != "data" || cfg.ReportsFolder != "reports" {
		t.Errorf("configuration: %+v", cfg)
	}
	if _, err := identity.Open(cfg.Identity.Folder, time.Now()); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(cfg.StoresFile); err != nil || string(text) != "store_id,name,time_zone,labels\n" {
		t.Errorf("stores: %q, %v", text, err)
	}
	if err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && path != folder {
			err = trust.CheckPrivate(path)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	password := regexp.MustCompile(`(?m)^password  ([A-Z2-7]{26})$`).FindStringSubmatch(out)
	if password == nil {
		t.Fatalf("no password is shown: %s", out)
	}
	if text, err := os.ReadFile(cfg.Broker.UsersFile); err != nil || strings.Contains(string(text), password[1]) {
		t.Errorf("the password is kept: %v", err)
	}
	// The broker of this configuration lets the operator in, over TLS.
	cfg.Broker.Listeners.TLS.Address = "127.0.0.1:0"
	broker, err := server.New(cfg.Broker, server.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := broker.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = broker.Stop(context.WithoutCancel(t.Context())) })
	_, port, err := net.SplitHostPort(broker.Addr("tls").String())
	if err != nil {
		t.Fatal(err)
	}
	for secret, want := range map[string]int{password[1]: 0, "not-the-password": screen.ExitRefused} {
		file := filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, errs, code := shell(t, "health", "--broker-only", "--broker", "mqtts://localhost:"+port, "--user", "chen",
			"--password-file", file, "--ca-file", filepath.Join(folder, "identity", identity.FileAuthority))
		if code != want {
			t.Errorf("login: %d, want %d: %s", code, want, errs)
		}
	}
}

func TestInitPrintsFactsForPrograms(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "hq")
	out, errs, code := run(t, house.InitCommand(), folder, "--host", "2001:db8::1", "--json")
	var facts map[string]any
	if err := json.Unmarshal([]byte(out), &facts); err != nil || code != 0 {
		t.Fatalf("%d, %v: %s %s", code, err, out, errs)
	}
	id, err := identity.Open(filepath.Join(folder, "identity"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if facts["authority"] != id.AuthorityHash() || facts["broker"] != "mqtts://[2001:db8::1]:8883" || facts["enrolmentUrl"] != "https://[2001:db8::1]:8443" ||
		facts["operator"] != "operator" || facts["config"] != filepath.Join(folder, "dispatcher.yaml") {
		t.Errorf("got %v", facts)
	}
	if _, err := users.Load(loadMade(t, folder).Broker.UsersFile); err != nil {
		t.Error(err)
	}
}

func TestInitRefusesWhatItCannotMakeAndLeavesNothing(t *testing.T) {
	t.Parallel()
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "muster.db"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := t.TempDir()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"full":     {[]string{full, "--host", "hq"}, "is not empty, it holds muster.db"},
		"no host":  {[]string{empty}, `required flag(s) "host" not set`},
		"host":     {[]string{empty, "--host", "https://hq"}, `host "https://hq" is no name and no address`},
		"operator": {[]string{empty, "--host", "hq", "--operator", "a b"}, `--operator "a b" must be`},
		"folder":   {[]string{"--host", "hq"}, "init takes one folder"},
	} {
		_, errs, code := run(t, house.InitCommand(), c.args...)
		if code != screen.ExitRefused || !strings.Contains(errs, c.want) {
			t.Errorf("%s: %d, %s", name, code, errs)
		}
	}
	for folder, want := range map[string]int{full: 1, empty: 0} {
		if left, err := os.ReadDir(folder); err != nil || len(left) != want {
			t.Errorf("%s holds %v, %v", folder, left, err)
		}
	}
	again := filepath.Join(t.TempDir(), "hq")
	if _, errs, code := run(t, house.InitCommand(), again, "--host", "hq"); code != 0 {
		t.Fatal(errs)
	}
	if _, errs, code := run(t, house.InitCommand(), again, "--host", "hq"); code != screen.ExitRefused || !strings.Contains(errs, "overwrites nothing") {
		t.Errorf("a second time: %d, %s", code, errs)
	}
}

// TestInitKeepsWhatItFinished: a site that starts anew every day names the same
// folder each time.
func TestInitKeepsWhatItFinished(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "hq")
	if _, errs, code := run(t, house.InitCommand(), folder, "--host", "hq", "--keep"); code != 0 {
		t.Fatal(errs)
	}
	before := contents(t, folder)
	out, errs, code := run(t, house.InitCommand(), folder, "--host", "hq", "--keep")
	if after := contents(t, folder); code != 0 || out != folder+" is kept as it is\n" || !maps.Equal(before, after) {
		t.Errorf("a second time: %d, %q, %q", code, out, errs)
	}
	if err := os.Remove(filepath.Join(folder, "dispatcher.yaml")); err != nil { // an init that was cut off
		t.Fatal(err)
	}
	if _, errs, code := run(t, house.InitCommand(), folder, "--host", "hq", "--keep"); code != screen.ExitRefused || !strings.Contains(errs, "is not empty, it holds identity") {
		t.Errorf("half a folder: %d, %s", code, errs)
	}
}

// contents is every file below a folder.
func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestInitMakesAnOperatorWithoutAPassword(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "hq")
	out, errs, code := run(t, house.InitCommand(), folder, "--host", "hq", "--operator", "chen", "--certificate")
	if code != 0 || strings.Contains(out, "password") || !strings.Contains(out, "dispatcher certify chen --identity "+filepath.Join(folder, "identity")) {
		t.Fatalf("%d: %s%s", code, out, errs)
	}
	book, err := users.Load(loadMade(t, folder).Broker.UsersFile)
	if err != nil {
		t.Fatal(err)
	}
	if entry := book.List(); len(entry) != 1 || entry[0].Name != "chen" || !entry[0].Certificate {
		t.Errorf("got %+v", entry)
	}
}
