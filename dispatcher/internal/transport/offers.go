package transport

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
)

// OfferOf is the part of a task's offer that never changes: what there is to
// be done. Its Hash is the hash of every offer of the task that is published,
// so that a grant and a judge of results need no copy of one. run is the
// task's run.
func OfferOf(t store.Task, run store.Run) protocol.Offer {
	return offerOf(t, run, onTheWire(t.Input))
}

// Offers makes the offers of one run. It has the run's input as it travels, so that
// an offer that asks for just that costs no second look at it. Safe for concurrent
// use.
type Offers struct {
	run   store.Run
	input json.RawMessage
}

// NewOffers returns the offers of a run.
func NewOffers(run store.Run) Offers { return Offers{run: run, input: onTheWire(run.Input)} }

// Of is OfferOf for a task of the run.
func (o Offers) Of(t store.Task) protocol.Offer {
	if bytes.Equal(t.Input, o.run.Input) {
		return offerOf(t, o.run, o.input)
	}
	return OfferOf(t, o.run)
}

func offerOf(t store.Task, run store.Run, input json.RawMessage) protocol.Offer {
	return protocol.Offer{
		Record: protocol.Record{
			TaskID: t.TaskID, ParentID: t.RunID, StoreID: t.StoreID, Type: t.Type, Input: input,
		},
		TypeVersion:  run.JobVersion,
		ScheduledFor: protocol.At(run.OrderedAt),
	}
}

// onTheWire is a document as protocol.Encode writes it: compact, and null when
// there is none. The hash is of these bytes.
func onTheWire(doc json.RawMessage) json.RawMessage {
	if len(doc) == 0 {
		return json.RawMessage("null")
	}
	compact, err := protocol.Compact(doc)
	if err != nil {
		return doc // the store holds no such document; encoding it fails aloud
	}
	return compact
}

// OfferID names the offer of a task's next attempt: a ULID of the task's
// creation, derived from the task and how many attempts were granted before. An
// offer that is published again is the same offer, and a grant can name it without
// anybody having kept its id.
func OfferID(taskID string, used int, created time.Time) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "offer %d of %s", used, taskID))
	id := ulid.ULID{}
	// Neither call fails before the year 10889 and with 10 bytes.
	if id.SetTime(ulid.Timestamp(created)) != nil || id.SetEntropy(sum[:10]) != nil {
		return ""
	}
	return id.String()
}

// ClearOffer withdraws the retained offer of a task.
func (s *Sender) ClearOffer(ctx context.Context, store, taskID string) error {
	return s.Clear(ctx, s.topics.Offer(store, taskID))
}
