package grant_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/grant"
	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
	"muster/internal/task"
)

func TestASilentAttemptEndsWithItsLease(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := begun(t, 1, steptest.Policy())
		d.progress("r", 0, 1)
		time.Sleep(44 * time.Second)
		synctest.Wait()
		if s := d.Task("r-S000").State.Status; s != task.Running {
			t.Fatalf("after 44 s of 45 it is %s", s)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		got := d.Task("r-S000")
		if got.State != (task.State{Status: task.Failed, Attempt: 1}) || got.LastCode != protocol.CodeLeaseExpired {
			t.Fatalf("after the lease: %+v", got)
		}
		if wait := time.Until(got.NextAttemptAt); wait <= 0 || wait > 4*time.Second {
			t.Errorf("the retry is due in %v", wait)
		}
		if d.Stats().Running != 0 {
			t.Error("the slot is still taken")
		}
	})
}

func TestAGrantThatNeverStartsEndsWithTheStartTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := begun(t, 1, policyWith(func(p *job.Policy) { p.Lease = 10 * time.Minute }))
		time.Sleep(31 * time.Second)
		synctest.Wait()
		attempts, err := d.Store.ListAttempts(t.Context(), "r-S000")
		if err != nil || len(attempts) != 1 || attempts[0].Failure == nil {
			t.Fatalf("attempts %+v, %v", attempts, err)
		}
		if got := attempts[0].Failure.Message; got != "the terminal never started the granted attempt" {
			t.Errorf("failed with %q", got)
		}
	})
}

func TestATerminalThatNeverStartsCannotKeepItsSlotByClaiming(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := open(t, "", wide())
		d.Create("r", 1, policyWith(func(p *job.Policy) { p.Attempts = 1 }))
		for range 20 {
			d.claim("r", 0)
			d.grants()
			time.Sleep(15 * time.Second)
		}
		if got := d.Task("r-S000").State; got.Status != task.Failed || !got.Settled {
			t.Errorf("after 5 minutes of claims and no start: %+v", got)
		}
	})
}

func TestProgressKeepsTheLease(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := begun(t, 1, steptest.Policy())
		for range 40 {
			d.progress("r", 0, 1)
			time.Sleep(15 * time.Second)
		}
		if s := d.Task("r-S000").State.Status; s != task.Running {
			t.Errorf("a living attempt is %s", s)
		}
	})
}

// TestAttemptsCountExecutions grants as often as the terminal asks, and never
// gets an answer.
func TestAttemptsCountExecutions(t *testing.T) {
	for _, attempts := range []int{1, 2, 4} {
		t.Run(fmt.Sprint(attempts), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				d := open(t, "", wide())
				d.Create("r", 1, policyWith(func(p *job.Policy) { p.Attempts = attempts }))
				for range 100 {
					d.claim("r", 0)
					time.Sleep(15 * time.Second)
				}
				fences := map[int]bool{}
				for _, s := range d.grants() {
					fences[s.Order.Attempt] = true
				}
				if len(fences) != attempts {
					t.Errorf("%d executions, %d configured", len(fences), attempts)
				}
				if got := d.Task("r-S000").State; got != (task.State{Status: task.Failed, Attempt: attempts, Settled: true}) {
					t.Errorf("ended as %+v", got)
				}
			})
		})
	}
}

func TestAResultBetweenTheEndOfALeaseAndItsUpdateStays(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := begun(t, 1, steptest.Policy())
		d.progress("r", 0, 1)
		answer := func() {
			if got := d.answer("r", 0, 1, task.Succeed); !got.Applied {
				t.Errorf("the result was not taken: %+v", got)
			}
		}
		d.leases.beforeExpiry.Store(&answer)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := d.Task("r-S000").State; got != (task.State{Status: task.Succeeded, Attempt: 1, Settled: true}) {
			t.Errorf("ended as %+v", got)
		}
		if d.Stats().Expired != 0 || d.Stats().Running != 0 {
			t.Errorf("counted %+v", d.Stats())
		}
	})
}

func TestSuccessThenProgressThenSuccess(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := begun(t, 1, steptest.Policy())
		d.answer("r", 0, 1, task.Succeed)
		d.progress("r", 0, 1)
		if again := d.answer("r", 0, 1, task.Succeed); !again.Duplicate {
			t.Errorf("the second answer: %+v", again)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := d.Task("r-S000").State; got != (task.State{Status: task.Succeeded, Attempt: 1, Settled: true}) {
			t.Errorf("ended as %+v", got)
		}
		if stop := d.Broker.Orders(protocol.OrderCancel); len(stop) != 1 {
			t.Errorf("%d orders to stop work on a task that is over", len(stop))
		}
	})
}

