// Package plan expands a request into a run: which stores it is for, the
// policy it freezes, and one task a store.
//
// It is pure: it reads no file, no clock and no database, and keeps nothing.
// That a run's tasks are stored all or none is the store's business.
package plan

import (
	"encoding/json"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
)

// MaxTargets bounds the stores of one run.
const MaxTargets = 100_000

// Planner expands requests. It keeps nothing but its source of randomness and
// headquarters' limits, and is safe for concurrent use when that is.
type Planner struct {
	entropy io.Reader
	limits  atomic.Pointer[job.Limits]
}

// New returns a planner whose ids are made unique by entropy, crypto/rand's
// Reader outside tests.
func New(entropy io.Reader) *Planner {
	p := &Planner{entropy: entropy}
	p.Limit(job.Limits{})
	return p
}

// Limit has it refuse, from now on, what a request asks for beyond headquarters' own
// limits, which it would never get.
func (p *Planner) Limit(limits job.Limits) { p.limits.Store(&limits) }

// Expand returns the run that user asked for, its frozen targets ordered by
// store id, and a task for each, ready to be stored in one transaction. places is
// the register: its active stores. The request's input must have passed the job's
// schema. It fails with a *protocol.Error:
// NO_TARGETS, UNKNOWN_STORE, TOO_LARGE, or SCHEMA for a setting out of range or
// a bad label expression. Any other error means that the entropy failed.
//
// Words in the input that lean on a moment ("yesterday") stay as they are: each
// terminal resolves them in its own time zone from the moment of the order.
func (p *Planner) Expand(user string, request protocol.RunRequest, spec job.Spec, places []store.Place, now time.Time) (store.Run, []store.Place, []store.NewTask, error) {
	targets, err := Resolve(request.Stores, places)
	if err != nil {
		return store.Run{}, nil, nil, err
	}
	policy, err := override(*p.limits.Load(), spec.Policy, request)
	if err != nil {
		return store.Run{}, nil, nil, err
	}
	now = now.Truncate(time.Millisecond)
	runID, err := newRunID(now, p.entropy)
	if err != nil {
		return store.Run{}, nil, nil, err
	}
	tasks, err := newTasks(targets, now, p.entropy)
	if err != nil {
		return store.Run{}, nil, nil, err
	}
	input := request.Input
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	barrier := now.Add(policy.Barrier)
	run := store.Run{
		RunID:       runID,
		Job:         spec.Name,
		JobVersion:  spec.Version,
		RequestedBy: user,
		Reason:      request.Reason,
		Input:       input,
		Policy:      policy,
		Columns:     spec.Columns,
		Targets:     len(targets),
		CreatedAt:   now,
		BarrierAt:   barrier,
		MakeupUntil: barrier.Add(policy.Makeup),
	}
	return run, targets, tasks, nil
}

// override puts the request's settings over the job's.
func override(all job.Limits, p job.Policy, r protocol.RunRequest) (job.Policy, error) {
	if err := overrideRate(all, &p, r); err != nil {
		return p, err
	}
	mostRunning := job.MaxRunning
	if all.MaxRunning > 0 {
		mostRunning = all.MaxRunning
	}
	seconds := func(d time.Duration) int { return int(d / time.Second) }
	barrier, makeup := seconds(p.Barrier), seconds(p.Makeup)
	for _, s := range []struct {
		name        string
		value       *int
		least, most int
		into        *int
	}{
		{"attempts", r.Attempts, 1, job.MaxAttempts, &p.Attempts},
		{"barrierSeconds", r.BarrierSeconds, 1, seconds(job.MaxBarrier), &barrier},
		{"makeupSeconds", r.MakeupSeconds, 0, seconds(job.MaxMakeup), &makeup},
		{"maxRunning", r.MaxRunning, 0, mostRunning, &p.MaxRunning},
		{"priority", r.Priority, -job.MaxPriority, job.MaxPriority, &p.Priority},
	} {
		if s.value == nil {
			continue
		}
		if *s.value < s.least || *s.value > s.most {
			return p, outOfRange(s.name, *s.value, s.least, s.most)
		}
		*s.into = *s.value
	}
	if r.BarrierSeconds != nil {
		p.Barrier = time.Duration(barrier) * time.Second
	}
	if r.MakeupSeconds != nil {
		p.Makeup = time.Duration(makeup) * time.Second
	}
	return p, nil
}

// overrideRate puts the request's rate over the job's. A burst alone changes the
// job's rate, if it has one.
func overrideRate(all job.Limits, p *job.Policy, r protocol.RunRequest) error {
	most, mostBurst := float64(job.MaxGrantRate), job.MaxRunning
	if all.GrantsPerSecond > 0 {
		most, mostBurst = all.GrantsPerSecond, all.GrantBurst
	}
	if rate := r.GrantsPerSecond; rate != nil {
		if !(*rate > 0 && *rate <= most) { // NaN is in no range
			return outOfRange("grantsPerSecond", *rate, "above 0", most)
		}
		p.GrantRate, p.GrantBurst = *rate, max(p.GrantBurst, 1)
	}
	if burst := r.GrantBurst; burst != nil {
		if *burst < 1 || *burst > mostBurst {
			return outOfRange("grantBurst", *burst, 1, mostBurst)
		}
		p.GrantBurst = *burst
	}
	return nil
}

func outOfRange(name string, value, least, most any) *protocol.Error {
	return &protocol.Error{Code: protocol.CodeSchema, Path: "/" + name,
		Message:   fmt.Sprintf("%s is %v; it must be %v to %v", name, value, least, most),
		MessageZh: fmt.Sprintf("%s 为 %v，必须在 %v 到 %v 之间", name, value, least, most),
		Hint:      "leave it out to take the job's default; an operator sets what headquarters admits in all",
		HintZh:    "省略则采用作业的默认值；总部的总上限由管理员设定"}
}
