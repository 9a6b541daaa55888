package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/store"
	"muster/internal/task"
)

const (
	childMode = "MUSTER_STORE_TEST_CHILD" // what the test binary is to do instead of testing
	childFile = "MUSTER_STORE_TEST_FILE"

	// childTasks is the fan-out that a kill must not cut.
	childTasks = 50_000
)

func TestMain(m *testing.M) {
	switch mode := os.Getenv(childMode); mode {
	case "":
		os.Exit(m.Run())
	case "hold", "create", "audit", "limit", "restore":
		if err := child(mode, os.Getenv(childFile)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// child holds the file until its input ends, or creates run after run, or adds
// audit entries from many sides, until it is killed. It writes a line for each thing that it was told is done.
func child(mode, path string) error {
	if mode == "restore" {
		return keepRestoring(path)
	}
	s, err := store.Open(context.Background(), store.Options{Path: path})
	if err != nil {
		return err
	}
	fmt.Println("open")
	if mode == "hold" {
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	}
	switch mode {
	case "audit":
		return keepAuditing(s)
	case "limit":
		return grantUntilRefused(s)
	}
	for i := 0; ; i++ {
		run := newRun(fmt.Sprintf("R%d", i))
		places, tasks := targets(childTasks)
		for j := range tasks {
			tasks[j].TaskID = run.RunID + tasks[j].TaskID
		}
		if _, err := s.CreateRun(context.Background(), run, places, tasks, store.Request{}, t0); err != nil {
			return err
		}
		fmt.Println(run.RunID)
	}
}

// startChild starts the test binary in a mode and returns it, once the file is
// open, with its further lines. It may be started under another program.
func startChild(t *testing.T, mode, path string, under ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	command := slices.Concat(under, []string{os.Args[0]})
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Env = append(os.Environ(), childMode+"="+mode, childFile+"="+path)
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil { // held open until Wait
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "open" {
		t.Fatalf("the child says %q, %v", lines.Text(), lines.Err())
	}
	return cmd, lines
}

// kill ends the child with nothing said, and returns how many more lines it
// had written.
func kill(t *testing.T, cmd *exec.Cmd, lines *bufio.Scanner) (written int) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		written++
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) {
		t.Fatalf("the child ended by itself: %v", err)
	}
	return written
}

func TestSecondDispatcherIsToldWhoHoldsTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "muster.db")
	cmd, lines := startChild(t, "hold", path)
	link := filepath.Join(t.TempDir(), "other-name.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, link} {
		_, err := store.Open(t.Context(), store.Options{Path: name})
		if !errors.Is(err, store.ErrLocked) {
			t.Fatalf("opened twice: %v", err)
		}
		host, _ := os.Hostname()
		for _, part := range []string{fmt.Sprintf("process %d on %s holds it since 2", cmd.Process.Pid, host), path} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %q", err, part)
			}
		}
	}
	kill(t, cmd, lines)
	s, err := store.Open(t.Context(), store.Options{Path: path}) // the lock died with its holder
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(t.Context(), store.Options{Path: path}); !errors.Is(err, store.ErrLocked) {
		t.Errorf("opened twice by one process: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}

func TestKillDuringFanOutLeavesAllOrNothing(t *testing.T) { // I4
	if testing.Short() {
		t.Skip("it kills processes that write 50,000 tasks")
	}
	t.Parallel()
	for round := range 4 {
		path := filepath.Join(t.TempDir(), "muster.db")
		cmd, lines := startChild(t, "create", path)
		delay := time.Duration(rand.IntN(1200)) * time.Millisecond
		<-time.After(delay) // when, not whether: the kill is the event
		told := kill(t, cmd, lines)
		s, err := store.Open(t.Context(), store.Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		runs, err := s.ListOpenRuns(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(runs) < told || len(runs) > told+1 {
			t.Errorf("round %d: %d runs after %d were promised", round, len(runs), told)
		}
		for i := range len(runs) + 1 {
			counts, open, err := s.CountTasks(t.Context(), fmt.Sprintf("R%d", i))
			want := childTasks
			if i == len(runs) {
				want = 0
			}
			if err != nil || open != want || counts[task.Pending] != want {
				t.Errorf("round %d: run %d has %d tasks, want %d, %v", round, i, open, want, err)
			}
		}
		t.Logf("killed after %v: %d runs", delay, len(runs))
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(1)
	if _, err := b.raw().ExecContext(t.Context(), "PRAGMA user_version = 9"); err != nil {
		t.Fatal(err)
	}
	b.Close()
	_, err := store.Open(t.Context(), store.Options{Path: b.path})
	if !errors.Is(err, store.ErrNewerSchema) || !strings.Contains(err.Error(), "has schema version 9, this program knows up to 6") {
		t.Errorf("opened a newer file: %v", err)
	}
	if _, err := b.raw().ExecContext(t.Context(), "PRAGMA user_version = 6"); err != nil {
		t.Fatal(err)
	}
	b.open() // and it was left as it was
	if _, err := b.GetRun(t.Context(), "R"); err != nil {
		t.Error(err)
	}
}

func TestForeignDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	b := &bundle{t: t, path: filepath.Join(t.TempDir(), "other.db")}
	if _, err := b.raw().ExecContext(t.Context(), "CREATE TABLE songs (title TEXT)"); err != nil {
		t.Fatal(err)
	}
	_, err := store.Open(t.Context(), store.Options{Path: b.path})
	if err == nil || !strings.Contains(err.Error(), "it is a database of another program") {
		t.Errorf("opened: %v", err)
	}
}

func TestDamagedFileIsRefusedWithTheWayOut(t *testing.T) {
	t.Parallel()
	damages := map[string]func(t *testing.T, path string){
		"pages overwritten": func(t *testing.T, path string) {
			file, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			info, err := file.Stat()
			if err != nil {
				t.Fatal(err)
			}
			junk := []byte(strings.Repeat("\xde\xad\xbe\xef", 1024))
			for offset := int64(8 * 4096); offset < info.Size(); offset += 16 * 4096 {
				if _, err := file.WriteAt(junk, offset); err != nil {
					t.Fatal(err)
				}
			}
			if err := file.Close(); err != nil {
				t.Fatal(err)
			}
		},
		"not a database": func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte(strings.Repeat("all work and no play\n", 500)), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"cut in half": func(t *testing.T, path string) {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(path, info.Size()/2/4096*4096); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &bundle{t: t, path: filepath.Join(t.TempDir(), "muster.db")}
			b.open()
			b.create(2000)
			b.close()
			damage(t, b.path)
			_, err := store.Open(t.Context(), store.Options{Path: b.path})
			if !errors.Is(err, store.ErrCorrupt) {
				t.Fatalf("opened: %v", err)
			}
			for _, part := range []string{"muster.db: ", "to restore: stop the dispatcher", "dispatcher restore BACKUP --data " + filepath.Dir(b.path)} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
			if again, err := store.Open(t.Context(), store.Options{Path: b.path}); !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("the refusal kept the lock: %v, %v", again, err)
			}
		})
	}
}

func TestClosedStoreSaysSo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(1)
	b.Close()
	calls := map[string]func() error{
		"write":    func() error { return b.Beat(t.Context(), t0) },
		"read":     func() error { _, err := b.GetRun(t.Context(), "R"); return err },
		"new read": func() error { _, err := b.ListPlaces(t.Context()); return err },
		"snapshot": func() error { _, err := b.Snapshot(t.Context(), "R"); return err },
		"stream": func() (last error) {
			for _, err := range b.OpenTasks(t.Context(), "", "") {
				last = err
			}
			return last
		},
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
}

func TestOpenNeedsItsFolder(t *testing.T) {
	t.Parallel()
	_, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "none", "muster.db")})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("opened: %v", err)
	}
}

func TestPathMayHoldWhatAddressesReserve(t *testing.T) {
	t.Parallel()
	b := &bundle{t: t, path: filepath.Join(t.TempDir(), "50% ?#&分店.db")}
	b.open()
	b.create(1)
	b.close()
	info, err := os.Stat(b.path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func grantOf(i int) store.Grant {
	return store.Grant{TaskID: taskID(i), StoreID: storeID(i), TerminalID: "pos1", LeaseUntil: at(time.Minute)}
}

// limitTasks is more than fit into a log of 8 MiB.
const limitTasks = 12_000

// grantUntilRefused grants one task after the other, and says which and how it
// ended.
func grantUntilRefused(s *store.Store) error {
	for i := range limitTasks {
		if _, err := s.Grant(context.Background(), grantOf(i), t0); err != nil {
			fmt.Println("refused", errors.Is(err, store.ErrNoSpace), err)
			fmt.Println("health", errors.Is(s.Health(context.Background()), store.ErrNoSpace))
			return s.Close()
		}
		fmt.Println(i)
	}
	return errors.New("it was never refused")
}
