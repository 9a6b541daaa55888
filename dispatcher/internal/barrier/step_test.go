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
