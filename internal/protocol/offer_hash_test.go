package protocol_test

import (
	"encoding/json"
	"testing"
	"time"

	"muster/internal/protocol"
	"muster/internal/task"
)

// The digest is what sha256sum prints for the seven parts.
func TestOfferHashNamesTheWorkAlone(t *testing.T) {
	t.Parallel()
	const want = "9fd334bc465d1fd511bd89b73c4345a986f4aafbba4797453a5a8567b193c2cd"
	offer := func() protocol.Offer {
		return protocol.Offer{
			Record: protocol.Record{TaskID: "T1", ParentID: "R1", StoreID: "007", Type: "collect_log",
				Input: json.RawMessage(`{"date":"2026-09-16"}`)},
			TypeVersion: 1, ScheduledFor: protocol.At(time.UnixMilli(1789617600000)),
		}
	}
	if got := offer().Hash(); got != want {
		t.Errorf("got %s", got)
	}
	for name, c := range map[string]struct {
		change func(*protocol.Offer)
		same   bool
	}{
		"published again": {func(o *protocol.Offer) { o.ID, o.Seq, o.At = "x", 7, protocol.At(time.Now()) }, true},
		"next attempt": {func(o *protocol.Offer) {
			o.Attempt, o.Status, o.NotBefore, o.Error = 1, task.Failed, 5, &protocol.Failure{}
		}, true},
		"other task":    {func(o *protocol.Offer) { o.TaskID = "T2" }, false},
		"other run":     {func(o *protocol.Offer) { o.ParentID = "R2" }, false},
		"other store":   {func(o *protocol.Offer) { o.StoreID = "7" }, false},
		"other job":     {func(o *protocol.Offer) { o.Type = "probe" }, false},
		"other version": {func(o *protocol.Offer) { o.TypeVersion = 2 }, false},
		"other day":     {func(o *protocol.Offer) { o.ScheduledFor = protocol.At(time.UnixMilli(1789617600001)) }, false},
		"other input":   {func(o *protocol.Offer) { o.Input = json.RawMessage(`{"date":"2026-09-17"}`) }, false},
	} {
		o := offer()
		c.change(&o)
		if (o.Hash() == want) != c.same {
			t.Errorf("%s: %s", name, o.Hash())
		}
	}
}
