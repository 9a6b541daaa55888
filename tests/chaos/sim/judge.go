package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
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
func Judge(folder string, p Played) ([]checker.Finding, history.History, error) {
	h, err := history.Read(filepath.Join(folder, "history"))
	if err != nil {
		return nil, h, err
	}
	p.History = h.Lines
	found, err := checker.Check(p.Evidence)
	return slices.Concat(found, kept(h.Lines), obeyed(h.Lines), owned(h.Lines, p)), h, err
}

// obeyed: what a terminal has heard the cancel of, it does not start.
func obeyed(lines []history.Line) (found []checker.Finding) {
	type seat struct{ who, task string }
	cancelled := map[seat]struct {
		attempt int
		line    history.Line
	}{}
	for _, l := range lines {
		var order protocol.Order
		switch {
		case l.Role != history.RoleAgent:
		case l.Act == history.ActGot && protocol.Decode([]byte(l.Payload), protocol.MaxPayloadBytes, &order) == nil && order.Order == protocol.OrderCancel:
			heard := cancelled[seat{l.Who, order.TaskID}]
			if order.Attempt > heard.attempt {
				heard.attempt, heard.line = order.Attempt, l
				cancelled[seat{l.Who, order.TaskID}] = heard
			}
		case l.Act == history.ActExecuted:
			heard := cancelled[seat{l.Who, l.Task}]
			if l.Attempt <= heard.attempt && l.AtMs > heard.line.AtMs+atOnce.Milliseconds() {
				found = append(found, checker.Finding{Rule: checker.Cancelled, Task: l.Task, Attempt: l.Attempt, Line: l.Source,
					Text: fmt.Sprintf("its terminal started it after it had heard that it is cancelled (%s)", heard.line.Source)})
			}
		}
	}
	return found
}

// atOnce allows for what happens at one moment of virtual time.
const atOnce = 50 * time.Millisecond

// owned: a terminal answers for what it was killed in the middle of, whatever else
// it did since.
func owned(lines []history.Line, p Played) (found []checker.Finding) {
	type attempt struct {
		who, task string
		number    int
	}
	said, done := map[attempt]bool{}, map[attempt]bool{}
	for _, l := range lines {
		var named struct {
			TaskID  string `json:"taskId"`
			Attempt int    `json:"attempt"`
		}
		switch {
		case l.Role != history.RoleAgent:
		case l.Act == history.ActExecuted:
			done[attempt{l.Who, l.Task, l.Attempt}] = true
		case l.Act == history.ActSent && (strings.HasSuffix(l.Topic, "/"+string(protocol.KindResult)) || strings.HasSuffix(l.Topic, "/"+string(protocol.KindReady))) &&
			json.Unmarshal([]byte(l.Payload), &named) == nil:
			said[attempt{l.Who, named.TaskID, named.Attempt}] = true
		}
	}
	tasks := map[string]checker.Task{}
	for _, t := range p.Store.Tasks {
		tasks[t.TaskID] = t
	}
	for _, c := range p.Cut {
		t := tasks[c.Task]
		if t.SettledAt != 0 && t.SettledAt <= c.At {
			continue // it was over, and may have been given up
		}
		answered := said[attempt{c.Who, c.Task, c.Attempt}]
		for n := c.Attempt + 1; n <= t.Attempt; n++ { // by a stored result
			answered = answered || said[attempt{c.Who, c.Task, n}] && !done[attempt{c.Who, c.Task, n}]
		}
		if !answered {
			found = append(found, checker.Finding{Rule: checker.Executions, Task: c.Task, Attempt: c.Attempt,
				Text: fmt.Sprintf("%s was killed in the middle of it at %d and never answered for it", c.Who, c.At)})
		}
	}
	return found
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
