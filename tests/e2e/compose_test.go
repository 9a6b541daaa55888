package e2e_test

import (
	"context"
	"maps"
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
	Profiles    []string          `yaml:"profiles"`
	Command     []string          `yaml:"command"`
	User        string            `yaml:"user"`
	Restart     string            `yaml:"restart"`
	Environment map[string]string `yaml:"environment"`
	NetworkMode string            `yaml:"network_mode"`
	Volumes     []string          `yaml:"volumes"` // name:/target[:ro]
	Ports       []string          `yaml:"ports"`
	DependsOn   map[string]struct {
		Condition string `yaml:"condition"`
	} `yaml:"depends_on"`
	Configs []struct {
		Source string `yaml:"source"`
		Target string `yaml:"target"`
	} `yaml:"configs"`
	Healthcheck struct {
		Test []string `yaml:"test"`
	} `yaml:"healthcheck"`
}

// once says whether the service makes something and ends.
func (s service) once() bool { return s.Restart == "no" }

func readComposed(t *testing.T) (composed, string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docker-compose.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var file composed
	// A key beside a merge takes the place of the merged one, as in Compose.
	if err := yaml.UnmarshalWithOptions(text, &file, yaml.AllowDuplicateMapKey()); err != nil {
		t.Fatal(err)
	}
	return file, string(text)
}

// TestComposeFileDescribesASiteThatWorks starts, for each profile, every
// service with its own command and configuration, as processes whose root is a
// folder: from nothing, all become healthy, the terminals enrol by themselves,
// an operator gets a report, and a second start keeps what the first one made.
func TestComposeFileDescribesASiteThatWorks(t *testing.T) {
	t.Parallel()
	file, _ := readComposed(t)
	for profile, hq := range map[string]string{"embedded": "dispatcher", "split": "dispatcher-split"} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			s := &site{t: t, dir: t.TempDir(), addr: programs.FreeAddr(t)}
			c := composition{site: s, file: file, door: programs.FreeAddr(t), started: map[string]*programs.Process{}}
			var names []string
			for name, one := range file.Services {
				if len(one.Profiles) == 0 || slices.Contains(one.Profiles, profile) {
					names = append(names, name)
				}
			}
			slices.Sort(names) // the agents first: they wait
			for _, name := range names {
				c.up(name)
			}
			for _, name := range names {
				if !file.Services[name].once() {
					programs.Seldom(t, "the health of "+name, func() bool { return c.healthy(name) })
				}
			}
			cmd := c.command(hq, []string{"/dispatcher", "run", "collect_log", "--stores", "SH_0312,BJ_0001", "--input", "date=2026-09-17", "--wait"})
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "verdict complete") {
				t.Errorf("%s, %v", out, err)
			}
			c.noSecret()
			c.startAgain(names)
		})
	}
}

// TestComposeFileHoldsNoPasswordAndNothingOpen: nothing that everybody knows
// opens anything, and without changing the file nobody else can reach it.
func TestComposeFileHoldsNoPasswordAndNothingOpen(t *testing.T) {
	t.Parallel()
	file, text := readComposed(t)
	image, err := os.ReadFile(filepath.Join("..", "..", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"argon2", "change-me", "1883", "allow_plaintext", "anonymous: true", "mqtt://", "http://", "PASSWORD"} {
		if strings.Contains(text, words) {
			t.Errorf("the file says %s", words)
		}
	}
	for name, config := range file.Configs {
		if name != "sample-configuration" && strings.Contains(config.Content, "password") { // nor password_file
			t.Errorf("configuration %s holds a password", name)
		}
	}
	var users struct {
		Users []struct {
			Name        string `yaml:"name"`
			Certificate bool   `yaml:"certificate"`
		} `yaml:"users"`
	}
	if err := yaml.Unmarshal([]byte(file.Configs["users"].Content), &users); err != nil || len(users.Users) < 3 {
		t.Errorf("users %+v, %v", users, err)
	}
	for _, user := range users.Users {
		if !user.Certificate {
			t.Errorf("%s logs in without a certificate", user.Name)
		}
	}
	for name, one := range file.Services {
		if one.User == "" || strings.HasPrefix(one.User, "0") || strings.HasPrefix(one.User, "root") {
			t.Errorf("service %s runs as %q", name, one.User)
		}
		for _, port := range one.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("service %s opens %s to everybody", name, port)
			}
		}
		for _, volume := range one.Volumes {
			if _, target, _ := mounted(volume); !strings.Contains(string(image), "/empty "+target+"\n") {
				t.Errorf("service %s: the image has no folder %s whose owner the volume could take", name, target)
			}
		}
		if slices.Contains(one.Command, "enroll") { // the admin line is on its loopback
			if _, waits := one.DependsOn[strings.TrimPrefix(one.NetworkMode, "service:")]; !waits {
				t.Errorf("service %s has the network %q", name, one.NetworkMode)
			}
		}
		if name == "broker" && strings.Contains(strings.Join(one.Volumes, " "), "data:") {
			t.Error("the broker sees headquarters' keys")
		}
	}
}

// composition is one profile of the file, run on this machine.
type composition struct {
	*site
	file    composed
	door    string // address of the enrolment
	started map[string]*programs.Process
}

