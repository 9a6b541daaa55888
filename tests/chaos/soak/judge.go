package main

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
)

// figures are what the judge counted on its way, for the report: what stands in
// two epochs, once.
type figures struct {
	lines, tasks, executions int
	runs                     map[string]bool
	attempts                 map[execution]bool // true: with an answer
	revisions, files         map[string]bool
	weights                  checker.Weights
}

func newFigures() figures {
	return figures{runs: map[string]bool{}, attempts: map[execution]bool{}, revisions: map[string]bool{}, files: map[string]bool{}, weights: checker.Weights{}}
}

// claimed are the parts of the rules that each soak must have something to judge of,
// and claimedLong those that one of half an hour must. Package sim claims uploads, which
// take less than the slack here, and offers that are owed for a while after a restart.
var (
	claimed = []string{"I1 receipts", "I1 values", "I2 tasks", "I2 grants", "I2 earlier", "I2 events", "I3 marks",
		"I4 runs", "I4 replies", "I5 at the barrier", "I5 revisions", "I5 files", "I5 looks", "I6 running", "I6 seen to run", "I6 grants", "I6 bytes",
		"I7 barriers", "I8 requests", "I8 receipts", "I11 messages", "I12 reports", "I12 ends", "retained tellings",
		"invented answers", "invented reported", "audit words"}
	claimedLong = []string{"I4 lists", "I4 earlier", "I5 moved", "I5 late", "I9 cancels", "I9 confirmed", "I9 withdrawn", "flat samples"}
)

// idle names what a soak claims and had nothing to judge of.
func (s *soak) idle(weights checker.Weights) []string {
	parts := claimed
	if s.opts.duration >= 30*time.Minute {
		parts = slices.Concat(claimed, claimedLong)
	}
	return weights.Without(parts)
}

func (f *figures) add(store checker.Store, files map[string][]byte) {
	for _, t := range store.Tasks {
		if !f.runs[t.RunID] {
			f.tasks++
		}
	}
	for _, r := range store.Runs {
		f.runs[r.RunID] = true
	}
	for _, a := range store.Attempts {
		one := execution{a.TaskID, a.Attempt}
		f.attempts[one] = f.attempts[one] || a.ReceivedAt != 0
	}
	for _, r := range store.Revisions {
		f.revisions[fmt.Sprintf("%s %d", r.RunID, r.Revision)] = true
	}
	for name := range files {
		f.files[name] = true
	}
}

func (f *figures) results() (n int) {
	for _, answered := range f.attempts {
		if answered {
			n++
		}
	}
	return n
}

// judge judges every epoch, one after the other, so that only one of them is in
// memory. It returns what is broken.
func (s *soak) judge(ctx context.Context) (found []string, sum figures, err error) {
	c := &carrier{topics: s.topics, lost: map[execution]bool{}}
	sum = newFigures()
	marks := map[execution]string{}
	var carried, samples []history.Line
	var hidden []string
	for n, e := range s.epochs {
		s.say("judging epoch %d of %d", n+1, len(s.epochs))
		lines, err := s.readHistory(n, e)
		if err != nil {
			return nil, sum, err
		}
		sum.lines += len(lines)
		for _, l := range lines { // over all epochs, whatever a restore took back
			if l.Act != history.ActExecuted {
				continue
			}
			one := execution{l.Task, l.Attempt}
			if before, again := marks[one]; again {
				found = append(found, fmt.Sprintf("epoch %d: I3: task %s attempt %d was executed twice (%s, %s)", n, l.Task, l.Attempt, before, l.Source))
			}
			marks[one] = l.Source
		}
		samples = append(samples, troughs(lines)...)
		all := c.past(taken(append(carried, lines...), c.lost))
		history.Order(all)
		if n > 0 {
			headquartersWasAway(all, s.epochs[n-1], e)
			lost, err := missing(ctx, filepath.Join(e.Folder, "muster.db"), s.epochs[n-1].Backup)
			if err != nil {
				return nil, sum, err
			}
			changed, err := changedFiles(ctx, e, hidden)
			if err != nil {
				return nil, sum, err
			}
			for _, one := range append(lost, changed...) {
				found = append(found, fmt.Sprintf("epoch %d: %s", n, one))
			}
		}
		broken, err := s.check(ctx, n, all, hidden, &sum)
		if err != nil {
			return nil, sum, err
		}
		for _, f := range broken {
			found = append(found, fmt.Sprintf("epoch %d: %s", n, f))
		}
		if e.Backup == "" || n == len(s.epochs)-1 {
			break
		}
		if carried, hidden, err = c.next(ctx, e, all); err != nil {
			return nil, sum, err
		}
		s.say("epoch %d: %d findings, %d of %d lines go on", n+1, len(broken), len(carried), len(all))
		runtime.GC()
	}
	sum.executions = len(marks)
	grown, err := checker.Judge(checker.Evidence{Root: s.topics.Root(), History: samples, Limits: checker.Limits{MemoryMore: 32 << 20}})
	for _, f := range grown.Findings {
		found = append(found, fmt.Sprintf("over all epochs: %s", f))
	}
	sum.weights.Add(grown.Weights)
	s.say("judged %s", sum.weights)
	for _, part := range s.idle(sum.weights) {
		found = append(found, fmt.Sprintf("over all epochs: there was nothing to judge of: %s", part))
	}
	return found, sum, err
}

