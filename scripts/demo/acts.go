package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"muster/internal/protocol"
)

func (p part) describe() string {
	switch p {
	case well:
		return "answers"
	case outdated:
		return "an outdated executor answers with other field names"
	case crashing:
		return "loses power in the middle of its work"
	case latecomer:
		return "is off until the report is out"
	case absent:
	}
	return "stays off"
}

// crash waits until the executor of the unlucky store works, kills its agent,
// and starts it again. It returns what there is to tell of it.
func (s *stage) crash(ctx context.Context) (string, error) {
	one := s.only(crashing)
	if err := s.waitForWork(ctx, one, 15*time.Second); err != nil {
		return "", err
	}
	for _, c := range s.family.children {
		if c.name == one.id {
			if err := c.kill(); err != nil {
				return "", err
			}
		}
	}
	return fmt.Sprintf("power cut at %s: its agent was killed while it worked (kill -9), and starts again", one.name), s.startAgent(ctx, one)
}

// waitForWork waits until the executor of a store says that it works.
func (s *stage) waitForWork(ctx context.Context, one shop, within time.Duration) error {
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		_, err := os.Stat(s.path("stores", one.id, working))
		if err == nil || !errors.Is(err, os.ErrNotExist) {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-deadline.C:
			return fmt.Errorf("the executor of %s was not at work within %s", one.id, within)
		}
	}
}

// journal lists the phases in the journal of a store's agent, oldest first. A
// line is a checksum, a space and a JSON object; see docs/adr/0004.
func (s *stage) journal(one shop) (phases []string, err error) {
	data, err := os.ReadFile(s.path("stores", one.id, "agent", "journal.log"))
	if err != nil {
		return nil, fmt.Errorf("cannot read the journal of %s: %w", one.id, err)
	}
	for line := range bytes.Lines(data) {
		_, doc, found := bytes.Cut(line, []byte(" "))
		var entry struct {
			Phase string `json:"phase"`
		}
		if found && json.Unmarshal(doc, &entry) == nil && entry.Phase != "" {
			phases = append(phases, entry.Phase)
		}
	}
	return phases, nil
}

// snapshot hashes the files of a revision.
func snapshot(root string, summary protocol.Summary) (sums map[string]string, found findings) {
	sums = map[string]string{}
	for _, file := range summary.Files {
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(summary.Folder), file.Name))
		if err != nil {
			found.add("a file of revision %d is missing: %v", summary.Revision, err)
			continue
		}
		sum := sha256.Sum256(data)
		sums[file.Name] = hex.EncodeToString(sum[:])
	}
	return sums, found
}

// finish looks at what is left when all is over, and notes what was looked at.
func (s *stage) finish() (found findings) {
	for _, one := range s.shops {
		if one.part != well {
			continue
		}
		phases, err := s.journal(one)
		if err != nil {
			found.add("%v", err)
			continue
		}
		// "granted" is on disk before an execution starts, and never without one.
		if n := strings.Count(strings.Join(phases, "\n"), "granted"); n != 1 {
			found.add("%s started %d executions, expected 1: %v", one.id, n, phases)
		}
	}
	more, files := checkSecrets(s.work, s.shops, s.known)
	found = append(found, more...)
	secrets := 0
	for _, known := range s.known {
		secrets += len(known.secrets)
	}
	s.looked = []string{
		"every file of both revisions has the size and sha256 that its manifest names",
		"revision 1 has the same bytes as before revision 2",
		"lines and errors of yesterday are those that the demo wrote, in every zone and encoding",
		fmt.Sprintf("each of the %d well stores started its work once", count(s.shops, well)),
		fmt.Sprintf("none of %d secrets stands in any of %d files of headquarters and agents", secrets, files),
	}
	return found
}
