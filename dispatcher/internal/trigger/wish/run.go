package wish

import (
	"context"
	"fmt"

	"muster/dispatcher/internal/people"
	"muster/dispatcher/internal/trigger/refuse"
	"muster/internal/protocol"
)

// Run is the wish for a run of a job.
func (r Reader) Run(request protocol.RunRequest) Wish {
	return Wish{
		ID: request.RequestID, Deadline: request.Deadline, DryRun: request.DryRun, Request: request,
		What: request.Job, WhatZh: "作业 " + request.Job,
		Content: func() (Content, error) { return contentOfRun(request) },
		Expand: func(ctx context.Context, person people.Person) (Plan, error) {
			return r.expand(ctx, person, request)
		},
	}
}

// expand checks what leans on the world of now (clock, jobs, register, what the
// person may order). A request that made its run already never comes here.
func (r Reader) expand(ctx context.Context, person people.Person, request protocol.RunRequest) (Plan, error) {
	now := r.Now()
	spec, ok := r.Jobs.Get(request.Job)
	if !ok {
		return Plan{}, refuse.UnknownJob(request.Job, r.Jobs)
	}
	if err := person.MayOrder(spec.Name); err != nil {
		return Plan{}, err
	}
	input, err := checkInput(spec, request.Input)
	if err != nil {
		return Plan{}, err
	}
	request.Input = input
	places, err := r.World.ListPlaces(ctx)
	if err != nil {
		return Plan{}, fmt.Errorf("cannot list stores: %w", err)
	}
	p := Plan{At: now, Spec: spec}
	p.Run, p.Targets, p.Tasks, err = r.Planner.Expand(person.Name, request, spec, places, now)
	if err != nil {
		return Plan{}, err
	}
	return p, person.MayOrderAt(p.Targets)
}
