package protocol

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Hash names the work that an offer asks for: the lower-case hex SHA-256 of
// taskId, parentId, storeId, type, typeVersion, scheduledFor (epoch
// milliseconds) and the bytes of input, each but the last followed by a line
// feed. It does not change when the offer is published again or asks for
// another attempt. A grant names the offer that may be run by it, a result the
// offer that it answers.
func (o Offer) Hash() string {
	h := sha256.New()
	for _, part := range []string{o.TaskID, o.ParentID, o.StoreID, o.Type} {
		_, _ = fmt.Fprintf(h, "%s\n", part) // a hash takes everything
	}
	_, _ = fmt.Fprintf(h, "%d\n%d\n", o.TypeVersion, o.ScheduledFor.UnixMilli())
	_, _ = h.Write(o.Input)
	return hex.EncodeToString(h.Sum(nil))
}
