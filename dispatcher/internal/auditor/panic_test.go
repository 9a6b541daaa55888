package auditor_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/store"
)

// A head that makes headquarters panic is told, and noted once the fault is mended;
// a stop goes through.
func TestAHeadThatPanicsIsToldAndNotedLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := setup(t, nil)
		var broken atomic.Bool
		var alarms steptest.Alarms
		read := d.Head
		d.Head = func(ctx context.Context, at ...int64) (store.AuditHead, error) {
			if broken.Load() {
				panic("a chain that nobody can walk")
			}
			return read(ctx, at...)
		}
		d.Ward = &quarantine.Ward{Logger: d.Logger, Now: time.Now, Alarm: alarms.Raise}
		d.audited()
		d.start()
		d.audited()
		broken.Store(true)
		time.Sleep(6 * time.Minute)
		if told := alarms.Told(); !strings.HasPrefix(told, "step_panicked the heads of the audit: headquarters panicked: a chain that nobody can walk") || len(d.lines()) != 1 {
			t.Errorf("alarms %q, heads %q", told, d.lines())
		}
		broken.Store(false)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if n := len(d.lines()); n != 2 {
			t.Errorf("%d heads once the fault is mended", n)
		}
		d.audited()
		broken.Store(true)
		d.running.Stop()
	})
}