// mounted parts name:/target[:ro].
func mounted(volume string) (name, target string, readOnly bool) {
	name, target, _ = strings.Cut(volume, ":")
	target, _, readOnly = strings.Cut(target, ":")
	return name, target, readOnly
}

// localise turns what stands in the file into what fits this machine: addresses,
// and for a service the folders that it mounts.
func (c composition) localise(name, text string) string {
	c.t.Helper()
	root := filepath.Join(c.dir, "root", name)
	pairs := []string{"0.0.0.0:8883", c.addr, "//mqtt:8883", "//" + c.addr, "0.0.0.0:8443", c.door, "//hq:8443", "//" + c.door,
		"/pos/", root + "/pos/", "/etc/muster/", root + "/etc/muster/"}
	volumes := slices.Clone(c.file.Services[name].Volumes)
	slices.SortFunc(volumes, func(a, b string) int { return len(b) - len(a) }) // /var/lib/muster begins all of them
	for _, volume := range volumes {
		from, target, _ := mounted(volume)
		pairs = append(pairs, target+"/", c.volume(from)+"/")
	}
	for _, volume := range volumes {
		from, target, _ := mounted(volume)
		pairs = append(pairs, target, c.volume(from))
	}
	text = strings.NewReplacer(pairs...).Replace(text)
	if strings.Contains(strings.ReplaceAll(text, c.dir, ""), "/var/lib/") {
		c.t.Errorf("service %s uses a folder that it does not mount: %s", name, text)
	}
	return text
}

// volume is the folder of a volume, which others may enter as they may in a
// container.
func (c composition) volume(name string) string {
	c.t.Helper()
	path := filepath.Join(c.dir, "volumes", name)
	if err := os.MkdirAll(path, 0o755); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// command is one of the programs with its arguments, in the container of a
// service.
func (c composition) command(name string, argv []string) *exec.Cmd {
	c.t.Helper()
	args := make([]string, 0, len(argv))
	for _, arg := range argv[1:] {
		args = append(args, c.localise(name, arg))
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), programs.Patience)
	c.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, filepath.Join(bin, argv[0]), args...)
	for key, value := range c.file.Services[name].Environment {
		cmd.Env = append(cmd.Env, key+"="+c.localise(name, value))
	}
	return cmd
}

// up starts a service once those that it depends on are as it wants them.
func (c composition) up(name string) {
	c.t.Helper()
	if c.started[name] != nil {
		return
	}
	one, known := c.file.Services[name]
	if !known {
		c.t.Fatalf("there is no service %s", name)
	}
	for other, wanted := range one.DependsOn {
		c.up(other)
		switch wanted.Condition {
		case "service_completed_successfully":
			if !c.file.Services[other].once() {
				c.t.Fatalf("%s waits for the end of %s, which never ends", name, other)
			}
		case "service_healthy":
			programs.Seldom(c.t, "the health of "+other+" for "+name, func() bool { return c.healthy(other) })
		default:
			c.t.Fatalf("%s depends on %s with the condition %q", name, other, wanted.Condition)
		}
	}
	for _, mount := range one.Configs {
		content, ok := c.file.Configs[mount.Source]
		if !ok {
			c.t.Fatalf("service %s mounts the unknown configuration %s", name, mount.Source)
		}
		path := c.write(filepath.Join("root", name, mount.Target), c.localise(name, content.Content))
		if err := os.Chmod(path, 0o444); err != nil { // as Compose does
			c.t.Fatal(err)
		}
	}
	c.launch(name)
}

// launch starts a service; one that makes something has ended well.
func (c composition) launch(name string) {
	c.t.Helper()
	one := c.file.Services[name]
	cmd := c.command(name, one.Command)
	p := programs.Launch(c.t, cmd.Path, cmd.Args[1:]...)
	c.started[name] = p
	if one.once() {
		if code := p.ExitCode(); code != 0 {
			c.t.Fatalf("%s ended with %d: %s", name, code, p.Output())
		}
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

// startAgain runs what makes something once more: it changes nothing, while
// everything else is up.
func (c composition) startAgain(names []string) {
	c.t.Helper()
	before := c.made()
	for _, name := range names {
		if c.file.Services[name].once() {
			c.launch(name)
		}
	}
	if after := c.made(); len(before) < 15 || !maps.Equal(before, after) {
		c.t.Errorf("a second start changed what the first one had made (%d files)", len(before))
	}
}

// made is what the first start made: identity, people's certificates, tokens.
func (c composition) made() map[string]string {
	c.t.Helper()
	files := map[string]string{}
	for _, folder := range []string{"data/hq", "people", "token-sh-0312", "token-bj-0001"} {
		err := filepath.WalkDir(filepath.Join(c.dir, "volumes", folder), func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			files[path] = string(data)
			return err
		})
		if err != nil {
			c.t.Fatal(err)
		}
	}
	return files
}

// noSecret looks for the sample configuration's password in what is kept, and
// for tokens and passwords in what was said.
func (c composition) noSecret() {
	c.t.Helper()
	for name, p := range c.started {
		if out := p.Output(); strings.Contains(out, "mt1.") || strings.Contains(out, "\npassword ") {
			c.t.Errorf("%s said a secret: %s", name, out)
		}
	}
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
