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
	"muster/internal/protocol"
	"muster/internal/task"
)

// busy is a desk with one slot, which the task of run "busy" holds.
func busy(t *testing.T, l limits) *desk {
	t.Helper()
	l.running = 1
	d := open(t, "", l)
	d.Create("busy", 1, steptest.Policy())
	d.claim("busy", 0)
	if len(d.grants()) != 1 {
		t.Fatal("the one slot is not taken")
	}
	return d
}

// grantNow commits a grant that admission did not ask for now: the call that asked
// for it is over.
func (d *desk) grantNow(terminal, run string, i int) {
	d.t.Helper()
	g, err := d.Store.Grant(d.t.Context(), store.Grant{TaskID: steptest.TaskID(run, i), StoreID: steptest.StoreID(i),
		TerminalID: terminal, LeaseUntil: d.now().Add(grant.StartTimeout)}, d.now())
	if err != nil || g.Refusal != "" {
		d.t.Errorf("%+v, %v", g, err)
	}
}

func (d *desk) denied(want ...string) {
	d.t.Helper()
	var got []string
	for _, s := range d.denials() {
		got = append(got, fmt.Sprintf("%s/%s %s", s.Address.Store, s.Address.Terminal, s.Order.Code))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		d.t.Errorf("denied %v, want %v", got, want)
	}
}

// TestWhoCannotHaveATaskDoesNotWaitForASlot.
func TestWhoCannotHaveATaskDoesNotWaitForASlot(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := busy(t, limits{burst: 1})
		d.Address("other").Create("r", 1, steptest.Policy())
		d.claim("r", 0)
		d.claimAs("second", 0, "busy-S000")
		d.denied("S000/pos NOT_FOUND", "S000/second TAKEN")
	})
}

// TestATaskThatIsGrantedWhileItIsReadIsReadAgain: who asked for it is answered.
func TestATaskThatIsGrantedWhileItIsReadIsReadAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := open(t, "", wide())
		d.Create("r", 1, steptest.Policy())
		d.tasks.read.next(func() {
			d.claim("r", 0)
			d.grants()
		})
		d.claimAs("other", 0, "r-S000")
		d.denied("S000/other TAKEN")
		if d.Stats().Waiting != 0 {
			t.Error("it waits for what it cannot have")
		}
	})
}

// TestTheOthersWhoWaitForATaskAreAnswered when it is granted, and cost no token.
func TestTheOthersWhoWaitForATaskAreAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := busy(t, limits{burst: 3, perSecond: 0.001})
		d.Create("r", 2, steptest.Policy())
		d.claim("r", 0)
		d.claimAs("other", 0, "r-S000")
		d.claim("r", 1)
		d.answer("busy", 0, 1, task.Succeed)
		if got := d.grants(); len(got) != 2 || got[1].Order.TaskID != "r-S000" || got[1].Address.Terminal != "pos" {
			t.Errorf("granted %+v", got)
		}
		d.denied("S000/other TAKEN")
		d.answer("r", 0, 1, task.Succeed)
		if got := d.grants(); len(got) != 3 || got[2].Order.TaskID != "r-S001" {
			t.Errorf("granted %+v", got)
		}
	})
}

// TestATaskIsPickedOnce though two ask for it and there is room for both.
func TestATaskIsPickedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := open(t, "", limits{running: 10, burst: 3, perSecond: 0.001})
		d.Create("first", 1, steptest.Policy())
		d.Create("r", 2, steptest.Policy())
		d.tasks.granting.next(func() { // all of these wait for the next round
			d.claim("r", 0)
			d.claimAs("other", 0, "r-S000")
			d.claim("r", 1)
		})
		d.claim("first", 0)
		if got := d.grants(); len(got) != 3 || d.Stats().Running != 3 {
			t.Errorf("%d grants with 3 tokens, %+v", len(got), d.Stats())
		}
		d.denied("S000/other TAKEN")
	})
}

// TestWhoClaimsAgainWhileItIsGrantedIsNotDenied.
func TestWhoClaimsAgainWhileItIsGrantedIsNotDenied(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := open(t, "", wide())
		d.Create("r", 1, steptest.Policy())
		d.tasks.granting.next(func() { d.claim("r", 0) })
		d.claim("r", 0)
		if got := d.grants(); len(got) != 1 {
			t.Errorf("granted %+v", got)
		}
		d.denied()
	})
}

