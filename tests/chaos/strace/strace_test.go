package strace_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"muster/tests/chaos/strace"
)

const sample = `7 openat(AT_FDCWD</w>, "/d/a", O_RDONLY) = -1 ENOENT (No such file or directory)
7 pwrite64(9</d/muster.db-wal>, "a\0\12\"b", 5, 32) = 5
8 writev(4<TCP:[127.0.0.1:1->127.0.0.1:2]>, [{iov_base="2\200", iov_len=2}, {iov_base="x>]", iov_len=3}], 2 <unfinished ...>
7 fsync(9</d/muster.db-wal> <unfinished ...>
8 <... writev resumed>) = 5
7 --- SIGURG {si_signo=SIGURG} ---
7 <... fsync resumed>) = 0 (DELAYED)
8 fsync(9</d/muster.db-wal>) = ? (INJECTED)
8 +++ killed by SIGKILL +++
`

func TestTracesAreReadOverAllThreads(t *testing.T) {
	t.Parallel()
	calls, err := strace.Parse(strings.NewReader(sample))
	if err != nil || len(calls) != 5 {
		t.Fatalf("%d calls, %v", len(calls), err)
	}
	for i, want := range []struct {
		name, path, data string
		begin, end       int
		ok               bool
	}{
		{"openat", "", "/d/a", 1, 1, false}, {"pwrite64", "/d/muster.db-wal", "a\x00\n\"b", 2, 2, true},
		{"writev", "TCP:[127.0.0.1:1->127.0.0.1:2]", "2\x80x>]", 3, 5, true},
		{"fsync", "/d/muster.db-wal", "", 4, 7, true}, {"fsync", "/d/muster.db-wal", "", 8, 8, false},
	} {
		c := calls[i]
		if c.Name != want.name || c.Path() != want.path || string(c.Data()) != want.data || c.Begin != want.begin || c.End != want.end || c.OK() != want.ok {
			t.Errorf("call %d is %+v (path %q, data %q, ok %t), want %+v", i, c, c.Path(), c.Data(), c.OK(), want)
		}
	}
	if _, err := strace.Parse(strings.NewReader("strace: nonsense\n")); err == nil {
		t.Error("nonsense passes")
	}
}

// TestEveryByteComesBack: a real trace holds the very bytes that were written.
func TestEveryByteComesBack(t *testing.T) {
	t.Parallel()
	strace.Needs(t)
	folder := t.TempDir()
	var all []byte
	for i := range 512 { // each byte, before each kind of neighbour
		all = append(all, byte(i*7), byte(i))
	}
	source := filepath.Join(folder, "source")
	if err := os.WriteFile(source, all, 0o600); err != nil {
		t.Fatal(err)
	}
	trace := filepath.Join(folder, "trace")
	line := strace.Run(trace, []string{"-s", "4096", "-e", "trace=write,execve"}, []string{"cat", source})
	cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
	out, err := cmd.Output()
	if err != nil || string(out) != string(all) {
		t.Fatalf("%d bytes, %v", len(out), err)
	}
	file, err := os.Open(trace)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	calls, err := strace.Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range calls {
		if c.Name == "write" && string(c.Data()) == string(all) && c.OK() {
			return
		}
	}
	t.Errorf("no write of these bytes among %+v", calls)
}
