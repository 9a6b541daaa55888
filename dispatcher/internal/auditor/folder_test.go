package auditor_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/auditor"
)

// TestAFolderThatIsAwayAtTheStartIsWaitedFor, and not made: it may be a share.
func TestAFolderThatIsAwayAtTheStartIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t, nil)
		d.audited()
		d.Folder = filepath.Join(d.dir, "share")
		d.start()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if _, err := os.Stat(d.Folder); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("the folder is there: %v", err)
		}
		if err := os.Mkdir(d.Folder, 0o700); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if h, err := auditor.ReadHeads(auditor.HeadsFile(d.Folder), nil); err != nil || len(h.Noted) == 0 {
			t.Errorf("%+v, %v", h, err)
		}
	})
}

// A share that is away says so in many ways, and keeps no headquarters from starting.
// What a person has to put right does.
func TestOnlyWhatAPersonHasToPutRightEndsTheStart(t *testing.T) {
	t.Parallel()
	for fault, want := range map[error]bool{
		syscall.ENOSPC: true, syscall.EDQUOT: true, syscall.EROFS: true, syscall.EIO: true, syscall.ENOENT: true,
		syscall.ESTALE: true, syscall.ENOTCONN: true, syscall.EHOSTDOWN: true, syscall.ETIMEDOUT: true, syscall.EMFILE: true,
		syscall.EACCES: false, syscall.EPERM: false, syscall.EEXIST: false, syscall.ENOTDIR: false, syscall.EISDIR: false, syscall.ELOOP: false,
		errors.New("path escapes from parent"): false,
	} {
		if err := fmt.Errorf("open audit: %w", fault); auditor.Passes(err) != want {
			t.Errorf("%v: passes %t", err, !want)
		}
	}
	d := setup(t, nil)
	if err := os.WriteFile(filepath.Join(d.dir, "audit"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := auditor.New(d.Config).Start(t.Context()); err == nil || !strings.Contains(err.Error(), auditor.HeadsFile(d.dir)) || !strings.Contains(err.Error(), "move away what stands there") {
		t.Errorf("a file in the folder's place: %v", err)
	}
}

func TestStopNeedsNoStart(t *testing.T) {
	t.Parallel()
	auditor.New(auditor.Config{Folder: filepath.Join(t.TempDir(), "none")}).Stop()
	if h, err := auditor.ReadHeads(filepath.Join(t.TempDir(), "none"), nil); err != nil || len(h.Noted) != 0 {
		t.Errorf("%+v, %v", h, err)
	}
}

func TestHeadsStayInTheReportsFolder(t *testing.T) {
	t.Parallel()
	d := setup(t, nil)
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(d.dir, "audit")); err != nil {
		t.Fatal(err)
	}
	if err := auditor.New(d.Config).Start(t.Context()); err == nil {
		t.Error("it followed a link out of the folder")
	}
	if files, err := os.ReadDir(outside); err != nil || len(files) != 0 {
		t.Errorf("%v, %v", files, err)
	}
}
