package app_test

import (
	"encoding/json"
	"testing"
	"time"

	"muster/internal/protocol"
	"muster/tests/fleet"
)

// TestALateOfferSaysWhatTheFirstOneSaid: a store that comes after the barrier,
// and after headquarters was restarted, is told the moment of the order, so
// that "yesterday" is the day that was meant, and the same limits.
func TestALateOfferSaysWhatTheFirstOneSaid(t *testing.T) {
	t.Parallel()
	overBoth(t, func(t *testing.T, transport string) {
		hq := setup(t, transport, []string{"A", "B"}, nil)
		offers := make(chan protocol.Offer, 10)
		take := fleet.Options{Execute: func(o protocol.Offer, _ int) fleet.Reply {
			offers <- o
			return fleet.Reply{Result: json.RawMessage(`{"value":1}`)}
		}}
		hq.terminal("A", take)
		tech := hq.technician("wang")
		run := tech.run(`{"job":"probe","stores":"all","input":{"date":"yesterday"},"barrierSeconds":2,"makeupSeconds":600,"attempts":3}`)
		early := <-offers
		first := tech.summary(run.RunID, 1)
		hq.restart()
		tech = hq.technician("wang")
		hq.terminal("B", take)
		late := <-offers
		report := hq.report(tech.summary(run.RunID, 2))
		if !early.ScheduledFor.Equal(report.CreatedAt.Time) || !late.ScheduledFor.Equal(report.CreatedAt.Time) {
			t.Errorf("scheduled for %v and %v, ordered at %v", early.ScheduledFor, late.ScheduledFor, report.CreatedAt)
		}
		if late.StoreID != "B" || late.ID == early.ID || late.TaskID == early.TaskID {
			t.Errorf("the late offer is %+v", late)
		}
		late.Meta, late.TaskID, late.StoreID, late.ScheduledFor = early.Meta, early.TaskID, early.StoreID, early.ScheduledFor
		late.Status, late.Attempt = early.Status, early.Attempt // one of them may have been offered again while it ran
		was, _ := json.Marshal(early)
		if is, _ := json.Marshal(late); string(is) != string(was) {
			t.Errorf("the late offer says\n%s\nand the early one\n%s", is, was)
		}
		makeup := time.UnixMilli(early.QueueDeadline).Sub(report.BarrierAt.Time)
		if early.Deadline != first.BarrierAt.UnixMilli() || makeup != 10*time.Minute || early.Attempts != 3 || string(early.Input) != `{"date":"yesterday"}` {
			t.Errorf("the offer is %+v", early)
		}
	})
}
