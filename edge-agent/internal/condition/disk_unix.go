//go:build !windows

package condition

import "golang.org/x/sys/unix"

func diskFreeMB(folder string) *int64 {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return nil
	}
	free := int64(s.Bavail) * int64(s.Bsize) >> 20 //nolint:unconvert // 32 bits wide on arm
	return &free
}
