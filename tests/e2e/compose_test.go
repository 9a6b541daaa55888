package e2e_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"muster/internal/protocol"
	"muster/tests/programs"
)

// composed is what these tests read of docker-compose.yml.
type composed struct {
	Services map[string]service `yaml:"services"`
	Configs  map[string]struct {
		Content string `yaml:"content"`
	} `yaml:"configs"`
}

type service struct {
	Profiles []string `yaml:"profiles"`
	Command  []string `yaml:"command"`
	User     string   `yaml:"user"`
	Configs  []struct {
		Source string `yaml:"source"`
		Target string `yaml:"target"`
	} `yaml:"configs"`
	Healthcheck struct {
		Test []string `yaml:"test"`
	} `yaml:"healthcheck"`
}

// TestComposeFileDescribesASiteThatWorks starts, for each profile, every
// service with its own command and configuration, as processes whose root is a
// folder: all become healthy, and a technician of the users file gets a report.
func TestComposeFileDescribesASiteThatWorks(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docker-compose.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var file composed
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, profile := range []string{"embedded", "split"} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			s := &site{t: t, dir: t.TempDir(), addr: programs.FreeAddr(t)}
			c := composition{s, file}
			var names []string
			for name, one := range file.Services {
				if one.User == "" || strings.HasPrefix(one.User, "0") || strings.HasPrefix(one.User, "root") {
					t.Errorf("service %s runs as %q", name, one.User)
				}
				if len(one.Profiles) == 0 || slices.Contains(one.Profiles, profile) {
					names = append(names, name)
				}
			}
			slices.SortFunc(names, func(a, b string) int { return strings.Compare(rank(a)+a, rank(b)+b) })
			for _, name := range names {
				c.start(name)
			}
			for _, name := range names {
				programs.Eventually(t, "the health of "+name, func() bool { return c.healthy(name) })
			}
			t.Logf("healthy: %v", names)
			cmd := c.command("", []string{"/dispatcher", "run", "collect_log", "--stores", "SH_0312,BJ_0001", "--input", "date=2026-09-17", "--wait", "--user", "alice"})
			cmd.Env = append(cmd.Env, "MUSTER_PASSWORD=alice-change-me")
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "verdict complete") {
				t.Errorf("%s, %v", out, err)
			}
			c.noSecret()
		})
	}
}

// rank orders the services as they wait for each other.
func rank(name string) string {
	for i, prefix := range []string{"broker", "dispatcher", ""} {
		if strings.HasPrefix(name, prefix) {
			return string(rune('0' + i))
		}
	}
	return ""
}

type composition struct {
	*site
	file composed
}

// localise turns what stands in the file into what fits this machine.
func (c composition) localise(name, text string) string {
	root := filepath.Join(c.dir, name)
	text = strings.ReplaceAll(text, "$$", "$")
	for _, pair := range [][2]string{{"0.0.0.0:1883", c.addr}, {"//mqtt:1883", "//" + c.addr}, {"/var/lib/", root + "/var/lib/"}, {"/pos/", root + "/pos/"}} {
		text = strings.ReplaceAll(text, pair[0], pair[1])
	}
	return text
}

// command is one of the programs with its arguments.
func (c composition) command(name string, argv []string) *exec.Cmd {
	c.t.Helper()
	args := make([]string, 0, len(argv))
	for _, arg := range argv[1:] {
		if strings.HasPrefix(arg, "/etc/") {
			arg = filepath.Join(c.dir, name, arg)
		}
		args = append(args, strings.ReplaceAll(arg, "//mqtt:1883", "//"+c.addr))
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), programs.Patience)
	c.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, filepath.Join(bin, argv[0]), args...)
	cmd.Env = append(os.Environ(), "MUSTER_BROKER=mqtt://"+c.addr) // the default is the container's own loopback
	return cmd
}

func (c composition) start(name string) {
	c.t.Helper()
	one := c.file.Services[name]
	for _, mount := range one.Configs {
		content, ok := c.file.Configs[mount.Source]
		if !ok {
			c.t.Fatalf("service %s mounts the unknown configuration %s", name, mount.Source)
		}
		c.write(filepath.Join(name, mount.Target), c.localise(name, content.Content))
	}
	for _, folder := range []string{"muster", "muster-reports"} { // volumes
		if err := os.MkdirAll(filepath.Join(c.dir, name, "var", "lib", folder), 0o700); err != nil {
			c.t.Fatal(err)
		}
	}
	cmd := c.command(name, one.Command)
	p := programs.Launch(c.t, cmd.Path, cmd.Args[1:]...)
	switch {
	case strings.HasPrefix(name, "broker"):
		p.AwaitOutput("broker listens")
	case strings.HasPrefix(name, "dispatcher"):
		p.AwaitOutput("headquarters is ready")
	}
}

func (c composition) healthy(name string) bool {
	c.t.Helper()
	test := c.file.Services[name].Healthcheck.Test
	if len(test) < 2 || test[0] != "CMD" {
		c.t.Fatalf("service %s has the health check %v", name, test)
	}
	return c.command(name, test[1:]).Run() == nil
}

// noSecret looks for the sample configuration's password in what headquarters
// keeps.
func (c composition) noSecret() {
	c.t.Helper()
	reports := 0
	err := filepath.WalkDir(c.dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.Contains(path, "/pos/") {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), "never-leaves-the-terminal") {
			c.t.Errorf("%s holds the secret", path)
		}
		var report protocol.Report
		if strings.HasSuffix(path, "_r1.json") && protocol.Decode(data, len(data), &report) == nil && report.Counts.Succeeded == 2 {
			reports++
		}
		return err
	})
	if err != nil || reports != 1 {
		c.t.Errorf("%d reports of two stores, %v", reports, err)
	}
}
