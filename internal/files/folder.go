package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// systems are the folders of Linux where no file of a program stays: what stands
// there is the system itself (proc(5), sysfs(5)), or is gone at the next start.
func systems() []string { return []string{"/proc", "/sys", "/dev"} }

// CheckFolder returns why a program cannot keep its files in a folder, by its name
// alone: the disk is not looked at, so that one that is away stops nobody.
func CheckFolder(path string) error {
	whole, err := filepath.Abs(path)
	switch {
	case path == "":
		return errors.New("is required: name a folder")
	case strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("%q holds a control character: name a folder", path)
	case err != nil:
		return err
	case filepath.Dir(whole) == whole:
		return fmt.Errorf("%q is the top of a disk: name a folder in it", path)
	}
	if runtime.GOOS != "linux" || Inside("/dev/shm", whole) {
		return nil
	}
	for _, system := range systems() {
		if Inside(system, whole) {
			return fmt.Errorf("%q is in %s, which is the system's own and keeps no files: name a folder on a disk, such as /var/lib/muster", path, system)
		}
	}
	return nil
}

// LookAtFolder returns why a folder can be neither used nor made, as far as can be
// seen without writing: what stands there, or above it, is no folder.
func LookAtFolder(path string) error {
	whole, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	for at := whole; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		switch {
		case err == nil && !info.IsDir():
			return fmt.Errorf("%s is a file, not a folder: move it away, or name another place", at)
		case err == nil, filepath.Dir(at) == at:
			return nil
		}
	}
}

// MakeFolder is os.MkdirAll with errors of Mended.
func MakeFolder(path string, mode os.FileMode) error {
	if err := LookAtFolder(path); err != nil {
		return fmt.Errorf("cannot make the folder: %w", err)
	}
	if err := os.MkdirAll(path, mode); err != nil {
		return fmt.Errorf("cannot make the folder: %w", Mended(err))
	}
	return nil
}

// Inside says whether path is folder, or somewhere in it, by their names alone.
func Inside(folder, path string) bool {
	folder, errFolder := filepath.Abs(folder)
	path, errPath := filepath.Abs(path)
	rest, err := filepath.Rel(folder, path)
	return errors.Join(errFolder, errPath, err) == nil && rest != ".." && !strings.HasPrefix(rest, ".."+string(filepath.Separator))
}
