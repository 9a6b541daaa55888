package bench

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// peersVariable names the folder of the peers' program: one that measures other
// systems at the same job and prints lines of JSON.
const peersVariable = "MUSTER_PEERS"

// buildPeers builds the peers' program from a copy of its folder, which nobody may
// have to write to.
func buildPeers(ctx context.Context, from, into string) (program string, err error) {
	source := filepath.Join(into, "source")
	if err := os.RemoveAll(source); err != nil {
		return "", err
	}
	if err := os.CopyFS(source, os.DirFS(from)); err != nil {
		return "", fmt.Errorf("cannot copy the peers' program: %w", err)
	}
	err = filepath.WalkDir(source, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chmod(path, 0o700)
	})
	if err != nil {
		return "", err
	}
	program, err = filepath.Abs(filepath.Join(into, "h"))
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", program, ".")
	cmd.Dir = source
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build the peers' program: %w: %s", err, out)
	}
	return program, nil
}

// lacks names the program that a peer needs and this machine has not; "" when it
// has all.
func lacks(s step) string {
	line := strings.Join(s.args, " ")
	for word, places := range map[string][]string{
		"asynq": {"redis-server"}, "mosq": {"mosquitto", "/usr/sbin/mosquitto"}, "river": {"/usr/lib/postgresql/15/bin/postgres"},
		"ingest": {"/usr/lib/postgresql/15/bin/postgres", "redis-server"},
	} {
		if !strings.Contains(line, word) {
			continue
		}
		found := 0
		for _, place := range places {
			if _, err := exec.LookPath(place); err == nil {
				found++
			}
		}
		if found == 0 || word == "ingest" && found < 2 {
			return strings.Join(places, " or ")
		}
	}
	return ""
}
