package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/store"
	"muster/tests/disk"
)

// killed is a disk with what a store leaves that was killed after n grants, and
// not a byte of room.
func killed(t *testing.T, n int, without ...string) *cramped {
	t.Helper()
	d := &cramped{folder: t.TempDir()}
	disk.Small(t, d.folder, 40)
	b := &bundle{t: t, path: filepath.Join(d.folder, "living", "muster.db")}
	if err := os.Mkdir(filepath.Dir(b.path), 0o700); err != nil {
		t.Fatal(err)
	}
	b.open()
	b.create(4000)
	b.reopen()
	for i := range n {
		b.grant(i, t0)
	}
	d.bundle = &bundle{t: t, path: filepath.Join(d.folder, "muster.db")}
	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
		if !slices.Contains(without, suffix) {
			copyFile(t, b.path+suffix, d.path+suffix)
		}
	}
	b.close()
	if err := os.RemoveAll(filepath.Dir(b.path)); err != nil {
		t.Fatal(err)
	}
	d.fill()
	t.Cleanup(func() {
		if d.Store != nil {
			d.close()
		}
	})
	return d
}

func TestKilledStoreOpensWithoutAByteOfRoomAndOwesWhatAStartWrites(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 400} {
		d := killed(t, n)
		d.openWith(-1)
		err := d.ExtendLeases(store.Owed(t.Context(), "leases"), at(time.Hour), t0)
		if want := n > 0; errors.Is(err, store.ErrOwed) != want || !want && err != nil {
			t.Errorf("%d grants: the leases: %v", n, err)
		}
		if _, _, _, err := d.ReplacePlaces(store.Owed(t.Context(), "register"), "", somePlaces, t0); !errors.Is(err, store.ErrOwed) {
			t.Errorf("the register: %v", err)
		}
		for number := range int64(3) {
			if err := d.NoteNumber(store.Owed(t.Context(), "number"), 40+number); err != nil {
				t.Error(err)
			}
		}
		if _, err := d.Grant(t.Context(), grantOf(n), t0); !errors.Is(err, store.ErrNoSpace) {
			t.Errorf("granted without room: %v", err)
		}
		if err := d.Health(t.Context()); !errors.Is(err, store.ErrNoSpace) {
			t.Errorf("health without room: %v", err)
		}
		d.wantGranted(n)
		d.free()
		d.wantStarted(n)
	}
}

var somePlaces = []store.Place{{StoreID: "new", Name: "New", TimeZone: "UTC"}}

// wantStarted checks that what was owed is done, with n grants before it.
func (d *cramped) wantStarted(n int) {
	d.t.Helper()
	places, err := d.ListPlaces(d.t.Context())
	if err != nil || len(places) != 1 || places[0].StoreID != "new" {
		d.t.Errorf("the register is %v, %v", places, err)
	}
	if number, err := d.LastNumber(d.t.Context()); err != nil || number != 42 {
		d.t.Errorf("the number is %d, %v", number, err)
	}
	running, err := d.ListRunning(d.t.Context())
	if err != nil || len(running) != n {
		d.t.Errorf("%d run, %v", len(running), err)
	}
	for _, r := range running {
		if !r.Attempt.LeaseUntil.Equal(at(time.Hour)) {
			d.t.Fatalf("the lease of %s ends at %s", r.Task.TaskID, r.Attempt.LeaseUntil)
		}
	}
}

// Who writes next is to find what is owed: it must not wait for the look of the
// writer once a second.
func TestWhatIsOwedIsDoneBeforeAnythingElse(t *testing.T) {
	t.Parallel()
	d := killed(t, 1)
	d.openWith(-1)
	if _, _, _, err := d.ReplacePlaces(store.Owed(t.Context(), "register"), "", somePlaces, t0); !errors.Is(err, store.ErrOwed) {
		t.Fatal(err)
	}
	if err := os.Remove(disk.Filler(d.folder)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Grant(t.Context(), grantOf(1), t0); err != nil {
		t.Fatal(err)
	}
	if places, err := d.ListPlaces(t.Context()); err != nil || len(places) != 1 {
		t.Errorf("after the next write the register is %v, %v", places, err)
	}
}

// Without the file that readers share nothing can be read: there is no honest
// start. The refusal says what to do, and the next try succeeds.
func TestKilledStoreWithoutRoomForItsIndexIsRefusedUntilThereIsRoom(t *testing.T) {
	t.Parallel()
	d := killed(t, 1, "-shm")
	for range 2 {
		_, err := store.Open(t.Context(), store.Options{Path: d.path, BallastBytes: -1})
		if !errors.Is(err, store.ErrNoSpace) {
			t.Fatalf("opened: %v", err)
		}
		for _, part := range []string{d.path, "it is as it was: make room on the disk of " + d.folder, "start again"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %q", err, part)
			}
		}
	}
	if err := os.Remove(disk.Filler(d.folder)); err != nil {
		t.Fatal(err)
	}
	d.openWith(-1)
	d.wantGranted(1)
}
