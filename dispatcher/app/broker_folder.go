package app

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"muster/dispatcher/internal/identity"
	"muster/internal/trust"
)

// shareEvery is how soon a broker that runs apart can see what changed: within
// the seconds in which a revoked terminal must be gone.
const shareEvery = time.Second

// startSharing keeps identity.broker_folder as the identity folder is. What the
// broker needs is there when it returns, be it of an earlier start.
func (hq *headquarters) startSharing(ctx context.Context, cleanup *stack) error {
	id := hq.cfg.Identity
	if id.BrokerFolder == "" {
		return nil
	}
	trouble := share(id.Folder, id.BrokerFolder)
	if trouble != nil && !shared(id.BrokerFolder) {
		return trouble
	}
	if trouble != nil { // such as a full disk
		hq.log.Error("cannot give the broker its files, it has those of an earlier start", "error", trouble)
	}
	failing := trouble != nil
	hq.every(ctx, cleanup, "the files of the broker", shareEvery, shareEvery, func(context.Context) {
		err := share(id.Folder, id.BrokerFolder)
		if err != nil && !failing { // once for each trouble
			hq.log.Error("cannot give the broker its files", "error", err)
		}
		failing = err != nil
	})
	return nil
}

var sharedFiles = []string{identity.FileAuthority, identity.FileServerKey, identity.FileServer, identity.FileRevoked}

// shared says whether the folder has all that a broker needs.
func shared(folder string) bool {
	return !slices.ContainsFunc(sharedFiles, func(name string) bool {
		_, err := os.Stat(filepath.Join(folder, name))
		return err != nil
	})
}

// share copies what differs.
func share(from, to string) error {
	for _, name := range sharedFiles {
		want, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return fmt.Errorf("cannot copy for the broker: %w", err)
		}
		has, err := os.ReadFile(filepath.Join(to, name))
		if err == nil && bytes.Equal(has, want) {
			continue
		}
		if err := trust.WritePrivate(filepath.Join(to, name), want); err != nil {
			return err
		}
	}
	return nil
}
