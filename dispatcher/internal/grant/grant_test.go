package grant_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

func TestAClaimIsGrantedAtOnceWhenThereIsRoom(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := open(t, "", wide())
		d.Create("r", 1, steptest.Policy())
		d.claim("r", 0)
		got := d.grants()
		if len(got) != 1 {
			t.Fatalf("%d grants", len(got))
		}
		o := got[0].Order
		if o.Attempt != 1 || o.LeaseMs != 45_000 || o.RunTimeoutMs != 60_000 || len(o.OfferID) != 26 || len(o.OfferSHA256) != 64 {
			t.Errorf("granted %+v", o)
		}
		if got[0].Address.Store != "S000" || got[0].Address.Terminal != "pos" {
			t.Errorf("granted to %s", got[0].Topic)
		}
		if now := d.Task("r-S000"); now.State != (task.State{Status: task.Running, Attempt: 1}) || now.HolderID != "pos" {
			t.Errorf("the store says %+v", now)
		}
	})
}

func TestTwoHundredClaimsForOneTaskAreOneGrant(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := open(t, "", wide())
		d.Create("r", 1, steptest.Policy())
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() { d.claimAs(fmt.Sprintf("pos%d", i), 0, "r-S000") })
		}
		all.Wait()
		granted := d.grants()
		if len(granted) != 1 {
			t.Fatalf("%d grants", len(granted))
		}
		denied := map[string]bool{}
		for _, s := range d.denials() {
			if s.Order.Code != protocol.CodeTaken || s.Order.RetryAfterMs < 1000 {
				t.Errorf("denied with %+v", s.Order)
			}
			denied[s.Address.Terminal] = true
		}
		if len(denied) != 199 || denied[granted[0].Address.Terminal] {
			t.Errorf("%d of the other 199 were denied", len(denied))
		}
	})
}

func TestALostGrantIsSaidAgainToItsHolderOnly(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := open(t, "", wide())
		d.Create("r", 1, steptest.Policy())
		d.claim("r", 0)
		first := d.grants()[0].Order
		time.Sleep(20 * time.Second)
		d.claim("r", 0)
		d.claimAs("other", 0, "r-S000")
		again := d.grants()
		if len(again) != 2 || again[1].Order.Attempt != 1 || again[1].Order.OfferID != first.OfferID || again[1].Order.OfferSHA256 != first.OfferSHA256 ||
			again[1].Address.Terminal != "pos" {
			t.Fatalf("said again: %+v", again[1:])
		}
		if denied := d.denials(); len(denied) != 1 || denied[0].Address.Terminal != "other" || denied[0].Order.Code != protocol.CodeTaken {
			t.Errorf("denied %+v", denied)
		}
		time.Sleep(20 * time.Second) // past the first start timeout, within the second
		if d.Task("r-S000").State.Status != task.Running {
			t.Error("a grant that was said again has no time to start")
		}
	})
}

func TestAnAttemptThatWasSeenAliveIsNotGrantedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := begun(t, 1, steptest.Policy())
		d.progress("r", 0, 1)
		d.claim("r", 0)
		if got := d.grants(); len(got) != 1 {
			t.Errorf("an attempt that had started was granted %d times", len(got))
		}
		if denied := d.denials(); len(denied) != 1 || denied[0].Order.Code != protocol.CodeTaken {
			t.Errorf("denied %+v", denied)
		}
	})
}

