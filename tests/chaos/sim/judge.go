package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"muster/internal/protocol"
	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
)

// evidence gathers what is judged, while headquarters still stands. The reports are
// looked at after the database: a revision that is published in between has files that
// nobody asks for.
func (w *world) evidence(ctx context.Context) (p Played, err error) {
	w.mu.Lock()
	hq, before := w.hq, w.early
	p.Owed = slices.Clone(w.owed)
	w.mu.Unlock()
	if hq == nil {
		return p, errors.New("headquarters is not there")
	}
	at, _ := w.now()
	if p.Store, err = readStore(ctx, hq.folder, at); err != nil {
		return p, err
	}
	p.Reports = w.look()
	if before != nil {
		p.Earlier = &before.store
	}
	cfg, err := w.hqConfig(hq.folder)
	p.Limits = checker.Limits{MaxRunning: cfg.Admission.MaxRunning, GrantsPerSecond: cfg.Admission.GrantsPerSecond, GrantBurst: cfg.Admission.GrantBurst,
		UploadsInFlight: cfg.Collection.InFlight, UploadBytesPerSecond: cfg.Collection.BytesPerSecond, UploadBurstBytes: cfg.Collection.BurstBytes,
		Slack: time.Millisecond, Settle: settle, Reoffer: reoffer}
	return p, err
}

// reoffer allows for a line that is not slowed down, on which no offer is kept back:
// those are faults of its terminal.
const reoffer = 5 * time.Second

// Judge reads the histories in a folder and applies every rule.
func Judge(folder string, p Played) (checker.Verdict, history.History, error) {
	h, err := history.Read(filepath.Join(folder, "history"))
	if err != nil {
		return checker.Verdict{}, h, err
	}
	p.History = h.Lines
	v, err := checker.Judge(p.Evidence)
	if err != nil {
		return v, h, err
	}
	for _, rule := range []func([]history.Line, Played) ([]checker.Finding, checker.Weights){kept, obeyed, owned} {
		found, weights := rule(h.Lines, p)
		v.Findings = append(v.Findings, found...)
		v.Weights.Add(weights)
	}
	return v, h, nil
}

// Claimed are the parts of the rules that enough seeds judge something of. Samples,
// the audit, budgets of runs and looks at single topics are others' to judge.
func Claimed() []string {
	return []string{"I1 receipts", "I1 values", "I1 kept", "I2 tasks", "I2 grants", "I2 earlier", "I2 events", "I3 marks", "I3 owned",
		"I4 runs", "I4 replies", "I4 lists", "I4 earlier", "I4 retries", "I5 at the barrier", "I5 moved", "I5 late", "I5 retried", "I5 merged", "I5 revisions", "I5 files", "I5 looks",
		"I6 running", "I6 seen to run", "I6 grants", "I6 uploads", "I6 bytes", "I7 barriers", "I8 requests", "I8 receipts",
		"I9 cancels", "I9 confirmed", "I9 withdrawn", "I9 obeyed", "I10 offers", "I11 messages", "I12 reports", "I12 ends",
		"retained tellings", "invented answers", "invented reported"}
}

// obeyed: what a terminal has heard the cancel of, it does not start.
func obeyed(lines []history.Line, _ Played) (found []checker.Finding, weights checker.Weights) {
	weights = checker.Weights{}
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
			weights["I9 obeyed"]++
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
	return found, weights
}

// atOnce allows for what happens at one moment of virtual time.
const atOnce = 50 * time.Millisecond

// owned: a terminal answers for what it executed, and for what it was killed in the
// middle of, whatever else it did since.
func owned(lines []history.Line, p Played) (found []checker.Finding, weights checker.Weights) {
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
	weights = checker.Weights{}
	for _, o := range p.Owed {
		t := tasks[o.Task]
		if t.SettledAt != 0 && t.SettledAt <= o.At {
			continue // it was over, and may have been given up
		}
		weights["I3 owned"]++
		answered := said[attempt{o.Who, o.Task, o.Attempt}]
		for n := o.Attempt + 1; n <= t.Attempt; n++ { // by a stored result; or the next attempt took the place of a failure that was not sent yet
			answered = answered || said[attempt{o.Who, o.Task, n}] && (!o.Killed || !done[attempt{o.Who, o.Task, n}])
		}
		if !answered {
			how := "executed it until"
			if o.Killed {
				how = "was killed in the middle of it at"
			}
			found = append(found, checker.Finding{Rule: checker.Executions, Task: o.Task, Attempt: o.Attempt,
				Text: fmt.Sprintf("%s %s %d and never answered for it", o.Who, how, o.At)})
		}
	}
	return found, weights
}

// kept: an agent says each answer again until it has the receipt for it. All
// faults are long over, so that each was taken in.
func kept(lines []history.Line, _ Played) (found []checker.Finding, weights checker.Weights) {
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
	return found, checker.Weights{"I1 kept": len(results)}
}