// TestWhatEndsBetweenItsCommitAndItsOrderIsNotToldToRun.
func TestWhatEndsBetweenItsCommitAndItsOrderIsNotToldToRun(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := open(t, "", wide())
		d.Create("r", 1, steptest.Policy())
		d.tasks.granted.next(func() {
			if _, _, err := d.Store.Cancel(t.Context(), "r", nil, task.ReasonByUser, "wang", d.now()); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Millisecond) // the feed comes first
		})
		d.claim("r", 0)
		time.Sleep(2 * time.Millisecond)
		if got := d.grants(); len(got) != 0 || d.Stats().Running != 0 || d.Stats().Granted != 0 {
			t.Errorf("granted %+v, %+v", got, d.Stats())
		}
	})
}

// TestTheLastAttemptIsTheLast whether the order goes out before the store tells of the
// grant, or after.
func TestTheLastAttemptIsTheLast(t *testing.T) {
	for _, late := range []time.Duration{0, time.Second} {
		inBubble(t, func(t *testing.T) {
			d := open(t, "", wide())
			d.Create("r", 1, policyWith(func(p *job.Policy) { p.Attempts = 1 }))
			synctest.Wait() // what is told of the run
			d.tasks.granted.next(func() { time.Sleep(time.Second / 2) })
			d.fed.next(func() { time.Sleep(late) })
			d.claim("r", 0)
			time.Sleep(time.Minute)
			synctest.Wait()
			if got := d.leases.ended(); len(got) != 1 || got[0] != task.GiveUp || d.Stats().Granted != 1 {
				t.Errorf("ended with %v, %+v", got, d.Stats())
			}
		})
	}
}

// TestStopWaitsForBothRounds that are under way.
func TestStopWaitsForBothRounds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const round = 512
		d := open(t, "", wide())
		d.Create("first", 1, steptest.Policy())
		d.Create("slow", round, steptest.Policy())
		d.Create("fast", round, policyWith(func(p *job.Policy) { p.Priority = 1 }))
		d.tasks.slow = func(taskID string) time.Duration {
			if taskID[0] == 's' {
				return 5 * time.Second
			}
			return time.Second
		}
		d.tasks.granting.next(func() {
			for i := range round {
				d.claim("slow", i)
				d.claim("fast", i)
			}
		})
		d.claim("first", 0)
		time.Sleep(1500 * time.Millisecond)
		d.Admission.Stop()
		if running := d.Stats().Running; running != 1 {
			t.Errorf("it stopped and %d grants are under way", running)
		}
	})
}

// TestACommitThatOutlivesItsCall has its slot and its lease all the same, whoever
// was picked for the task since.
func TestACommitThatOutlivesItsCall(t *testing.T) {
	for name, picked := range map[string]bool{"nobody since": false, "another since": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				d := open(t, "", limits{running: 2, burst: 1})
				d.Create("r", 4, steptest.Policy())
				d.claim("r", 1) // the run is known
				d.grants()
				d.progress("r", 1, 1)
				if picked {
					d.tasks.granting.next(func() { d.grantNow("late", "r", 0); time.Sleep(time.Millisecond) })
					d.claim("r", 0)
					synctest.Wait()
					time.Sleep(2 * time.Millisecond)
					d.denied("S000/pos TAKEN")
				} else {
					d.grantNow("late", "r", 0)
				}
				d.claim("r", 2)
				d.claimAs("late", 0, "r-S000")
				if got := d.grants(); len(got) != 2 || got[1].Address.Terminal != "late" || d.Stats().Running != 2 {
					t.Fatalf("granted %+v, %+v", got[1:], d.Stats())
				}
				time.Sleep(grant.StartTimeout - time.Second)
				d.progress("r", 1, 1)
				time.Sleep(2 * time.Second)
				if got := d.grants(); len(got) != 3 || got[2].Order.TaskID != "r-S002" {
					t.Errorf("its slot did not come back: %+v", got)
				}
			})
		})
	}
}