// overLives is the name under which headquarters is sampled over all its lives.
const overLives = "headquarters over its lives"

// troughs are the samples over all lives of headquarters.
func troughs(lines []history.Line) (all []history.Line) {
	for _, l := range lines {
		if l.Act == history.ActSampled && l.Name == overLives {
			all = append(all, l)
		}
	}
	return all
}

// next makes the carrier ready for an epoch's backup and returns what goes on.
func (c *carrier) next(ctx context.Context, e epoch, all []history.Line) (carried []history.Line, hidden []string, err error) {
	if hidden, err = list(ctx, e.Backup, over); err != nil {
		return nil, nil, err
	}
	c.since, c.runs, c.tasks, c.over, c.done = e.BackUs, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, run := range hidden {
		c.over[run] = true
	}
	runs, err := list(ctx, e.Backup, `SELECT run_id FROM runs`)
	if err != nil {
		return nil, nil, err
	}
	for _, run := range runs {
		c.runs[run] = !c.over[run]
		tasks, err := list(ctx, e.Backup, `SELECT task_id FROM tasks WHERE run_id = '`+run+`'`)
		if err != nil {
			return nil, nil, err
		}
		of := c.tasks
		if c.over[run] {
			of = c.done
		}
		for _, task := range tasks {
			of[task] = true
		}
	}
	return c.carry(all), hidden, nil
}

// readHistory reads what belongs to one epoch: its own file, and the part of the
// real agents' files that lies in its time.
func (s *soak) readHistory(n int, e epoch) ([]history.Line, error) {
	h, err := history.Read(s.ledger.of(n))
	if err != nil {
		return nil, err
	}
	agents, err := history.Read(s.path("history", "agents"))
	if err != nil {
		return nil, err
	}
	last := e.ToUs == 0
	for _, l := range agents.Lines {
		in := l.MonoUs >= e.FromUs && (last || l.MonoUs < e.ToUs)
		if l.MonoUs == 0 {
			in = l.AtMs >= e.FromMs && (last || l.AtMs < e.ToMs)
		}
		if in {
			h.Lines = append(h.Lines, l)
		}
	}
	for i, l := range h.Lines {
		h.Lines[i] = lean(s.topics, l)
	}
	return h.Lines, nil
}

// headquartersWasAway lets the absence with which an epoch begins reach back to
// the backup: for what it knows, headquarters was away since then.
func headquartersWasAway(lines []history.Line, before, e epoch) {
	for i, l := range lines {
		if l.Act == history.ActFault && l.Name == "dispatcher" && l.On && l.MonoUs == e.FromUs {
			lines[i].AtMs = before.BackAt
			return
		}
	}
}

// check lets the checker judge one epoch.
func (s *soak) check(ctx context.Context, n int, lines []history.Line, hidden []string, sum *figures) ([]checker.Finding, error) {
	e := s.epochs[n]
	store, err := readStore(ctx, filepath.Join(e.Folder, "muster.db"), hidden, e.TakenMs)
	if err != nil {
		return nil, err
	}
	gone := map[string]bool{}
	for _, run := range hidden {
		gone[run] = true
	}
	files, err := readReports(filepath.Join(e.Folder, "reports"), gone)
	if err != nil {
		return nil, err
	}
	evidence := checker.Evidence{Root: s.topics.Root(), History: lines, Store: store, Reports: files, Limits: s.limits(), Audit: e.Audit}
	if earlier := e.Backup; earlier != "" {
		old, err := readStore(ctx, earlier, hidden, e.BackAt)
		if err != nil {
			return nil, err
		}
		evidence.Earlier = &old
	}
	sum.add(store, files)
	s.say("epoch %d: %d lines, %d runs, %d tasks, %d attempts, %d revisions, %d files", n+1, len(lines), len(store.Runs), len(store.Tasks), len(store.Attempts), len(store.Revisions), len(files))
	v, err := checker.Judge(evidence)
	sum.weights.Add(v.Weights)
	return v.Findings, err
}