func TestWhoCannotWaitIsDeniedWithTheReason(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := begun(t, 3, steptest.Policy())
		d.answer("r", 0, 1, task.Succeed)
		d.claim("r", 1)
		d.grants()
		failed := store.Answer{Event: task.Fail, RetryAt: time.Now().Add(5 * time.Second), Attempt: store.Attempt{
			TaskID: "r-S001", Attempt: 1, StoreID: "S001", TerminalID: "pos", Answer: protocol.AnswerFailed, SHA256: "x"}}
		if _, err := d.Store.Settle(t.Context(), failed, time.Now()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		d.claim("r", 0)                        // over
		d.claim("r", 1)                        // not due
		d.claimAs("pos", 2, "unknown")         // unknown
		d.claimAs("pos", 2, "r-S000")          // another store's
		d.claimAs("pos", 2, "no/such/+/topic") // no id at all
		want := []string{"S000 SETTLED 0", "S001 NOT_YET 5000", "S002 NOT_FOUND 0", "S002 NOT_FOUND 0"}
		got := d.denials()
		for i, s := range got {
			if text := fmt.Sprintf("%s %s %d", s.Address.Store, s.Order.Code, s.Order.RetryAfterMs); i >= len(want) || text != want[i] {
				t.Errorf("denial %d is %q", i, text)
			}
		}
		if len(got) != len(want) || d.Stats().Malformed != 1 {
			t.Errorf("%d denials, %d malformed", len(got), d.Stats().Malformed)
		}
		if got := fmt.Sprint(d.cleared()); got != "[S000/tasks/r-S000 S002/tasks/unknown S002/tasks/r-S000]" {
			t.Errorf("cleared %s", got)
		}
	})
}

func TestATaskForAnotherTerminalIsNotFound(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := open(t, "", limits{running: 1, perSecond: 0, burst: 1})
		d.Address("other").Create("r", 1, steptest.Policy())
		d.claim("r", 0)
		if denied := d.denials(); len(denied) != 1 || denied[0].Order.Code != protocol.CodeNotFound || d.Waiting("r") != 0 {
			t.Errorf("denied %+v", denied)
		}
		if got := d.cleared(); len(got) != 0 {
			t.Errorf("cleared %v, which the other terminal of the store is to see", got)
		}
		d.claimAs("other", 0, "r-S000")
		if got := d.grants(); len(got) != 1 || got[0].Address.Terminal != "other" {
			t.Errorf("granted %+v", got)
		}
	})
}

func TestARetainedClaimAsksForNothing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := open(t, "", wide())
		d.Create("r", 1, steptest.Policy())
		in := steptest.Message(protocol.Claim{TaskID: "r-S000"})
		in.Retained = true
		if err := d.HandleClaim(t.Context(), steptest.From(0, protocol.KindClaim), in); err != nil {
			t.Fatal(err)
		}
		if len(d.grants()) != 0 || d.Stats().Malformed != 1 {
			t.Error("a claim that nobody may be making any more was granted")
		}
	})
}

func TestOfflineStoresHoldNoSlot(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := open(t, "", limits{running: 10, perSecond: 0, burst: 1})
		d.Create("r", 100, steptest.Policy())
		for i := range 50 { // they claim and go away before their turn, but for the first 10
			d.claim("r", i)
		}
		if got := len(d.grants()); got != 10 {
			t.Fatalf("%d granted under a cap of 10", got)
		}
		for i := range 50 {
			d.Offline(steptest.StoreID(i), "pos")
		}
		for i := range 10 {
			d.answer("r", i, 1, task.Succeed)
		}
		began := time.Now()
		for i := 50; i < 100; i++ {
			d.claim("r", i)
		}
		for done := 10; done < 60; {
			for _, s := range d.grants()[done:] {
				if s.Order.TaskID < "r-S050" {
					t.Fatalf("%s was granted though its terminal is away", s.Order.TaskID)
				}
				var i int
				if _, err := fmt.Sscanf(s.Order.TaskID, "r-S%d", &i); err != nil {
					t.Fatal(err)
				}
				d.answer("r", i, 1, task.Succeed)
				done++
			}
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("50 online stores took %v", took)
		}
	})
}

func TestARunAtItsOwnCapDoesNotHoldUpOthers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := open(t, "", wide())
		narrow, paced := steptest.Policy(), steptest.Policy()
		narrow.MaxRunning, narrow.Priority = 1, 9
		paced.GrantRate, paced.GrantBurst, paced.Priority = 0.1, 1, 5
		d.Create("narrow", 3, narrow)
		d.Create("paced", 3, paced)
		d.Create("free", 3, steptest.Policy())
		for _, run := range []string{"narrow", "paced", "free"} {
			for i := range 3 {
				d.claim(run, i)
			}
		}
		d.grants()
		if n, p, f := d.Waiting("narrow"), d.Waiting("paced"), d.Waiting("free"); n != 2 || p != 2 || f != 0 {
			t.Errorf("%d, %d and %d claims wait", n, p, f)
		}
		time.Sleep(10 * time.Second)
		if d.grants(); d.Waiting("paced") != 1 || d.Waiting("narrow") != 2 {
			t.Errorf("after 10 s %d and %d claims wait", d.Waiting("narrow"), d.Waiting("paced"))
		}
	})
}