func TestWorkOnALostLeaseMayGoOnUntilItRunsElsewhere(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := begun(t, 1, steptest.Policy())
		d.progress("r", 0, 1)
		time.Sleep(50 * time.Second)
		d.progress("r", 0, 1) // its lease ended; its result may still answer the next grant
		synctest.Wait()
		if stop := d.Broker.Orders(protocol.OrderCancel); len(stop) != 0 {
			t.Errorf("told to stop while a retry is awaited: %+v", stop)
		}
		time.Sleep(5 * time.Second)
		d.claimAs("other", 0, "r-S000")
		d.grants()
		d.progress("r", 0, 1)
		synctest.Wait()
		stop := d.Broker.Orders(protocol.OrderCancel)
		if len(stop) != 1 || stop[0].Address.Terminal != "pos" || stop[0].Order.Attempt != 1 {
			t.Errorf("orders to stop: %+v", stop)
		}
	})
}

func TestAPausedLeaseDoesNotEndAndAResumedOneDoes(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := begun(t, 1, steptest.Policy())
		d.Pause("r-S000", 1)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if s := d.Task("r-S000").State.Status; s != task.Running {
			t.Fatalf("a lease that does not run ended: %s", s)
		}
		d.Resume("r-S000", 1)
		time.Sleep(44 * time.Second)
		synctest.Wait()
		if s := d.Task("r-S000").State.Status; s != task.Running {
			t.Fatalf("resumed without a whole lease: %s", s)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s := d.Task("r-S000").State.Status; s != task.Failed {
			t.Errorf("after a resumed lease it is %s", s)
		}
	})
}

func TestARestartKeepsSlotsAndGivesAFullLease(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "muster.db")
		first := open(t, path, limits{running: 2, perSecond: 0, burst: 1})
		first.Create("r", 3, steptest.Policy())
		first.claim("r", 0)
		first.claim("r", 1)
		if len(first.grants()) != 2 {
			t.Fatal("two were not granted")
		}
		first.Admission.Stop()
		first.Bench.Close()
		time.Sleep(time.Hour) // headquarters is away

		d := open(t, path, limits{running: 2, perSecond: 0, burst: 1})
		time.Sleep(44 * time.Second)
		d.claim("r", 2)
		if got := d.grants(); len(got) != 0 {
			t.Fatalf("granted %v over the cap", got)
		}
		for i := range 2 {
			if s := d.Task(steptest.TaskID("r", i)).State.Status; s != task.Running {
				t.Errorf("headquarters' own absence ended an attempt: %s", s)
			}
		}
		d.progress("r", 0, 1)
		time.Sleep(2 * time.Second)
		if got := d.grants(); len(got) != 1 || got[0].Order.TaskID != "r-S002" {
			t.Errorf("granted %v when one silent attempt had ended", got)
		}
	})
}

// TestAGrantThatIsSaidAgainAfterARestartEndsWithTheStartTimeout, though the whole
// lease that it had until then is longer.
func TestAGrantThatIsSaidAgainAfterARestartEndsWithTheStartTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "muster.db")
		d := open(t, path, wide())
		d.Create("r", 1, policyWith(func(p *job.Policy) { p.Lease = 10 * time.Minute }))
		d.claim("r", 0)
		d.grants()
		d.Admission.Stop()
		d.Bench.Close()

		d = open(t, path, wide())
		time.Sleep(time.Minute)
		d.claim("r", 0)
		if got := d.grants(); len(got) != 1 {
			t.Fatalf("said again: %+v", got)
		}
		time.Sleep(grant.StartTimeout + time.Second)
		synctest.Wait()
		if s := d.Task("r-S000").State.Status; s != task.Failed {
			t.Errorf("it never started, and is %s", s)
		}
	})
}

// TestAfterARestoreARetryIsDueAsSoonAsEver: the numbers of attempts are far apart
// then, and say nothing of how often the task was executed. Nor do they let the grant
// name another offer than the one that lies there.
func TestAfterARestoreARetryIsDueAsSoonAsEver(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "muster.db")
		d := open(t, path, wide())
		d.Create("r", 1, steptest.Policy())
		d.Admission.Stop()
		d.Bench.Close()
		backup := filepath.Join(t.TempDir(), "backup.db")
		if _, err := store.MakeBackup(t.Context(), path, backup); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Restore(t.Context(), backup, path, "host:ops", d.now()); err != nil {
			t.Fatal(err)
		}

		d = open(t, path, wide())
		offered := d.Task("r-S000")
		d.claim("r", 0)
		got := d.grants()
		if len(got) != 1 || got[0].Order.Attempt < 17 {
			t.Fatalf("granted %+v", got)
		}
		if got := got[0].Order.OfferID; got != offerID(offered) {
			t.Errorf("it names offer %s; the one that lies there is %s", got, offerID(offered))
		}
		time.Sleep(grant.StartTimeout)
		synctest.Wait()
		failed := d.Task("r-S000")
		if wait := time.Until(failed.NextAttemptAt); failed.State.Status != task.Failed || wait <= 0 || wait > 4*time.Second {
			t.Errorf("it is %s, and its second execution is due in %s", failed.State.Status, wait)
		}
	})
}

