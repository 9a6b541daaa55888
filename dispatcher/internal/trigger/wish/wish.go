// Package wish reads requests for a run or for a retry: what is asked for, whoever
// delivers it how often, and what it would make in the world as it is now. It creates
// nothing.
package wish

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/people"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/trigger/refuse"
	"muster/internal/protocol"
)

// Wish is a request that makes a run, of whichever verb. Make it with a Reader.
type Wish struct {
	ID           string // of the request, "" when it has none
	Deadline     int64  // epoch milliseconds, 0: none
	DryRun       bool
	Request      any // as it came
	What, WhatZh string
	// Content is what is asked for.
	Content func() (Content, error)
	// Expand plans the run that person would get now.
	Expand func(ctx context.Context, person people.Person) (Plan, error)
}

// Plan is a run that is not created yet.
type Plan struct {
	At      time.Time
	Spec    job.Spec
	Run     store.Run
	Targets []store.Place
	Tasks   []store.NewTask
	LeftOut []string // of a retry: missing, and no longer registered
}

// World is what a request leans on: runs, their tasks, and the list of stores.
type World interface {
	GetRun(ctx context.Context, runID string) (store.Run, error)
	GetTaskOf(ctx context.Context, runID, storeID string) ([]store.Task, error)
	ListMissing(ctx context.Context, runID string) ([]store.Missing, error)
	ListPlaces(ctx context.Context) ([]store.Place, error)
}

// Planner expands a request into a run with its targets and tasks. It refuses
// with a *protocol.Error.
type Planner interface {
	Expand(user string, request protocol.RunRequest, spec job.Spec, places []store.Place, now time.Time) (store.Run, []store.Place, []store.NewTask, error)
}

// Reader reads requests. Safe for concurrent use.
type Reader struct {
	World   World
	Planner Planner
	Jobs    *job.Registry
	People  *people.People
	Now     func() time.Time
	Zone    *time.Location // in which people read times
}

// Of reads what an approval is for.
func (r Reader) Of(approval store.Approval) (Wish, error) {
	request, retry, err := Asked(approval)
	switch {
	case err != nil:
		return Wish{}, fmt.Errorf("cannot read what approval %s is for: %s", approval.ApprovalID, err.Error()) // no refusal of who approves
	case retry != nil:
		return r.Retry(*retry), nil
	}
	return r.Run(*request), nil
}

// Asked is the request that an approval is for: of a run, or of a retry.
func Asked(approval store.Approval) (*protocol.RunRequest, *protocol.RetryRequest, error) {
	var retry protocol.RetryRequest
	if err := protocol.Decode([]byte(approval.Request), protocol.MaxPayloadBytes, &retry); err == nil && retry.RunID != "" {
		return nil, &retry, nil
	}
	var request protocol.RunRequest
	err := protocol.Decode([]byte(approval.Request), protocol.MaxPayloadBytes, &request)
	return &request, nil, err
}

// ContentHash is the SHA-256, in hex, of everything that decides what would be done:
// the job with its file and schemas, the input, every target, and the policy.
func (p Plan) ContentHash() (string, error) {
	input, err := canonical(p.Run.Input)
	if err != nil {
		return "", err
	}
	stores := make([]string, 0, len(p.Targets))
	for _, place := range p.Targets {
		stores = append(stores, place.StoreID)
	}
	return Digest(struct {
		Job     string          `json:"job"`
		Version int             `json:"version"`
		Digest  string          `json:"digest"`
		Input   json.RawMessage `json:"input"`
		Stores  []string        `json:"stores"` // the planner orders them by id
		Policy  job.Policy      `json:"policy"`
		Parent  string          `json:"parent,omitempty"`
	}{p.Spec.Name, p.Spec.Version, p.Spec.Digest, input, stores, p.Run.Policy, p.Run.ParentRun})
}

// InTime refuses with EXPIRED a deadline, in epoch milliseconds, that is over now; 0 never
// is.
func (r Reader) InTime(deadline int64) error {
	if now := r.Now(); deadline > 0 && now.UnixMilli() > deadline {
		return refuse.Expired(now, time.UnixMilli(deadline), r.Zone)
	}
	return nil
}
