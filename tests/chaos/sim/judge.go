package sim

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
)

// evidence gathers what is judged, while headquarters still stands.
func (w *world) evidence(ctx context.Context) (e checker.Evidence, err error) {
	w.mu.Lock()
	hq, before := w.hq, w.early
	w.mu.Unlock()
	if hq == nil {
		return e, fmt.Errorf("headquarters is not there")
	}
	e.Reports = w.look()
	at, _ := w.now()
	if e.Store, err = readStore(ctx, hq.folder, at); err != nil {
		return e, err
	}
	if before != nil {
		e.Earlier = &before.store
	}
	l := w.plan.Limits
	e.Limits = checker.Limits{MaxRunning: l.MaxRunning, GrantsPerSecond: l.GrantsPerSecond, GrantBurst: l.GrantBurst,
		Slack: time.Millisecond, Settle: settle, Reoffer: reoffer}
	return e, nil
}

// reoffer allows for the slowest line, on which an offer may be kept back too.
const reoffer = latest + 20*time.Second

// Judge reads the histories in a folder and applies every rule.
func Judge(folder string, e checker.Evidence) ([]checker.Finding, history.History, error) {
	h, err := history.Read(filepath.Join(folder, "history"))
	if err != nil {
		return nil, h, err
	}
	e.History = h.Lines
	found, err := checker.Check(e)
	return found, h, err
}