// TestTheEndOfALeaseSaysWhetherARetryFollows.
func TestTheEndOfALeaseSaysWhetherARetryFollows(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := open(t, "", wide())
		d.Create("r", 1, steptest.Policy()) // two attempts
		for range 20 {
			d.claim("r", 0)
			time.Sleep(15 * time.Second)
		}
		synctest.Wait()
		if got := fmt.Sprint(d.leases.ended()); got != fmt.Sprint([]task.Event{task.Fail, task.GiveUp}) {
			t.Errorf("ended with %s", got)
		}
	})
}

// TestAShortLeaseIsAlsoTheFirst.
func TestAShortLeaseIsAlsoTheFirst(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := begun(t, 1, policyWith(func(p *job.Policy) { p.Lease = 10 * time.Second }))
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if d.Task("r-S000").State.Status == task.Running {
			t.Error("who never starts keeps the slot for longer than the lease")
		}
	})
}

// TestAnEndThatFailsIsNotLost: a sign of life that comes before the next try counts.
func TestAnEndThatFailsIsNotLost(t *testing.T) {
	for name, alive := range map[string]bool{"silent": false, "alive": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				d := begun(t, 1, steptest.Policy())
				d.progress("r", 0, 1)
				d.leases.full.Store(true)
				time.Sleep(46 * time.Second)
				d.leases.full.Store(false)
				if alive {
					d.progress("r", 0, 1)
				}
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if got := d.Task("r-S000").State.Status == task.Running; got != alive {
					t.Errorf("it runs: %t", got)
				}
				time.Sleep(45 * time.Second)
				synctest.Wait()
				if d.Task("r-S000").State.Status == task.Running || d.Stats().Running != 0 {
					t.Error("its lease never ended")
				}
			})
		})
	}
}

// TestAGrantWhoseLeaseEndsIsNotSaidAgain.
func TestAGrantWhoseLeaseEndsIsNotSaidAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := begun(t, 1, steptest.Policy())
		again := func() { d.claim("r", 0) }
		d.leases.beforeExpiry.Store(&again)
		time.Sleep(grant.StartTimeout + time.Second)
		if got := d.grants(); len(got) != 1 {
			t.Errorf("an attempt that is being ended was granted again: %+v", got[1:])
		}
		d.denied("S000/pos TAKEN")
	})
}

// TestAnEndedAttemptIsNotEndedAgain by its lease, and frees one place, not two.
func TestAnEndedAttemptIsNotEndedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := begun(t, 4, policyWith(func(p *job.Policy) { p.MaxRunning = 1 }))
		d.answer("r", 0, 1, task.Succeed)
		time.Sleep(5 * time.Minute)
		if got := d.leases.ended(); len(got) != 0 {
			t.Errorf("what was over is ended as %v", got)
		}
		d.claim("r", 1)
		d.grants()
		answer := func() { d.answer("r", 1, 1, task.Succeed); time.Sleep(time.Millisecond) }
		d.leases.beforeExpiry.Store(&answer) // the answer comes first
		time.Sleep(grant.StartTimeout + time.Second)
		d.claim("r", 2)
		d.claim("r", 3)
		if got := d.grants(); len(got) != 3 {
			t.Errorf("%d of a run with one place were granted", len(got))
		}
	})
}

// TestOnlyTheHolderKeepsALease, with signs of the attempt that runs.
func TestOnlyTheHolderKeepsALease(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := begun(t, 1, steptest.Policy())
		d.progress("r", 0, 1)
		from := steptest.From(0, protocol.KindProgress)
		from.Terminal = "other"
		for range 3 {
			time.Sleep(16 * time.Second)
			if err := d.HandleProgress(t.Context(), from, steptest.Message(protocol.Progress{TaskID: "r-S000", Attempt: 1})); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if d.Task("r-S000").State.Status == task.Running {
			t.Fatal("another terminal kept the lease")
		}
		d.Broker.Forget()
		time.Sleep(4 * time.Second)
		d.claim("r", 0)
		d.grants()
		d.progress("r", 0, 1) // late: it says nothing of the second attempt
		d.claim("r", 0)
		if got := d.grants(); len(got) != 2 || got[0].Order.Attempt != 2 || got[1].Order.Attempt != 2 {
			t.Errorf("a sign of the first attempt started the second: %+v", got)
		}
		if stop := d.Broker.Orders(protocol.OrderCancel); len(stop) != 0 {
			t.Errorf("its holder is told to stop: %+v", stop)
		}
	})
}

