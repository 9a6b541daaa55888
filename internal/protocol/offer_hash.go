package protocol

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// Hash names the work that an offer asks for: the lower-case hex SHA-256 of
// taskId, parentId, storeId, type, typeVersion, scheduledFor (epoch
// milliseconds) and the bytes of input, each but the last followed by a line
// feed. It does not change when the offer is published again or asks for
// another attempt. A grant names the offer that may be run by it, a result the
// offer that it answers.
func (o Offer) Hash() string {
	said := make([]byte, 0, 512)
	for _, part := range [...]string{o.TaskID, o.ParentID, o.StoreID, o.Type} {
		said = append(append(said, part...), '\n')
	}
	said = append(strconv.AppendInt(said, int64(o.TypeVersion), 10), '\n')
	said = append(strconv.AppendInt(said, o.ScheduledFor.UnixMilli(), 10), '\n')
	sum := sha256.Sum256(append(said, o.Input...))
	return hex.EncodeToString(sum[:])
}
