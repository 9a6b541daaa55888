package offer

import (
	"context"

	"muster/dispatcher/internal/transport"
)

// Retained returns the topics of the open offers that a topic filter matches.
func (o *Offers) Retained(ctx context.Context, filter string) ([]string, error) {
	topics := o.cfg.Sender.Topics()
	storeID, taskID, some := topics.OfferFilter(filter)
	if !some {
		return nil, nil
	}
	open, err := o.cfg.Tasks.ListOpen(ctx, storeID)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(open))
	for _, t := range open {
		if taskID == "" || t.TaskID == taskID {
			names = append(names, topics.Offer(t.StoreID, t.TaskID))
		}
	}
	return names, nil
}

// Message is the offer of a task as it is now; false: there is none.
func (o *Offers) Message(ctx context.Context, storeID, taskID string) (transport.Outbound, bool, error) {
	return o.say(ctx, &work{store: storeID, task: taskID})
}
