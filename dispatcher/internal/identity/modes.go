package identity

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"muster/internal/files"
	"muster/internal/trust"
)

// checkModes looks at the folder and everything in it. What is secret must be
// its owner's alone; what is public may be read by others, never written.
func checkModes(folder string) error {
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		return errors.New("it is not there; dispatcher init makes one")
	}
	return filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = files.CheckPlain(path)
		}
		if err != nil {
			return files.Mended(err)
		}
		switch rel, _ := filepath.Rel(folder, path); rel { // path lies below folder
		case FileAuthority, FileServer, FileRevoked:
			return checkPublic(path)
		}
		return trust.CheckPrivate(path)
	})
}

func checkPublic(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if runtime.GOOS == "windows" || info.Mode().Perm()&0o022 == 0 {
		return nil
	}
	return fmt.Errorf("%s has mode %04o: others may write it; run: chmod 644 %s", path, info.Mode().Perm(), path)
}
