package e2e_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"muster/broker/server/users"
	"muster/tests/programs"
)

// TestReloadRefusesWhatIsNoFileAndWhatWasCutOff puts pipes, a socket and the rests of a
// file in the place of each file that a reload reads: nothing changes, it is said why, the
// next reload is heard, and headquarters stops at once when it is told to.
func TestReloadRefusesWhatIsNoFileAndWhatWasCutOff(t *testing.T) {
	t.Parallel()
	s := newSite(t, []string{"A1", "B2"}, "")
	hash, err := users.HashPassword([]byte("correct horse"))
	if err != nil {
		t.Fatal(err)
	}
	s.write("users.yaml", fmt.Sprintf("users:\n  - {name: wang, role: operator, password: %q}\n", hash))
	s.configured(programs.FreeAddr(t), "admission: {max_running: 7}\n")
	s.serve()
	const taken = "stores, users and limits were read again"
	at := func(name string) string { return filepath.Join(s.dir, name) }
	instead := func(name, want string, put func(path string) error) {
		t.Helper()
		if err := errors.Join(os.Rename(at(name), at("kept")), put(at(name))); err != nil {
			t.Fatal(err)
		}
		s.hangup(want)
		if err := os.Rename(at("kept"), at(name)); err != nil {
			t.Fatal(err)
		}
		s.hangup(taken)
	}
	pipe := func(path string) error { return syscall.Mkfifo(path, 0o600) }
	for _, name := range []string{"stores.csv", "users.yaml", "dispatcher.yaml"} {
		instead(name, name+" is a pipe, not a regular file", pipe)
	}
	for _, name := range []string{"jobs/probe.yaml", "jobs/probe_input.json"} {
		instead(name, filepath.Base(name)+": is a pipe, not a regular file", pipe)
	}
	short, err := os.MkdirTemp("", "s") //nolint:usetesting // the name of a socket has 107 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(short)
	socket, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(short, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	instead("stores.csv", "stores.csv is a socket", func(path string) error { return os.Symlink(filepath.Join(short, "s"), path) })
	instead("users.yaml", "users.yaml is a device", func(path string) error { return os.Symlink("/dev/zero", path) })

	whole, err := os.ReadFile(s.config)
	if err != nil {
		t.Fatal(err)
	}
	for _, cut := range []struct{ text, want string }{
		{"", "holds no setting"},
		{"# all of it\n---\n", "holds no setting"},
		{"data_folder: data\n", "stores_file: is gone"},
		{strings.ReplaceAll(string(whole), "jobs_folder: jobs\n", ""), "jobs_folder: is gone"},
		{strings.NewReplacer("anonymous: false", "anonymous: true", "  users_file: users.yaml\n", "").Replace(string(whole)), "users_file: is gone"},
	} {
		s.write("dispatcher.yaml", cut.text)
		s.hangup(cut.want)
	}
	s.write("dispatcher.yaml", string(whole))
	if list := s.dispatcher("stores", "list", "-c", s.config); !strings.Contains(list, "A1") || !strings.Contains(list, "B2") || strings.Contains(list, "SH_") {
		t.Errorf("a refused reload has changed the stores:\n%s", list)
	}
	s.hangup(taken)
	if said := s.hq.Output(); strings.Count(said, taken) != strings.Count(said, "stores=2 added=0 changed=0 retired=0 needs_restart=") {
		t.Errorf("something else was taken in:\n%s", said)
	}
	ends(t, s.hq)
}

// ends tells a program to stop, which takes it a few seconds at most.
func ends(t *testing.T, p *programs.Process) {
	t.Helper()
	if err := syscall.Kill(p.PID(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Done():
	case <-time.After(9 * time.Second):
		t.Errorf("it does not stop:\n%s", p.Output())
	}
}

// TestAStartReadsAPipeAndStopsWhereNobodyWrites: each program takes its configuration
// from a pipe; SIGTERM ends one that waits for a pipe into which nobody writes.
func TestAStartReadsAPipeAndStopsWhereNobodyWrites(t *testing.T) {
	t.Parallel()
	s := newSite(t, []string{"A1"}, "")
	nobody := filepath.Join(s.dir, "nobody")
	err := syscall.Mkfifo(nobody, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	register := s.write("register.yaml", fmt.Sprintf("data_folder: data2\nreports_folder: reports2\nstores_file: nobody\nbroker: {listeners: {tcp: {address: %q}}}\n", s.addr))
	persons := s.write("persons.yaml", fmt.Sprintf("data_folder: data3\nreports_folder: reports3\nstores_file: stores.csv\njobs_folder: jobs\nadmin: {address: %q}\nbroker: {anonymous: false, users_file: nobody, listeners: {tcp: {address: %q}}}\n",
		programs.FreeAddr(t), programs.FreeAddr(t)))
	for _, line := range [][]string{
		{"dispatcher", "serve", "-c", nobody}, {"dispatcher", "serve", "-c", register}, {"dispatcher", "serve", "-c", persons}, {"dispatcher", "doctor", "-c", nobody},
		{"edge-agent", "-store", "A1", "-c", nobody}, {"broker", "-c", nobody},
		{"broker", "-set", "broker.anonymous=false", "-set", "broker.users_file=" + nobody, "-set", "broker.listeners.tcp.address=127.0.0.1:0", "-c", filepath.Join("..", "..", "configs", "broker.yaml")},
	} {
		p := programs.Launch(t, filepath.Join(bin, line[0]), line[1:]...)
		var silent int
		programs.Eventually(t, "it opening the pipe", func() (open bool) {
			silent, err = syscall.Open(nobody, syscall.O_WRONLY|syscall.O_NONBLOCK, 0) // fails without a reader
			return err == nil
		})
		ends(t, p)
		_ = syscall.Close(silent)
		if code := p.ExitCode(); code < 0 {
			t.Errorf("%v: killed, it does not stop by itself", line)
		}
	}

	s.hq = programs.Launch(t, "bash", "-c", fmt.Sprintf(`cd %q && exec %q serve -c <(sed 's#: \(data\|reports\|stores.csv\|jobs\)$#: %s/\1#' dispatcher.yaml)`, s.dir, filepath.Join(bin, "dispatcher"), s.dir))
	s.hq.AwaitOutput("headquarters is ready")
	s.hangup("/dev/fd/")
	if said := s.hq.Output(); !strings.Contains(said, "is a pipe, not a regular file") {
		t.Errorf("no word about the pipe:\n%s", said)
	}
	ends(t, s.hq)
}
