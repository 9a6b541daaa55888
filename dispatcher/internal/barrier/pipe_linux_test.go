package barrier_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/store"
)

// TestAPipeInTheWayHoldsUpNoOtherReport: to open it would wait for its other end.
func TestAPipeInTheWayHoldsUpNoOtherReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := setup(t)
		d.start()
		pipe := filepath.Join(d.dir, "reports", stem+"1.json")
		if err := errors.Join(os.MkdirAll(filepath.Dir(pipe), 0o700), syscall.Mkfifo(pipe, 0o600)); err != nil {
			t.Fatal(err)
		}
		d.create(1)
		d.create(1, func(r *store.Run) { r.RunID = "R2" })
		d.pass(3 * time.Minute)
		if sums := d.summaries(); len(sums) != 1 || sums[0].RunID != "R2" {
			t.Errorf("got summaries %+v", sums)
		}
		if raised := d.raised(); len(raised) != 1 {
			t.Errorf("got alarms %q", raised)
		}
	})
}
