package intake_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/steptest"
	"muster/internal/protocol"
	"muster/internal/task"
)

func (d *desk) ready(i int, bytes int64) {
	d.t.Helper()
	d.readyOf("r", i, bytes)
}

func (d *desk) readyOf(run string, i int, bytes int64) {
	d.t.Helper()
	m := protocol.Ready{TaskID: steptest.TaskID(run, i), Attempt: 1, Bytes: bytes, SHA256: digest(fmt.Sprint(bytes))}
	if err := d.HandleReady(d.t.Context(), steptest.From(i, protocol.KindReady), steptest.Message(m)); err != nil {
		d.t.Error(err)
	}
}

// calls returns the stores that were called for, in order.
func (d *desk) calls() (stores []string) {
	synctest.Wait()
	for _, s := range d.Broker.Orders(protocol.OrderSend) {
		stores = append(stores, s.Address.Store)
	}
	return stores
}

// large is a valid result of about n bytes.
func large(n int) string { return fmt.Sprintf(`{"lines":1,"text":%q}`, strings.Repeat("x", n)) }

func TestFiveHundredReadyAtOnceAreCalledEightAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, wide())
		d.run(500)
		for i := range 500 {
			d.ready(i, 100<<10)
		}
		answered := 0
		for answered < 500 {
			calls := d.calls()
			if open := len(calls) - answered; open > 8 || open < min(8, 500-answered) {
				t.Fatalf("%d uploads at once after %d", open, answered)
			}
			for k, s := range calls {
				if s != steptest.StoreID(k) {
					t.Fatalf("call %d went to %s: not in order of asking", k, s)
				}
			}
			d.send(answered, success(answered, 1, large(100)))
			answered++
		}
		if got := d.Stats(); got.Accepted != 500 || got.InFlight != 0 || got.Waiting != 0 || got.Unasked != 0 {
			t.Errorf("counted %+v", got)
		}
	})
}

func TestAnnouncedResultsHoldTheirLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, limits{inFlight: 1, burst: 1})
		d.run(2)
		d.ready(0, 20_000)
		d.ready(1, 20_000)
		d.calls()
		if !d.leases.isPaused("r-S000") || !d.leases.isPaused("r-S001") {
			t.Error("a lease runs while its terminal waits for headquarters")
		}
		attempts, err := d.Store.ListAttempts(t.Context(), "r-S001")
		if err != nil || attempts[0].ReadyAt.IsZero() || attempts[0].Bytes != 20_000 {
			t.Errorf("the store knows %+v, %v", attempts, err)
		}
		d.Offline("S001", "pos")
		if d.leases.isPaused("r-S001") {
			t.Error("the lease of a terminal that is away stands still")
		}
	})
}

func TestWhoGoesOfflineGivesItsTurnBackAndKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, limits{inFlight: 1, burst: 1})
		d.run(3)
		for i := range 3 {
			d.ready(i, 20_000)
		}
		d.calls()
		d.Offline("S000", "pos")
		if got := fmt.Sprint(d.calls()); got != "[S000 S001]" {
			t.Fatalf("called %s", got)
		}
		d.ready(0, 20_000) // it is back
		d.send(1, success(1, 1, large(20_000)))
		if got := fmt.Sprint(d.calls()); got != "[S000 S001 S000]" {
			t.Errorf("called %s: the old place was lost", got)
		}
	})
}

func TestALostOrderToSendIsSaidAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, limits{inFlight: 1, burst: 1})
		d.run(2)
		d.ready(0, 20_000)
		d.ready(1, 20_000)
		d.calls()
		d.ready(0, 20_000)
		d.ready(1, 20_000)
		if got := fmt.Sprint(d.calls()); got != "[S000 S000]" {
			t.Errorf("called %s", got)
		}
	})
}

func TestAnUploadThatDoesNotComeFreesItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, limits{inFlight: 1, burst: 1})
		d.run(2)
		d.ready(0, 250_000)
		d.ready(1, 20_000)
		d.calls()
		d.Heard("S001", "pos")
		d.Heard("S000", "pos")
		time.Sleep(90 * time.Second)
		if got := fmt.Sprint(d.calls()); got != "[S000]" {
			t.Fatalf("a slow link was given up after a minute and a half: %s", got)
		}
		time.Sleep(2 * time.Second)
		if got := fmt.Sprint(d.calls()); got != "[S000 S001]" {
			t.Errorf("called %s", got)
		}
		if d.leases.isPaused("r-S000") || d.Stats().TimedOut != 1 {
			t.Errorf("counted %+v", d.Stats())
		}
	})
}

