package sim

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"muster/internal/protocol"
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
	return append(found, kept(h.Lines)...), h, err
}

// kept: an agent says each answer again until it has the receipt for it. All
// faults are long over, so that each was taken in.
func kept(lines []history.Line) (found []checker.Finding) {
	type answer struct {
		who, task string
		attempt   int
		sum       string
	}
	receipted := map[answer]bool{}
	var sent []history.Line
	var results []protocol.Result
	for _, l := range lines {
		var order protocol.Order
		var result protocol.Result
		switch {
		case l.Role != history.RoleAgent:
		case l.Act == history.ActGot && protocol.Decode([]byte(l.Payload), protocol.MaxPayloadBytes, &order) == nil && order.Order == protocol.OrderReceipt:
			receipted[answer{l.Who, order.TaskID, order.Attempt, order.SHA256}] = true
		case l.Act == history.ActSent && strings.HasSuffix(l.Topic, "/"+string(protocol.KindResult)) &&
			protocol.Decode([]byte(l.Payload), protocol.MaxPayloadBytes, &result) == nil:
			sent, results = append(sent, l), append(results, result)
		}
	}
	for i, r := range results {
		key := answer{sent[i].Who, r.TaskID, r.Attempt, r.SHA256}
		if !receipted[key] {
			receipted[key] = true // once is enough
			found = append(found, checker.Finding{Rule: checker.Receipts, Task: r.TaskID, Attempt: r.Attempt, Line: sent[i].Source,
				Text: "the answer was sent and never receipted: its terminal gave it up"})
		}
	}
	return found
}
