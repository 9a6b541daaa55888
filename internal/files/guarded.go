package files

import (
	"errors"
	"fmt"
	"os"
	"runtime"
)

// ErrOthersWrite says that others than its owner may write a file that decides who may do
// what.
var ErrOthersWrite = errors.New("others may write it, and let in whom they like")

// CheckGuarded says what is wrong with the rights to a file that tells who may log in: with
// ErrOthersWrite that its group or everybody may write it, else that everybody may read it,
// and guess at the passwords behind its hashes. "" is no file. Windows keeps rights elsewhere
// and is not looked at.
func CheckGuarded(path string) error {
	if path == "" || runtime.GOOS == "windows" {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return Mended(err)
	}
	mode := info.Mode().Perm()
	switch {
	case mode&0o022 != 0:
		return fmt.Errorf("%s has mode %04o: %w; run: chmod go-w,o= %s", path, mode, ErrOthersWrite, path)
	case mode&0o004 != 0:
		return fmt.Errorf("%s has mode %04o: everybody may read it, and guess at the passwords behind its hashes; run: chmod o= %s", path, mode, path)
	}
	return nil
}
