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
	"time"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
)

// MaxTargets bounds the stores of one run.
const MaxTargets = 100_000

// Plan is a run ready to be stored, in one transaction.
type Plan struct {
	Run    store.Run
	Places []store.Place // the frozen targets, ordered by store id
	Tasks  []store.NewTask
}

// Order is what plan needs to know. Input must have passed the job's schema.
// Entropy makes ids unique; crypto/rand.Reader outside tests.
type Order struct {
	User    string
	Request protocol.RunRequest
	Job     job.Spec
	Places  []store.Place // the register: active stores
	Now     time.Time
	Entropy io.Reader
}

// Make expands the order. It fails with a *protocol.Error: NO_TARGETS,
// UNKNOWN_STORE, or SCHEMA for a setting out of range or a bad label
// expression. Any other error means that the entropy failed.
//
// Words in the input that lean on a moment ("yesterday") stay as they are: each
// terminal resolves them in its own time zone from the moment of the order.
func Make(o Order) (Plan, error) {
	places, err := Resolve(o.Request.Stores, o.Places)
	if err != nil {
		return Plan{}, err
	}
	policy, err := override(o.Job.Policy, o.Request)
	if err != nil {
		return Plan{}, err
	}
	now := o.Now.Truncate(time.Millisecond)
	runID, err := newRunID(now, o.Entropy)
	if err != nil {
		return Plan{}, err
	}
	tasks, err := newTasks(places, now, o.Entropy)
	if err != nil {
		return Plan{}, err
	}
	input := o.Request.Input
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	barrier := now.Add(policy.Barrier)
	return Plan{
		Run: store.Run{
			RunID:       runID,
			Job:         o.Job.Name,
			JobVersion:  o.Job.Version,
			RequestedBy: o.User,
			Reason:      o.Request.Reason,
			Input:       input,
			Policy:      policy,
			Columns:     o.Job.Columns,
			Targets:     len(places),
			CreatedAt:   now,
			BarrierAt:   barrier,
			MakeupUntil: barrier.Add(policy.Makeup),
		},
		Places: places,
		Tasks:  tasks,
	}, nil
}

// override puts the request's settings over the job's.
func override(p job.Policy, r protocol.RunRequest) (job.Policy, error) {
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
		{"maxRunning", r.MaxRunning, 0, job.MaxRunning, &p.MaxRunning},
		{"priority", r.Priority, -job.MaxPriority, job.MaxPriority, &p.Priority},
	} {
		if s.value == nil {
			continue
		}
		if *s.value < s.least || *s.value > s.most {
			return p, &protocol.Error{Code: protocol.CodeSchema, Path: "/" + s.name,
				Message:   fmt.Sprintf("%s is %d; it must be %d to %d", s.name, *s.value, s.least, s.most),
				MessageZh: fmt.Sprintf("%s 为 %d，必须在 %d 到 %d 之间", s.name, *s.value, s.least, s.most),
				Hint:      "leave it out to take the job's default"}
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
