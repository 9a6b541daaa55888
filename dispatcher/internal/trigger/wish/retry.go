package wish

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"muster/dispatcher/internal/people"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/trigger/refuse"
	"muster/internal/protocol"
)

// Retry is the wish for a run of what another one misses.
func (r Reader) Retry(request protocol.RetryRequest) Wish {
	content := request
	content.RequestID, content.Deadline = "", 0
	content.Stores = slices.Compact(slices.Sorted(slices.Values(request.Stores)))
	return Wish{
		ID: request.RequestID, Deadline: request.Deadline, DryRun: request.DryRun, Request: request,
		What: "the retry of run " + request.RunID, WhatZh: "批次 " + request.RunID + " 的重试",
		Content: func() (Content, error) { return contentOf(content) },
		Expand: func(ctx context.Context, person people.Person) (Plan, error) {
			return r.expandRetry(ctx, person, request)
		},
	}
}

// expandRetry plans a run of what the parent misses, with the parent's input, columns
// and policy.
func (r Reader) expandRetry(ctx context.Context, person people.Person, request protocol.RetryRequest) (Plan, error) {
	parent, err := r.World.GetRun(ctx, request.RunID)
	if errors.Is(err, store.ErrNotFound) {
		return Plan{}, refuse.UnknownRun(request.RunID)
	}
	if err != nil {
		return Plan{}, err
	}
	spec, ok := r.Jobs.Get(parent.Job)
	switch {
	case !ok:
		return Plan{}, refuse.UnknownJob(parent.Job, r.Jobs)
	case spec.Version != parent.JobVersion:
		return Plan{}, refuse.OtherVersion(parent, spec.Version)
	case parent.Revision == 0:
		return Plan{}, refuse.TooEarly(parent, r.Zone)
	}
	if err := person.MayOrder(spec.Name); err != nil {
		return Plan{}, err
	}
	places, err := r.World.ListPlaces(ctx)
	if err != nil {
		return Plan{}, fmt.Errorf("cannot list stores: %w", err)
	}
	spec.Policy, spec.Columns = parent.Policy, parent.Columns
	p := Plan{At: r.Now(), Spec: spec}
	stores, err := r.toRetry(ctx, parent, request.Stores, places, &p.LeftOut)
	if err != nil {
		return Plan{}, err
	}
	p.Run, p.Targets, p.Tasks, err = r.Planner.Expand(person.Name, protocol.RunRequest{
		Stores: protocol.Targets{Stores: stores}, Input: parent.Input, Reason: request.Reason, BarrierSeconds: request.BarrierSeconds,
		MakeupSeconds: request.MakeupSeconds, Attempts: request.Attempts, MaxRunning: request.MaxRunning, Priority: request.Priority,
		GrantsPerSecond: request.GrantsPerSecond, GrantBurst: request.GrantBurst}, spec, places, p.At)
	if err != nil {
		return Plan{}, err
	}
	p.Run.ParentRun, p.Run.OrderedAt = parent.RunID, parent.OrderedAt
	return p, person.MayOrderAt(p.Targets)
}

// toRetry lists the stores that the parent misses, of the named ones if any are:
// each of them must be missing. Those that left the register go into leftOut.
func (r Reader) toRetry(ctx context.Context, parent store.Run, named []string, places []store.Place, leftOut *[]string) ([]string, error) {
	list, err := r.World.ListMissing(ctx, parent.RunID)
	if err != nil {
		return nil, err
	}
	missing := make(map[string]bool, len(list))
	for _, m := range list {
		missing[m.StoreID] = true
	}
	if len(named) > 0 {
		return named, r.checkMissing(ctx, parent.RunID, named, missing)
	}
	var stores []string
	for _, place := range places {
		if missing[place.StoreID] {
			stores = append(stores, place.StoreID)
			delete(missing, place.StoreID)
		}
	}
	*leftOut = slices.Sorted(maps.Keys(missing))
	if len(stores) == 0 {
		return nil, refuse.NothingToRetry(parent.RunID)
	}
	return stores, nil
}

func (r Reader) checkMissing(ctx context.Context, runID string, named []string, missing map[string]bool) error {
	var present []string
	for _, id := range named {
		if !missing[id] {
			present = append(present, id)
		}
	}
	if err := r.CheckTargets(ctx, runID, present); err != nil {
		return err
	}
	if len(present) > 0 {
		return refuse.NotMissing(runID, present)
	}
	return nil
}

// CheckTargets refuses stores that are no targets of the run.
func (r Reader) CheckTargets(ctx context.Context, runID string, stores []string) error {
	var strangers []string
	for _, storeID := range stores {
		tasks, err := r.World.GetTaskOf(ctx, runID, storeID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if len(tasks) == 0 {
			strangers = append(strangers, storeID)
		}
	}
	if len(strangers) > 0 {
		return refuse.NoTarget(runID, "/stores", strangers)
	}
	return nil
}
