package roster_test

import (
	"testing"

	"muster/dispatcher/internal/store/internal/roster"
)

// TestWhatWasReadBeforeAChangeIsNotKept: a reader that is overtaken by a change has the
// old register, and must not hand it to others.
func TestWhatWasReadBeforeAChangeIsNotKept(t *testing.T) {
	t.Parallel()
	var k roster.Known
	_, change := k.Get()
	k.Forget()
	k.Keep([]roster.Place{{StoreID: "old"}}, change)
	if places, _ := k.Get(); places != nil {
		t.Errorf("kept %v", places)
	}
	_, change = k.Get()
	k.Keep([]roster.Place{{StoreID: "new"}}, change)
	if places, _ := k.Get(); len(places) != 1 {
		t.Error("what is new is not kept")
	}
}
