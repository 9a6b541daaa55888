package transport

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
)

// OfferID names the offer of a task's next attempt: a ULID of the task's
// creation, derived from the task and the attempt that it follows. An offer
// that is published again is the same offer, and a grant can name it without
// anybody having kept its id.
func OfferID(taskID string, attempt int, created time.Time) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "offer %d of %s", attempt, taskID))
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
