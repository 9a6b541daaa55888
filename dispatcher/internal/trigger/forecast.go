package trigger

import (
	"context"
	"slices"
	"strings"

	"muster/dispatcher/internal/people"
	"muster/dispatcher/internal/trigger/tell"
	"muster/dispatcher/internal/trigger/wish"
	"muster/internal/protocol"
)

// maxSilent bounds the silent stores that a reply names.
const maxSilent = 100

// forecast tells what a run would meet, all but making it: what is refused here
// would be refused then.
func (t *Trigger) forecast(ctx context.Context, person people.Person, w wish.Wish) (protocol.Reply, error) {
	echo := protocol.Reply{RequestID: w.ID}
	if err := t.wishes.InTime(w.Deadline); err != nil {
		return echo, err
	}
	plan, err := w.Expand(ctx, person)
	if err != nil {
		return echo, err
	}
	outlook, err := t.World.Outlook(ctx, plan.Spec.Name)
	if err != nil {
		return echo, err
	}
	all := t.bounds.Load().Limits
	f := protocol.Forecast{GrantsPerSecond: plan.Run.Policy.Rate(all), TypicalMs: outlook.Typical.Milliseconds(),
		NeedsApproval: t.needsApproval(plan), SilentStores: []protocol.SilentStore{}}
	for _, place := range plan.Targets {
		if outlook.Online[place.StoreID] {
			f.Online++
		}
		if seen, silent := outlook.Silent[place.StoreID]; silent {
			f.Silent++
			f.SilentStores = append(f.SilentStores, protocol.SilentStore{StoreID: place.StoreID, LastSeenAt: protocol.At(seen)})
		}
	}
	slices.SortFunc(f.SilentStores, func(a, b protocol.SilentStore) int { return strings.Compare(a.StoreID, b.StoreID) })
	f.SilentStores = f.SilentStores[:min(len(f.SilentStores), maxSilent)]
	finish := plan.At.Add(plan.Run.Policy.Finish(f.Online, outlook.Typical, all))
	f.FinishAt = protocol.At(finish)
	reply := tell.Forecast(plan.Run, f, finish.After(plan.Run.BarrierAt), t.Zone)
	reply.RequestID = w.ID
	tell.LeftOut(&reply, plan.LeftOut)
	return reply, nil
}