func TestPriorityThenAskingAndAReclaimKeepsItsPlace(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := open(t, "", limits{running: 1, perSecond: 0, burst: 1})
		urgent := steptest.Policy()
		urgent.Priority = 1
		d.Create("low", 4, steptest.Policy())
		d.Create("high", 4, urgent)
		d.claim("low", 0)
		d.grants()
		d.claim("low", 1)
		d.claim("low", 2)
		d.claim("high", 2)
		d.claim("low", 1) // again: it keeps its place
		d.claim("high", 1)
		want := []string{"low-S000", "high-S002", "high-S001", "low-S001", "low-S002"}
		for n := range want {
			got := d.grants()
			if len(got) != n+1 || got[n].Order.TaskID != want[n] {
				t.Fatalf("grant %d went to %v, want %s", n, got[len(got)-1].Order.TaskID, want[n])
			}
			var i int
			if _, err := fmt.Sscanf(want[n][len(want[n])-3:], "%d", &i); err != nil {
				t.Fatal(err)
			}
			d.answer(want[n][:len(want[n])-5], i, 1, task.Succeed)
		}
	})
}

func TestAWaitingClaimIsNotedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := open(t, "", limits{running: 1, perSecond: 0, burst: 1})
		d.Create("r", 2, steptest.Policy())
		d.claim("r", 0)
		d.claim("r", 1)
		d.grants()
		began := d.Task("r-S001").ClaimedAt
		if began.IsZero() || time.Until(began) > 0 {
			t.Errorf("claimed at %v", began)
		}
		time.Sleep(20 * time.Second)
		d.claim("r", 1)
		d.grants()
		if again := d.Task("r-S001").ClaimedAt; !again.Equal(began) {
			t.Errorf("a claim again moved the first one from %v to %v", began, again)
		}
	})
}

func TestAClaimThatIsNotRepeatedLosesItsPlace(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := open(t, "", limits{running: 1, perSecond: 0, burst: 1})
		long := steptest.Policy()
		long.Lease = time.Hour
		d.Create("r", 3, long)
		d.claim("r", 0)
		d.grants()
		d.progress("r", 0, 1)
		d.claim("r", 1)
		for range 10 {
			d.claim("r", 2)
			time.Sleep(20 * time.Second)
		}
		d.answer("r", 0, 1, task.Succeed)
		got := d.grants()
		if len(got) != 2 || got[1].Order.TaskID != "r-S002" {
			t.Errorf("granted %v", got)
		}
	})
}

func TestACancelOrderReachesTheHolderAndFreesTheSlot(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		d := open(t, "", limits{running: 1, perSecond: 0, burst: 1})
		d.Create("r", 2, steptest.Policy())
		d.Create("q", 1, steptest.Policy())
		d.claim("r", 0)
		d.claim("r", 1)
		d.claim("q", 0)
		d.grants()
		if _, _, err := d.Store.Cancel(t.Context(), "r", nil, task.ReasonByUser, "tech", time.Now()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		orders := d.Broker.Orders(protocol.OrderCancel)
		if len(orders) != 1 || orders[0].Order.TaskID != "r-S000" || orders[0].Order.Attempt != 1 || orders[0].Order.Reason != "by_user" {
			t.Errorf("cancel orders %+v", orders)
		}
		if denied := d.denials(); len(denied) != 1 || denied[0].Order.TaskID != "r-S001" || denied[0].Order.Code != protocol.CodeSettled {
			t.Errorf("denied %+v", denied)
		}
		if got := d.grants(); len(got) != 2 || got[1].Order.TaskID != "q-S000" {
			t.Errorf("the slot of a cancelled task was not given on: %v", got)
		}
	})
}

func policyWith(change func(*job.Policy)) job.Policy {
	p := steptest.Policy()
	change(&p)
	return p
}
