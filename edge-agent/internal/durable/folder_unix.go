//go:build !windows

package durable

import (
	"errors"
	"fmt"
	"os"
)

// SyncFolder makes renames and deletions inside folder survive a power cut.
func SyncFolder(folder string) error {
	f, err := os.Open(folder)
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err != nil {
		return fmt.Errorf("cannot sync folder %s: %w", folder, err)
	}
	return nil
}
