package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"muster/dispatcher/internal/store"
)

// disk is a small file system of its own, and the store on it.
type disk struct {
	*bundle
	folder string

	mu      sync.Mutex
	trouble []error
}

func newDisk(t *testing.T, megabytes int, ballast int64) *disk {
	t.Helper()
	d := &disk{folder: t.TempDir()}
	if err := syscall.Mount("none", d.folder, "tmpfs", 0, fmt.Sprintf("size=%dm", megabytes)); err != nil {
		t.Skipf("no small disk can be mounted here: %v", err)
	}
	d.bundle = &bundle{t: t, path: filepath.Join(d.folder, "muster.db")}
	d.openWith(ballast)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if err := syscall.Unmount(d.folder, 0); err != nil {
			t.Error(err)
		}
	})
	return d
}

func (d *disk) openWith(ballast int64) {
	d.t.Helper()
	s, err := store.Open(d.t.Context(), store.Options{Path: d.path, BallastBytes: ballast, Trouble: func(err error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.trouble = append(d.trouble, err)
	}})
	if err != nil {
		d.t.Fatal(err)
	}
	d.Store = s
}

// told returns what the observer of trouble heard so far.
func (d *disk) told() []error {
	d.t.Helper()
	if err := d.Told(d.t.Context()); err != nil && !errors.Is(err, store.ErrNoSpace) {
		d.t.Fatal(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]error{}, d.trouble...)
}