func TestARestartIsNoWayAroundTheBudget(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "muster.db")
		l := limits{running: 100, perSecond: 1, burst: 5}
		granted := map[string]bool{}
		for restart := range 4 {
			d := open(t, path, l)
			if restart == 0 {
				d.Create("r", 50, steptest.Policy())
			}
			for i := range 50 {
				d.claim("r", i)
			}
			for _, s := range d.grants() {
				granted[s.Order.TaskID] = true
			}
			d.Admission.Stop()
			d.Bench.Close()
			time.Sleep(time.Second)
		}
		if len(granted) > 5+3 {
			t.Errorf("%d grants in 3 s at 1 a second and 5 at once", len(granted))
		}
	})
}

// TestNeitherIsARestartAfterWhatWasGrantedHasEnded: of those that ended nothing
// but their records tell what they cost, the overall budget and the run's own.
func TestNeitherIsARestartAfterWhatWasGrantedHasEnded(t *testing.T) {
	for name, own := range map[string]bool{"overall": false, "of a run": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "muster.db")
				l := limits{running: 100, perSecond: 1, burst: 5}
				policy := steptest.Policy()
				if own {
					l, policy.GrantRate, policy.GrantBurst = wide(), 1, 5
				}
				var moments []time.Time
				for restart := range 20 {
					d := open(t, path, l)
					if restart == 0 {
						d.Create("r", 60, policy)
					}
					for i := range 60 {
						d.claim("r", i)
					}
					for _, s := range d.grants() {
						moments = append(moments, time.Now())
						var i int
						if _, err := fmt.Sscanf(s.Order.TaskID, "r-S%d", &i); err != nil {
							t.Fatal(err)
						}
						d.answer("r", i, s.Order.Attempt, task.Succeed)
					}
					synctest.Wait()
					d.Admission.Stop()
					d.Bench.Close()
					time.Sleep(time.Duration(restart%3) * time.Second)
				}
				for i, from := range moments {
					for j, to := range moments[i:] {
						if most := 5 + to.Sub(from).Seconds(); float64(j+1) > most {
							t.Fatalf("%d grants in %v at 1 a second and 5 at once", j+1, to.Sub(from))
						}
					}
				}
				if len(moments) < 20 {
					t.Errorf("%d grants alone in 20 s: it was paid twice", len(moments))
				}
			})
		})
	}
}

func TestASlotOfWhatEndedDuringTheStartIsFreedWithItsLease(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := begun(t, 2, steptest.Policy())
		running, err := d.Store.ListRunning(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		d.answer("r", 0, 1, task.Succeed)
		synctest.Wait()
		d.Admission.Stop()
		d.leases.ghosts = running // read before the answer came, told after
		d.start(limits{running: 1, perSecond: 0, burst: 1})
		for range 3 {
			d.claim("r", 1)
			time.Sleep(20 * time.Second)
		}
		if got := d.grants(); len(got) != 2 || d.Stats().Running != 1 {
			t.Errorf("%d grants, %+v", len(got), d.Stats())
		}
	})
}

func TestStopMayComeTwiceOrBeforeStart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := open(t, "", wide())
		d.Admission.Stop()
		d.Admission.Stop()
	})
}

// offerID names the offer that lies there for a task that waits.
func offerID(t store.Task) string { return transport.OfferID(t.TaskID, t.Used(), t.CreatedAt) }

// TestALeaseRunsOnByWhatHeadquartersWasFrozen: signs of life that came meanwhile wait
// to be read, so nobody was silent.
func TestALeaseRunsOnByWhatHeadquartersWasFrozen(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := begun(t, 1, steptest.Policy())
		d.progress("r", 0, 1)
		time.Sleep(40 * time.Second)
		d.frozen.Store(int64(40 * time.Second))
		time.Sleep(44 * time.Second)
		synctest.Wait()
		if s := d.Task("r-S000").State.Status; s != task.Running {
			t.Fatalf("after 44 s of a lease of 45 s, and 40 s in which headquarters was frozen, it is %s", s)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := d.Task("r-S000").LastCode; got != protocol.CodeLeaseExpired {
			t.Errorf("after the lease: %q", got)
		}
	})
}
