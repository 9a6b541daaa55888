package trigger

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"muster/dispatcher/internal/people"
	"muster/internal/protocol"
)

// maxSilent bounds the silent stores that a reply names.
const maxSilent = 100

// forecast tells what a run would meet, all but making it: what is refused here
// would be refused then.
func (t *Trigger) forecast(ctx context.Context, person people.Person, w wish) (protocol.Reply, error) {
	echo := protocol.Reply{RequestID: w.id}
	if err := overdue(w.deadline, t.Now()); err != nil {
		return echo, err
	}
	plan, err := w.expand(ctx, person)
	if err != nil {
		return echo, err
	}
	outlook, err := t.World.Outlook(ctx, plan.spec.Name)
	if err != nil {
		return echo, err
	}
	all := t.bounds.Load().Limits
	f := &protocol.Forecast{GrantsPerSecond: plan.run.Policy.Rate(all), TypicalMs: outlook.Typical.Milliseconds(),
		NeedsApproval: t.secondWord(plan), SilentStores: []protocol.SilentStore{}}
	for _, place := range plan.targets {
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
	finish := plan.at.Add(plan.run.Policy.Finish(f.Online, outlook.Typical, all))
	f.FinishAt = protocol.At(finish)
	reply := protocol.Reply{OK: true, Status: "accepted", RequestID: w.id, ParentRun: plan.run.ParentRun, Stores: plan.run.Targets,
		BarrierAt: protocol.At(plan.run.BarrierAt), Forecast: f,
		Message:   fmt.Sprintf("nothing was created; stores: %d, online now: %d", plan.run.Targets, f.Online),
		MessageZh: fmt.Sprintf("未创建任何内容；门店：%d，当前在线：%d", plan.run.Targets, f.Online)}
	if finish.After(plan.run.BarrierAt) {
		reply.Message += "; at this rate the last ones come after the report"
		reply.MessageZh += "；按此速率，最后一批将晚于报告时间"
	}
	noteLeftOut(&reply, plan.leftOut)
	return reply, nil
}