func TestATerminalThatDoesNotAnswerTheCallFreesItsTurnSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, limits{inFlight: 1, burst: 1})
		d.run(2)
		d.ready(0, 250_000)
		d.ready(1, 20_000)
		d.calls()
		time.Sleep(9 * time.Second)
		if got := fmt.Sprint(d.calls()); got != "[S000]" {
			t.Fatalf("given up after 9 s: %s", got)
		}
		time.Sleep(time.Second)
		if got := fmt.Sprint(d.calls()); got != "[S000 S001]" || d.Stats().TimedOut != 1 {
			t.Errorf("called %s, counted %+v", got, d.Stats())
		}
		d.ready(0, 250_000) // it recovers, behind the others
		d.send(1, success(1, 1, large(20_000)))
		if got := fmt.Sprint(d.calls()); got != "[S000 S001 S000]" {
			t.Errorf("called %s", got)
		}
	})
}

func TestAnAttemptThatEndsNeedsNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, limits{inFlight: 1, burst: 1})
		d.run(3)
		for i := range 3 {
			d.ready(i, 20_000)
		}
		d.calls()
		for _, s := range []string{"S001", "S000"} {
			if _, _, err := d.Store.Cancel(t.Context(), "r", []string{s}, task.ReasonByUser, "tech", time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		if got := fmt.Sprint(d.calls()); got != "[S000 S002]" {
			t.Errorf("called %s", got)
		}
	})
}

func TestAnnouncementsThatWouldNotBeTakenAreAnsweredAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, wide())
		d.run(1)
		d.ready(0, protocol.MaxResultBytes+1)
		d.expect("refused INVALID_RESULT", awaiting(1))
		d.ready(0, 20_000)
		d.expect("refused STALE", awaiting(1))
		time.Sleep(time.Minute)
		d.grant(0)
		d.send(0, success(0, 2, large(20_000)))
		d.ready(0, 20_000)
		d.expect("refused SETTLED", over(task.Succeeded, 2))
		d.ready(1, 20_000)
		if got := d.lastReceipt(); got != "refused NOT_FOUND" {
			t.Errorf("receipt: %s", got)
		}
		if len(d.calls()) != 0 || d.Stats().Unasked != 1 {
			t.Errorf("called %v, counted %+v", d.calls(), d.Stats())
		}
	})
}

func TestAnAnnouncementOfWhatIsStoredGetsItsReceiptAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, wide())
		d.run(1)
		m := success(0, 1, large(20_000))
		d.send(0, m)
		ready := protocol.Ready{TaskID: m.TaskID, Attempt: 1, Bytes: int64(len(m.Result)), SHA256: m.SHA256}
		if err := d.HandleReady(t.Context(), steptest.From(0, protocol.KindReady), steptest.Message(ready)); err != nil {
			t.Fatal(err)
		}
		d.expect("accepted", over(task.Succeeded, 1))
		if len(d.calls()) != 0 {
			t.Error("it was called for again")
		}
	})
}

func TestALateAnnouncementIsNotUploadedForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, wide())
		d.run(1, func(p *job.Policy) { p.Late = job.Reject })
		snapshot, err := d.Store.CloseBarrier(t.Context(), "r", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := snapshot.Close(); err != nil {
			t.Fatal(err)
		}
		d.ready(0, 200_000)
		d.expect("refused LATE", over(task.Failed, 1))
		if len(d.calls()) != 0 {
			t.Error("it was called for")
		}
	})
}

func TestUnreadableAnnouncementsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, wide())
		d.run(1)
		for _, m := range []protocol.Ready{{}, {TaskID: "r-S000", Attempt: 1}, {TaskID: "r-S000", Bytes: 5}} {
			if err := d.HandleReady(t.Context(), steptest.From(0, protocol.KindReady), steptest.Message(m)); err != nil {
				t.Fatal(err)
			}
		}
		if d.Stats().Unreadable != 3 || len(d.calls()) != 0 {
			t.Errorf("counted %+v", d.Stats())
		}
	})
}

func TestAResultLargerThanTheBucketIsCalledOnceItsBytesAreSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, limits{inFlight: 8, perSecond: 1000, burst: 4000})
		d.run(2)
		d.ready(0, 20_000)
		d.ready(1, 100)
		time.Sleep(19 * time.Second)
		if got := d.calls(); len(got) != 0 {
			t.Fatalf("%v called after 19 s of 20", got)
		}
		time.Sleep(1100 * time.Millisecond)
		if got := fmt.Sprint(d.calls()); got != "[S000 S001]" {
			t.Errorf("called %s", got)
		}
	})
}

func TestWhatComesUnaskedIsTakenAndPaidFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, limits{inFlight: 8, perSecond: 1000, burst: 30_000})
		time.Sleep(30 * time.Second) // its budget is full
		d.run(2)
		d.send(0, success(0, 1, large(29_900)))
		d.expect("accepted", over(task.Succeeded, 1))
		d.ready(1, 20_000)
		if got := d.calls(); len(got) != 0 || d.Stats().Unasked != 1 {
			t.Errorf("called %v on a budget that was used", got)
		}
		time.Sleep(20 * time.Second)
		if got := d.calls(); len(got) != 1 {
			t.Errorf("called %v", got)
		}
	})
}

