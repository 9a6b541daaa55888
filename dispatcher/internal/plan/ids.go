package plan

import (
	"fmt"
	"io"
	"time"

	"github.com/oklog/ulid/v2"

	"muster/dispatcher/internal/store"
)

// alphabet is Crockford's base 32 in lower case: it sorts as it counts and has
// no letter that is read as another.
const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

// newRunID makes an id that people can read and that sorts by time to the
// millisecond, such as 20260917-073012-0k3f9t: the moment in UTC, two
// characters of milliseconds, and 20 random bits.
func newRunID(now time.Time, entropy io.Reader) (string, error) {
	var random [4]byte
	if _, err := io.ReadFull(entropy, random[:]); err != nil {
		return "", fmt.Errorf("cannot make a run id: %w", err)
	}
	ms := now.Nanosecond() / int(time.Millisecond)
	tail := []byte{alphabet[ms/32], alphabet[ms%32]}
	for _, b := range random {
		tail = append(tail, alphabet[b%32])
	}
	return now.UTC().Format("20060102-150405-") + string(tail), nil
}

// newTasks makes one task a place. The ids grow in the order of the places.
func newTasks(places []store.Place, now time.Time, entropy io.Reader) ([]store.NewTask, error) {
	growing := ulid.Monotonic(entropy, 0)
	tasks := make([]store.NewTask, 0, len(places))
	for _, place := range places {
		id, err := ulid.New(ulid.Timestamp(now), growing)
		if err != nil {
			return nil, fmt.Errorf("cannot make a task id for store %s: %w", place.StoreID, err)
		}
		tasks = append(tasks, store.NewTask{TaskID: id.String(), StoreID: place.StoreID})
	}
	return tasks, nil
}
