package identity_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"muster/dispatcher/internal/identity"
)

func replace(t *testing.T, id *identity.Identity, r identity.Rotation, now time.Time) identity.Rotated {
	t.Helper()
	made, err := id.Replace(r, now)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// keyFiles counts the private signing keys of a folder.
func keyFiles(t *testing.T, folder string) int {
	t.Helper()
	files, err := os.ReadDir(filepath.Join(folder, identity.FolderSigning))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

func TestAStolenKeyIsStruckOutAtOnce(t *testing.T) {
	folder := create(t)
	id := open(t, folder, start)
	stolen := id.Signer(start)
	replace(t, id, identity.Rotation{Approval: "ap-1"}, start) // one waits already
	now := start.Add(time.Hour)
	made := replace(t, id, identity.Rotation{Approval: "ap-2", AtOnce: true}, now)
	for name, one := range map[string]*identity.Identity{"now": id, "after a restart": open(t, folder, now)} {
		next := one.Signer(now)
		if next.KeyID() == stolen.KeyID() || next.KeyID() != made.KeyID || !made.From.Equal(now) {
			t.Errorf("%s: %s signs, made %+v", name, next.KeyID(), made)
		}
		if keys := one.Keys(); len(keys.Keys) != 1 || keys.Version != 3 {
			t.Errorf("%s: %+v", name, keys)
		}
		if believed(t, one, stolen, start) || believed(t, one, stolen, now) {
			t.Errorf("%s: the stolen key is believed", name)
		}
		if !believed(t, one, next, now) || !believed(t, one, next, now.Add(-time.Second)) {
			t.Errorf("%s: the new key is not believed, or not for what was written a moment ago", name)
		}
	}
	if n := keyFiles(t, folder); n != 1 {
		t.Errorf("%d keys are in the folder", n)
	}
}

// A crash between the rotation and the note of its approval lets the same
// approval be given again.
func TestOneApprovalMakesOneRotation(t *testing.T) {
	for _, atOnce := range []bool{false, true} {
		folder := create(t)
		id := open(t, folder, start)
		first := replace(t, id, identity.Rotation{Approval: "ap-1", AtOnce: atOnce}, start)
		later := start.Add(50 * time.Minute)
		for _, one := range []*identity.Identity{id, open(t, folder, later)} {
			if again := replace(t, one, identity.Rotation{Approval: "ap-1", AtOnce: atOnce}, later); again.KeyID != first.KeyID || !again.From.Equal(first.From.Time) {
				t.Errorf("again: %+v after %+v", again, first)
			}
			if made, ok := one.RotatedBy("ap-1"); !ok || made.KeyID != first.KeyID || one.Keys().Version != 2 {
				t.Errorf("remembered %+v, %t, version %d", made, ok, one.Keys().Version)
			}
			if _, ok := one.RotatedBy(""); ok {
				t.Error("nobody's approval made a rotation")
			}
		}
		// It holds although another one came between, and through Prune.
		id = open(t, folder, later)
		replace(t, id, identity.Rotation{Approval: "ap-2", AtOnce: true}, later)
		if again := replace(t, id, identity.Rotation{Approval: "ap-1", AtOnce: atOnce}, later); again.KeyID != first.KeyID || id.Keys().Version != 3 {
			t.Errorf("after another one: %+v, version %d", again, id.Keys().Version)
		}
	}
}

func TestARotationThatFailsIsNotRemembered(t *testing.T) {
	folder := create(t)
	id := open(t, folder, start)
	authority, aside := filepath.Join(folder, identity.FileAuthorityKey), filepath.Join(t.TempDir(), "ca.key")
	if err := os.Rename(authority, aside); err != nil {
		t.Fatal(err)
	}
	for _, atOnce := range []bool{false, true} {
		_, err := id.Replace(identity.Rotation{Approval: "ap-1", AtOnce: atOnce}, start)
		wantError(t, err, "the authority's key is not there; put ca.key back")
		if _, made := id.RotatedBy("ap-1"); made || keyFiles(t, folder) != 1 || id.Keys().Version != 1 {
			t.Fatalf("something was made: %+v, %d files", id.Keys(), keyFiles(t, folder))
		}
	}
	if err := os.Rename(aside, authority); err != nil {
		t.Fatal(err)
	}
	replace(t, id, identity.Rotation{Approval: "ap-1"}, start)
	if _, err := id.Replace(identity.Rotation{Approval: "ap-2"}, start); !errors.Is(err, identity.ErrRotating) {
		t.Errorf("while one waits: %v", err)
	}
}

func TestTheListOfRotationsIsBounded(t *testing.T) {
	folder := create(t)
	id := open(t, folder, start)
	for i := range 100 {
		replace(t, id, identity.Rotation{Approval: fmt.Sprint("ap-", i), AtOnce: true}, start)
	}
	if n := len(id.Made()); n != 64 {
		t.Errorf("%d are remembered", n)
	}
	later := start.Add(25 * time.Hour)
	replace(t, id, identity.Rotation{Approval: "late", AtOnce: true}, later)
	if n := len(open(t, folder, later).Made()); n != 1 {
		t.Errorf("%d are remembered a day later", n)
	}
}