// TestWhoWorksOnTheTaskOfAnotherStoreIsStopped.
func TestWhoWorksOnTheTaskOfAnotherStoreIsStopped(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := open(t, "", wide())
		d.Create("r", 1, steptest.Policy())
		m := steptest.Message(protocol.Progress{TaskID: "r-S000", Attempt: 1})
		if err := d.HandleProgress(t.Context(), steptest.From(1, protocol.KindProgress), m); err != nil {
			t.Fatal(err)
		}
		if stop := d.Broker.Orders(protocol.OrderCancel); len(stop) != 1 || stop[0].Address.Store != "S001" {
			t.Errorf("orders to stop: %+v", stop)
		}
	})
}

// TestAPausedLeaseIsStartedAndStaysPaused until it is resumed; resuming what is not
// paused changes nothing.
func TestAPausedLeaseIsStartedAndStaysPaused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := open(t, "", wide())
		d.Create("r", 2, steptest.Policy())
		d.claim("r", 0)
		d.claim("r", 1)
		d.grants()
		d.Pause("r-S000", 1)
		d.claim("r", 0)
		d.denied("S000/pos TAKEN") // its result is there: a grant would start it again
		d.progress("r", 0, 1)
		d.progress("r", 1, 1)
		time.Sleep(40 * time.Second)
		d.Resume("r-S001", 1)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if d.Task("r-S000").State.Status != task.Running {
			t.Error("a sign of life ended the pause")
		}
		if d.Task("r-S001").State.Status == task.Running {
			t.Error("a lease that was not paused is longer for being resumed")
		}
	})
}

// TestARestartForgetsNoStart: what was seen alive is not granted again, and what is
// told to run twice has one slot.
func TestARestartForgetsNoStart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "muster.db")
		d := open(t, path, wide())
		d.Create("r", 3, policyWith(func(p *job.Policy) { p.MaxRunning = 2 }))
		d.claim("r", 0)
		d.grants()
		d.progress("r", 0, 1)
		running, err := d.Store.ListRunning(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		d.Admission.Stop()
		d.Broker.Forget()
		d.leases.ghosts = running
		d.start(wide())
		d.claim("r", 0)
		d.denied("S000/pos TAKEN")
		d.claim("r", 1)
		d.claim("r", 2)
		if got := d.grants(); len(got) != 1 || got[0].Order.TaskID != "r-S001" {
			t.Errorf("granted %+v", got)
		}
	})
}

// TestADeniedTerminalComesBackWithinBounds.
func TestADeniedTerminalComesBackWithinBounds(t *testing.T) {
	for lease, want := range map[time.Duration]int64{time.Hour: 60_000, 20 * time.Second: 20_000, 300 * time.Millisecond: 1000} {
		inBubble(t, func(t *testing.T) {
			d := begun(t, 1, policyWith(func(p *job.Policy) { p.Lease = lease }))
			d.progress("r", 0, 1)
			d.claimAs("other", 0, "r-S000")
			if got := d.denials(); len(got) != 1 || got[0].Order.RetryAfterMs != want {
				t.Errorf("with %v left of the lease it is told to wait %d ms", lease, got[0].Order.RetryAfterMs)
			}
		})
	}
}

// TestAClosedRunIsForgotten: what admission knows stays bounded (I12).
func TestAClosedRunIsForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := open(t, "", wide())
		for i := range 3 {
			run := fmt.Sprint("r", i)
			d.Create(run, 1, steptest.Policy())
			d.claim(run, 0)
			d.grants()
			d.answer(run, 0, 1, task.Succeed)
			d.Changed([]store.Change{{Kind: store.RunClosed, RunID: run}})
		}
		if n := d.Known(); n != 0 {
			t.Errorf("%d closed runs are known", n)
		}
	})
}