// TestWhatIsSentAboveWhatWasAnnouncedIsPaidFor by what is left, and what is not there
// is owed (I6).
func TestWhatIsSentAboveWhatWasAnnouncedIsPaidFor(t *testing.T) {
	for burst, c := range map[int]struct {
		next int64
		wait time.Duration
	}{40_000: {20_000, 10 * time.Second}, 10_000: {10_000, 30 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			d := open(t, limits{inFlight: 8, perSecond: 1000, burst: burst})
			time.Sleep(40 * time.Second) // its budget is full
			d.run(2)
			d.ready(0, 10_000)
			d.calls()
			d.send(0, success(0, 1, large(30_000)))
			d.expect("accepted", over(task.Succeeded, 1))
			d.ready(1, c.next)
			time.Sleep(c.wait)
			if got := fmt.Sprint(d.calls()); got != "[S000]" || d.Stats().Unasked != 0 {
				t.Errorf("with a burst of %d: called %s after %s, counted %+v", burst, got, c.wait, d.Stats())
			}
			time.Sleep(time.Second)
			if got := fmt.Sprint(d.calls()); got != "[S000 S001]" {
				t.Errorf("with a burst of %d: called %s a second later", burst, got)
			}
		})
	}
}

// TestWhatComesUnaskedIsOwed, whatever it is: a result that was only announced, one
// that the run takes no more, an error as long as a result, or what is no answer.
func TestWhatComesUnaskedIsOwed(t *testing.T) {
	big := large(30_000)
	for name, act := range map[string]func(d *desk){
		"announced": func(d *desk) {
			d.ready(0, 30_000)
			d.send(0, success(0, 1, big))
		},
		"late": func(d *desk) {
			snapshot, err := d.Store.CloseBarrier(d.t.Context(), "r", time.Now())
			if err != nil || snapshot.Close() != nil {
				d.t.Fatal(err)
			}
			d.send(0, success(0, 1, big))
		},
		"an error": func(d *desk) {
			m := failure(0, 1, protocol.CodeExecution)
			m.Error, m.SHA256 = []byte(big), digest(big)
			d.send(0, m)
		},
		"no answer": func(d *desk) {
			d.sendRaw(0, []byte(`{"taskId":"r-S000","attempt":1,"outcome":"succeeded","result":`+big+`,"taskId":"r-S000"}`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := open(t, limits{inFlight: 8, perSecond: 1000, burst: 10_000})
				d.run(1, func(p *job.Policy) { p.Late, p.Attempts = job.Reject, 1 })
				d.Create("other", 2, steptest.Policy())
				d.grantOf("other", 1)
				act(d)
				if got := d.Stats().Unasked; got != 1 || !d.Task("r-S000").State.Settled {
					t.Fatalf("%d came unasked, %s", got, d.lastReceipt())
				}
				d.Broker.Forget()
				d.readyOf("other", 1, 1000)
				time.Sleep(30 * time.Second)
				if got := d.calls(); len(got) != 0 {
					t.Errorf("called %v for 31,000 bytes after 30 s of 1,000 a second", got)
				}
				time.Sleep(2 * time.Second)
				if got := fmt.Sprint(d.calls()); got != "[S001]" {
					t.Errorf("called %s 2 s later", got)
				}
			})
		})
	}
}

func TestAnUploadThatIsInterruptedIsPaidForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, limits{inFlight: 8, perSecond: 1000, burst: 20_000})
		time.Sleep(20 * time.Second) // its budget is full
		d.run(1)
		d.ready(0, 20_000)
		d.calls()
		d.Offline("S000", "pos")
		d.ready(0, 20_000)
		time.Sleep(19 * time.Second)
		if got := d.calls(); len(got) != 1 {
			t.Fatalf("called %v: the same bytes cannot pay twice", got)
		}
		time.Sleep(time.Second)
		if got := d.calls(); len(got) != 2 {
			t.Errorf("called %v", got)
		}
	})
}

func TestAnotherTerminalCannotTakeTheHoldersTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, limits{inFlight: 1, burst: 1})
		d.run(2)
		d.ready(0, 20_000)
		d.ready(1, 20_000)
		d.calls()
		from := steptest.From(1, protocol.KindReady)
		from.Terminal = "other"
		m := protocol.Ready{TaskID: "r-S001", Attempt: 1, Bytes: 30_000, SHA256: digest("other")}
		if err := d.HandleReady(t.Context(), from, steptest.Message(m)); err != nil {
			t.Fatal(err)
		}
		if got := d.lastReceipt(); got != "refused STALE" {
			t.Errorf("receipt: %s", got)
		}
		d.send(0, success(0, 1, large(20_000)))
		if got := fmt.Sprint(d.calls()); got != "[S000 S001]" {
			t.Errorf("called %s", got)
		}
	})
}
