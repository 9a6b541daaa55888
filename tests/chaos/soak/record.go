package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"muster/internal/protocol"
)

// recordFile has, in a soak's folder, what its judge needs beside histories, databases
// and reports.
const recordFile = "soak.json"

// record is that file. Its paths are below the folder, which may be moved.
type record struct {
	Duration  time.Duration `json:"duration"` // nanoseconds
	Seed      uint64        `json:"seed"`
	Terminals int           `json:"terminals"`
	Agents    int           `json:"agents"`
	Over      bool          `json:"over"` // false: it goes on, or was interrupted
	Epochs    []epoch       `json:"epochs"`
	Findings  []string      `json:"findings"` // of the soak itself
}

// record writes the file anew.
func (s *soak) record(over bool) error {
	s.mu.Lock()
	r := record{s.opts.duration, s.opts.seed, s.opts.terminals, s.opts.agents, over, nil, s.findings}
	for _, e := range s.epochs {
		e.Folder, e.Backup = s.below(e.Folder), s.below(e.Backup)
		r.Epochs = append(r.Epochs, e)
	}
	s.mu.Unlock()
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.path(recordFile+".new"), text, 0o600); err != nil {
		return err
	}
	return os.Rename(s.path(recordFile+".new"), s.path(recordFile))
}

// below is a path of the soak's folder as seen from it; "" stays.
func (s *soak) below(path string) string {
	if rel, err := filepath.Rel(s.dir, path); path != "" && err == nil {
		return rel
	}
	return ""
}

// recorded is a soak that was, as its folder tells.
func recorded(folder string) (*soak, error) {
	dir, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(dir, recordFile))
	if err != nil {
		return nil, fmt.Errorf("cannot judge %s again: %w: a soak writes it at each restore and at its end", folder, err)
	}
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("cannot judge %s again: %s: %w", folder, recordFile, err)
	}
	topics, err := protocol.NewTopics(protocol.DefaultRoot)
	if err != nil {
		return nil, err
	}
	o := options{duration: r.Duration, seed: r.Seed, terminals: r.Terminals, agents: r.Agents}
	s := &soak{opts: o, plan: newPlan(r.Duration, r.Agents, r.Seed), dir: dir, topics: topics, begin: time.Now(), findings: r.Findings,
		ledger: &ledger{folder: filepath.Join(dir, "history")}}
	for _, e := range r.Epochs {
		e.Folder = s.path(e.Folder)
		if e.Backup != "" {
			e.Backup = s.path(e.Backup)
		}
		s.epochs = append(s.epochs, e)
	}
	if !r.Over {
		s.say("it was not over: %d epochs are judged, up to its last restore", len(s.epochs))
	}
	return s, nil
}

// judgeAgain judges what a soak has kept. The databases are opened as they are, and
// nothing of the evidence is changed.
func judgeAgain(ctx context.Context, folder string) error {
	s, err := recorded(folder)
	if err != nil {
		return err
	}
	found, _, err := s.verdict(ctx)
	if err != nil {
		return err
	}
	s.say("%d findings", len(found))
	return broken(len(found))
}
