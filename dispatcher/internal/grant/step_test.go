package grant_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/steptest"
	"muster/internal/protocol"
	"muster/internal/task"
)

// stepped runs a test for steps of headquarters' time, both ways.
func stepped(t *testing.T, test func(t *testing.T, by time.Duration)) {
	t.Helper()
	for _, by := range []time.Duration{26 * time.Hour, -26 * time.Hour} {
		t.Run(by.String(), func(t *testing.T) { inBubble(t, func(t *testing.T) { test(t, by) }) })
	}
}

// TestAStepOfTheTimeFillsNoBudget: the overall one and the run's own (I6).
func TestAStepOfTheTimeFillsNoBudget(t *testing.T) {
	for name, own := range map[string]bool{"overall": false, "of a run": true} {
		t.Run(name, func(t *testing.T) {
			stepped(t, func(t *testing.T, by time.Duration) {
				l, policy := limits{running: 100, perSecond: 1, burst: 5}, steptest.Policy()
				policy.Barrier, policy.Makeup = 1000*time.Hour, 1000*time.Hour
				if own {
					l, policy.GrantRate, policy.GrantBurst = wide(), 1, 5
				}
				d := open(t, "", l)
				d.Create("r", 40, policy)
				begun := time.Now()
				for i := range 40 {
					d.claim("r", i)
				}
				for second := range 20 {
					synctest.Wait()
					if got := d.Stats().Granted; got != int64(5+second) {
						t.Fatalf("%d grants in %s of 1 a second and 5 at once", got, time.Since(begun))
					}
					if second%5 == 4 {
						d.off.Add(int64(by))
						d.claim("r", 39) // wakes whoever waits
					}
					time.Sleep(time.Second)
				}
			})
		})
	}
}

// TestAStepOfTheTimeEndsNoLease, and lets none last longer: of an attempt that
// shows signs of life, of one that never starts, and of one that was paused.
func TestAStepOfTheTimeEndsNoLease(t *testing.T) {
	stepped(t, func(t *testing.T, by time.Duration) {
		d := open(t, "", wide())
		d.Create("r", 4, policyWith(func(p *job.Policy) { p.Attempts, p.Barrier, p.Makeup = 1, 1000*time.Hour, 1000*time.Hour }))
		for i := range 3 {
			d.claim("r", i)
		}
		d.grants()
		d.progress("r", 0, 1)
		d.progress("r", 2, 1)
		d.Pause("r-S002", 1)
		step := func() {
			d.off.Add(int64(by))
			d.claim("r", 3) // whoever waits looks again
			d.answer("r", 3, 1, task.Succeed)
			synctest.Wait()
		}
		runs := func(after time.Duration, want ...bool) {
			t.Helper()
			for i, want := range want {
				if got := d.Task(steptest.TaskID("r", i)).State.Status == task.Running; got != want {
					t.Errorf("store %d runs %s after its grant: %t", i, after, got)
				}
			}
		}
		step()
		time.Sleep(29 * time.Second)
		runs(29*time.Second, true, true, true)
		time.Sleep(2 * time.Second)
		runs(31*time.Second, true, false, true)
		d.progress("r", 0, 1)
		step()
		time.Sleep(44 * time.Second)
		runs(75*time.Second, true, false, true)
		d.Resume("r-S002", 1)
		step()
		time.Sleep(2 * time.Second)
		runs(77*time.Second, false, false, true)
		time.Sleep(44 * time.Second)
		runs(121*time.Second, false, false, false)
		for i := range 3 {
			attempts, err := d.Store.ListAttempts(t.Context(), steptest.TaskID("r", i))
			if err != nil || len(attempts) != 1 || attempts[0].Failure == nil || attempts[0].Failure.Code != protocol.CodeLeaseExpired {
				t.Errorf("store %d: attempts %+v, %v", i, attempts, err)
			}
		}
	})
}

// TestAStepOfTheTimeForgetsNoClaim, nor keeps one that is not repeated.
func TestAStepOfTheTimeForgetsNoClaim(t *testing.T) {
	stepped(t, func(t *testing.T, by time.Duration) {
		d := open(t, "", limits{running: 1, perSecond: 0, burst: 1})
		d.Create("r", 3, policyWith(func(p *job.Policy) { p.Lease, p.Barrier, p.Makeup = time.Hour, 1000*time.Hour, 1000*time.Hour }))
		d.claim("r", 0)
		d.grants()
		d.progress("r", 0, 1)
		d.claim("r", 1)
		d.off.Add(int64(by))
		d.answer("r", 0, 1, task.Succeed)
		if got := d.grants(); len(got) != 2 {
			t.Fatalf("%d grants: the claim that waited is forgotten", len(got))
		}
		d.progress("r", 1, 1)
		d.claim("r", 2)
		time.Sleep(3 * time.Minute)
		d.off.Add(int64(by))
		d.answer("r", 1, 1, task.Succeed)
		if got := d.grants(); len(got) != 2 {
			t.Errorf("granted %s to a terminal that asked 3 minutes ago", fmt.Sprint(got[len(got)-1].Order.TaskID))
		}
	})
}