// fill leaves not a byte on the disk.
func (d *disk) fill() {
	d.t.Helper()
	file, err := os.OpenFile(d.filler(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	block := make([]byte, 4096)
	for err == nil {
		_, err = file.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		d.t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		d.t.Fatal(err)
	}
}

func (d *disk) filler() string { return filepath.Join(d.folder, "filler") }

// free gives back what fill took, and waits until the store says that it writes.
func (d *disk) free() {
	d.t.Helper()
	if err := os.Remove(d.filler()); err != nil {
		d.t.Fatal(err)
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(10 * time.Second)
	for d.Health(d.t.Context()) != nil {
		if time.Now().After(deadline) {
			d.t.Fatalf("there is room, and yet: %v", d.Health(d.t.Context()))
		}
		<-tick.C
	}
}

// exhaust grants tasks one by one from the given one until the disk takes no
// more, and returns the first that was refused.
func (d *disk) exhaust(from int) int {
	d.t.Helper()
	for i := from; ; i++ {
		_, err := d.Grant(d.t.Context(), grantOf(i), t0)
		if errors.Is(err, store.ErrNoSpace) {
			return i
		}
		if err != nil {
			d.t.Fatal(err)
		}
	}
}

func grantOf(i int) store.Grant {
	return store.Grant{TaskID: taskID(i), StoreID: storeID(i), TerminalID: "pos1", LeaseUntil: at(time.Minute)}
}

// wantGranted checks that exactly the first n tasks run.
func (d *disk) wantGranted(n int) {
	d.t.Helper()
	running, err := d.ListRunning(d.t.Context())
	if err != nil || len(running) != n {
		d.t.Errorf("%d tasks run, want %d, %v", len(running), n, err)
	}
	for _, r := range running {
		if r.Task.TaskID >= taskID(n) {
			d.t.Errorf("task %s runs, and its grant was refused", r.Task.TaskID)
		}
	}
}

func TestFullDiskRefusesWithoutLosingOrHalfWriting(t *testing.T) {
	t.Parallel()
	d := newDisk(t, 16, -1)
	d.create(12_000)
	d.grant(0, t0)
	d.fill()
	refused := d.exhaust(1)
	for name, write := range map[string]func() error{
		"intake": func() error { _, err := d.Settle(t.Context(), success(0, 1, `{"a":1}`), t0); return err },
		"run": func() error {
			places, tasks := targets(400)
			for i := range tasks {
				tasks[i].TaskID = "other" + tasks[i].TaskID
			}
			_, err := d.CreateRun(t.Context(), newRun("R2"), places, tasks, store.Request{}, t0)
			return err
		},
		"barrier": func() error {
			snapshot, err := d.CloseBarrier(t.Context(), "R", at(time.Minute))
			if err == nil {
				err = snapshot.Close()
			}
			return err
		},
	} {
		if err := write(); !errors.Is(err, store.ErrNoSpace) {
			t.Errorf("%s on a full disk: %v", name, err)
		}
	}
	if err := d.Health(t.Context()); !errors.Is(err, store.ErrNoSpace) {
		t.Errorf("health on a full disk: %v", err)
	}
	d.wantGranted(refused)
	if _, err := d.GetRun(t.Context(), "R2"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the refused run: %v", err)
	}
	d.free()
	told := d.told()
	if len(told) != 2 || !errors.Is(told[0], store.ErrNoSpace) || told[1] != nil {
		t.Errorf("told of %v", told)
	}
	d.settle(success(0, 1, `{"a":1}`), t0)
	d.grant(refused, t0)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d.openWith(-1)
	if a, err := d.GetResult(t.Context(), taskID(0), 1); err != nil || string(a.Result) != `{"a":1}` {
		t.Errorf("%+v, %v", a, err)
	}
	if run, err := d.GetRun(t.Context(), "R"); err != nil || !run.BarrierClosedAt.IsZero() {
		t.Errorf("%+v, %v", run, err)
	}
}

func TestBallastKeepsTheWriterGoingAndSaysSo(t *testing.T) {
	t.Parallel()
	d := newDisk(t, 32, 1<<20)
	d.create(12_000)
	ballast := d.path + ".ballast"
	if info, err := os.Stat(ballast); err != nil || info.Size() != 1<<20 {
		t.Fatalf("%v, %v", info, err)
	}
	d.fill()
	warned := 0
	for ; len(d.told()) == 0; warned++ {
		d.grant(warned, t0) // none is refused before the trouble is told
	}
	if _, err := os.Stat(ballast); !errors.Is(err, os.ErrNotExist) || !errors.Is(d.Health(t.Context()), store.ErrNoSpace) {
		t.Errorf("the ballast: %v, health: %v", err, d.Health(t.Context()))
	}
	refused := d.exhaust(warned)
	t.Logf("%d commits fitted into 1 MiB of ballast", refused-warned)
	if refused-warned < 20 {
		t.Errorf("only %d commits fitted into the ballast", refused-warned)
	}
	d.wantGranted(refused)
	d.free()
	if info, err := os.Stat(ballast); err != nil || info.Size() != 1<<20 {
		t.Errorf("the ballast was not made again: %v, %v", info, err)
	}
}

func TestStoreOpensOnAFullDiskByItsBallast(t *testing.T) {
	t.Parallel()
	d := newDisk(t, 32, 1<<20)
	d.create(100)
	d.grant(0, t0)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d.fill()
	d.openWith(1 << 20)
	d.grant(1, t0)
	if err := d.Health(t.Context()); !errors.Is(err, store.ErrNoSpace) {
		t.Errorf("health on a full disk: %v", err)
	}
	d.wantGranted(2)
	d.free()
}

func TestStoreWithoutBallastSaysThatTheDiskIsFullAtOpen(t *testing.T) {
	t.Parallel()
	d := newDisk(t, 32, -1)
	d.create(100)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d.fill()
	s, err := store.Open(t.Context(), store.Options{Path: d.path, BallastBytes: -1})
	if err == nil {
		_ = s.Close()
	}
	if !errors.Is(err, store.ErrNoSpace) || !strings.Contains(err.Error(), d.path) {
		t.Errorf("opened: %v", err)
	}
	if err := os.Remove(d.filler()); err != nil {
		t.Fatal(err)
	}
	d.openWith(-1)
}

func TestGroupOnAFillingDiskIsAnsweredOneByOne(t *testing.T) {
	t.Parallel()
	const tasks = 12_000
	d := newDisk(t, 16, -1)
	d.create(tasks)
	d.fill()
	granted := make([]bool, tasks)
	var refused atomic.Int64
	var all sync.WaitGroup
	for side := range 64 {
		all.Go(func() {
			for i := side; i < tasks && refused.Load() < 200; i += 64 {
				_, err := d.Grant(t.Context(), grantOf(i), t0)
				granted[i] = err == nil
				switch {
				case errors.Is(err, store.ErrNoSpace):
					refused.Add(1)
				case err != nil:
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if refused.Load() < 200 {
		t.Fatalf("the disk was never full: %d refused", refused.Load())
	}
	d.free()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d.openWith(-1)
	for i, want := range granted {
		k, err := d.GetTask(t.Context(), taskID(i))
		if err != nil || (k.State.Attempt == 1) != want {
			t.Fatalf("task %d: granted %t, found %+v, %v", i, want, k.State, err)
		}
	}
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

func TestFileSizeLimitOfTheProcessIsNoSpace(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(limitTasks)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	// 8 MiB in blocks of 512 bytes; the ballast of the child does not fit either.
	cmd, lines := startChild(t, "limit", b.path, "sh", "-c", `ulimit -f 16384; exec "$0"`)
	granted, refusal := 0, ""
	for lines.Scan() && refusal == "" {
		if granted++; strings.HasPrefix(lines.Text(), "refused") {
			granted, refusal = granted-1, lines.Text()
		}
	}
	health := lines.Text()
	if err := cmd.Wait(); err != nil {
		t.Errorf("the child ended with %v", err)
	}
	if !strings.HasPrefix(refusal, "refused true") || !strings.Contains(refusal, "(778)") || health != "health true" || granted == 0 {
		t.Errorf("granted %d, then %q, %q", granted, refusal, health)
	}
	d := &disk{bundle: b}
	d.openWith(0)
	d.wantGranted(granted)
}

func TestBackupOntoAFullDiskLeavesNothing(t *testing.T) {
	t.Parallel()
	d := newDisk(t, 32, -1)
	b := setup(t)
	b.create(2000)
	d.fill()
	_, err := store.MakeBackup(t.Context(), b.path, filepath.Join(d.folder, "backup.db"))
	if !errors.Is(err, store.ErrNoSpace) {
		t.Errorf("backed up: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(d.folder, "backup*")); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
