package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"muster/dispatcher/internal/store"
	"muster/tests/disk"
)

// cramped is a small file system of its own, and the store on it.
type cramped struct {
	*bundle
	folder string

	mu      sync.Mutex
	trouble []error
}

func newDisk(t *testing.T, megabytes int, ballast int64) *cramped {
	t.Helper()
	d := &cramped{folder: t.TempDir()}
	disk.Small(t, d.folder, megabytes)
	d.bundle = &bundle{t: t, path: filepath.Join(d.folder, "muster.db")}
	d.openWith(ballast)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func (d *cramped) openWith(ballast int64) {
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
func (d *cramped) told() []error {
	d.t.Helper()
	if err := d.Told(d.t.Context()); err != nil && !errors.Is(err, store.ErrNoSpace) {
		d.t.Fatal(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]error{}, d.trouble...)
}

// fill leaves not a byte on the disk.
func (d *cramped) fill() {
	d.t.Helper()
	disk.Fill(d.t, d.folder)
}

// free gives back what fill took, and waits until the store says that it writes.
func (d *cramped) free() {
	d.t.Helper()
	disk.Free(d.t, d.folder)
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
func (d *cramped) exhaust(from int) int {
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
	if err := os.Remove(disk.Filler(d.folder)); err != nil {
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
	d := &cramped{bundle: b}
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
