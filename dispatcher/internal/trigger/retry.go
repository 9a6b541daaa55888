package trigger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"muster/dispatcher/internal/people"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/trigger/refuse"
	"muster/internal/protocol"
)

// retry asks again what a run misses, in a run of its own; the answers go into the
// reports of both.
func (t *Trigger) retry(ctx context.Context, person people.Person, payload []byte) (protocol.Reply, error) {
	var request protocol.RetryRequest
	if err := t.decode(protocol.VerbRetry, payload, &request); err != nil {
		return protocol.Reply{}, err
	}
	return t.fulfil(ctx, person, t.retryWish(request), payload)
}

func (t *Trigger) retryWish(request protocol.RetryRequest) wish {
	content := request
	content.RequestID = ""
	content.Stores = slices.Compact(slices.Sorted(slices.Values(request.Stores)))
	return wish{
		id: request.RequestID, deadline: request.Deadline, dryRun: request.DryRun, request: request,
		what: "the retry of run " + request.RunID, whatZh: "批次 " + request.RunID + " 的重试",
		content: func() (string, error) {
			if t.People.Signed() {
				content.Deadline = 0
			}
			return digest(struct {
				Retry protocol.RetryRequest `json:"retry"`
			}{content})
		},
		expand: func(ctx context.Context, person people.Person) (planned, error) {
			return t.expandRetry(ctx, person, request)
		},
	}
}

// expandRetry plans a run of what the parent misses, with the parent's input, columns
// and policy.
func (t *Trigger) expandRetry(ctx context.Context, person people.Person, request protocol.RetryRequest) (planned, error) {
	parent, err := t.Runs.GetRun(ctx, request.RunID)
	if errors.Is(err, store.ErrNotFound) {
		return planned{}, refuse.UnknownRun(request.RunID)
	}
	if err != nil {
		return planned{}, err
	}
	spec, ok := t.Jobs.Get(parent.Job)
	switch {
	case !ok:
		return planned{}, refuse.UnknownJob(parent.Job, t.Jobs)
	case spec.Version != parent.JobVersion:
		return planned{}, refuse.OtherVersion(parent, spec.Version)
	case parent.Revision == 0:
		return planned{}, refuse.TooEarly(parent)
	}
	if err := person.MayOrder(spec.Name); err != nil {
		return planned{}, err
	}
	places, err := t.Register.ListPlaces(ctx)
	if err != nil {
		return planned{}, fmt.Errorf("cannot list stores: %w", err)
	}
	spec.Policy, spec.Columns = parent.Policy, parent.Columns
	p := planned{at: t.Now(), spec: spec}
	stores, err := t.toRetry(ctx, parent, request.Stores, places, &p.leftOut)
	if err != nil {
		return planned{}, err
	}
	p.run, p.targets, p.tasks, err = t.Planner.Expand(person.Name, protocol.RunRequest{
		Stores: protocol.Targets{Stores: stores}, Input: parent.Input, Reason: request.Reason, BarrierSeconds: request.BarrierSeconds,
		MakeupSeconds: request.MakeupSeconds, Attempts: request.Attempts, MaxRunning: request.MaxRunning, Priority: request.Priority,
		GrantsPerSecond: request.GrantsPerSecond, GrantBurst: request.GrantBurst}, spec, places, p.at)
	if err != nil {
		return planned{}, err
	}
	p.run.ParentRun, p.run.OrderedAt = parent.RunID, parent.OrderedAt
	return p, person.MayOrderAt(p.targets)
}

// toRetry lists the stores that the parent misses, of the named ones if any are:
// each of them must be missing. Those that left the register go into leftOut.
func (t *Trigger) toRetry(ctx context.Context, parent store.Run, named []string, places []store.Place, leftOut *[]string) ([]string, error) {
	list, err := t.World.ListMissing(ctx, parent.RunID)
	if err != nil {
		return nil, err
	}
	missing := make(map[string]bool, len(list))
	for _, m := range list {
		missing[m.StoreID] = true
	}
	if len(named) > 0 {
		return named, t.checkMissing(ctx, parent.RunID, named, missing)
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

// maxLeftOut bounds the stores that a reply names as left out, and maxWorded those that
// its sentence names.
const (
	maxLeftOut = 100
	maxWorded  = 10
)

// noteLeftOut tells of a retry's targets that left the register.
func noteLeftOut(reply *protocol.Reply, stores []string) {
	if len(stores) == 0 {
		return
	}
	reply.LeftOut = stores[:min(len(stores), maxLeftOut)]
	named, more, moreZh := strings.Join(stores[:min(len(stores), maxWorded)], ", "), "", ""
	if rest := len(stores) - maxWorded; rest > 0 {
		more, moreZh = fmt.Sprintf(" and %d more", rest), fmt.Sprintf(" 等 %d 家", len(stores))
	}
	say := func(old, text, between string) string {
		if old == "" {
			return text
		}
		return old + between + text
	}
	reply.Message = say(reply.Message, "left out, for they are no longer registered: "+named+more, "; ")
	reply.MessageZh = say(reply.MessageZh, "以下门店已不在登记册中，未包含在内："+named+moreZh, "；")
}

func (t *Trigger) checkMissing(ctx context.Context, runID string, named []string, missing map[string]bool) error {
	var present []string
	for _, id := range named {
		if !missing[id] {
			present = append(present, id)
		}
	}
	strangers, err := t.strangers(ctx, runID, present)
	switch {
	case err != nil:
		return err
	case len(strangers) > 0:
		return refuse.NoTarget(runID, "/stores", strangers)
	case len(present) > 0:
		return refuse.NotMissing(runID, present)
	}
	return nil
}
