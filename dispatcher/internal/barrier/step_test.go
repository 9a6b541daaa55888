package barrier_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestPausesLastAsLongAsTheyShouldWhenTheTimeSteps: headquarters' time steps while
// no run is before its barrier, in the quiet after a late answer, or in the pause
// after a failure. The revision and the files come when they would have.
func TestPausesLastAsLongAsTheyShouldWhenTheTimeSteps(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, -26 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			d := setup(t)
			d.create(2)
			d.start()
			d.pass(121 * time.Second)
			d.stuck.fail(errors.New("no space"))
			d.succeed(1)
			synctest.Wait()
			d.step.Add(int64(by)) // between the late answer and its revision
			d.pass(5 * time.Second)
			if got := d.run().Revision; got != 2 {
				t.Errorf("by %s: revision %d after 5 s", by, got)
			}
			d.step.Add(-int64(by))
			d.pass(time.Second)
			d.step.Add(int64(by)) // in the pause after the files could not be marked
			d.stuck.fail(nil)
			d.pass(70 * time.Second)
			for _, r := range d.revisions() {
				if r.PublishedAt.IsZero() {
					t.Errorf("by %s: revision %d is not published", by, r.Revision)
				}
			}
		})
	}
}

// TestWhatCameWhileHeadquartersWasFrozenIsTakenInBeforeTheBarrier, which is late by
// less than a second.
func TestWhatCameWhileHeadquartersWasFrozenIsTakenInBeforeTheBarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.create(2)
		d.start()
		d.pass(119500 * time.Millisecond)
		d.lost.Store(int64(40 * time.Second)) // noticed by the turn at the deadline
		d.pass(900 * time.Millisecond)
		if got := d.run().Revision; got != 0 {
			t.Errorf("revision %d before what waits was taken in", got)
		}
		d.succeed(0)
		d.succeed(1)
		d.pass(600 * time.Millisecond)
		if got := d.run(); got.Revision != 1 || got.BarrierClosedAt.Sub(got.BarrierAt) >= time.Second {
			t.Errorf("revision %d, closed %s after the deadline", got.Revision, got.BarrierClosedAt.Sub(got.BarrierAt))
		}
		d.pass(time.Minute)
		if got := d.run().Revision; got != 1 {
			t.Errorf("an answer that waited came late: revision %d", got)
		}
	})
}

// TestAHeadquartersThatStopsAgainAndAgainKeepsItsBarriers, some seconds late at most.
func TestAHeadquartersThatStopsAgainAndAgainKeepsItsBarriers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.create(2)
		d.start()
		for range 300 {
			d.lost.Add(int64(time.Second))
			d.pass(500 * time.Millisecond)
		}
		if got := d.run(); got.Revision != 1 || got.BarrierClosedAt.Sub(got.BarrierAt) > 6*time.Second {
			t.Errorf("revision %d, closed %s after the deadline", got.Revision, got.BarrierClosedAt.Sub(got.BarrierAt))
		}
	})
}
