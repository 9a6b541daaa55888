package agent_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/protocol"
	"muster/internal/task"
)

func TestTaskIsClaimedRunAnsweredAndReceipted(t *testing.T) {
	inBubble(t, count, func(t *testing.T, b *bench) {
		b.offer("t1")
		b.wantClaims() // not before headquarters' list is known
		b.connect(pending("t1"))
		b.wantClaims("t1")
		b.grant("t1", 1)
		r := b.result()
		want := `{"n":9007199254740993,"x":1.0}`
		sum := sha256.Sum256([]byte(want))
		if string(r.Result) != want || r.SHA256 != hex.EncodeToString(sum[:]) || !r.Executed || r.Attempt != 1 {
			t.Errorf("result %+v", r)
		}
		b.receipt(r, true, "")
		sleep(time.Minute)
		if all := drain[protocol.Result](t, b.wire, protocol.KindResult); len(all) != 0 || b.answers() != 0 {
			t.Errorf("after the receipt: %d results sent, %d kept", len(all), b.answers())
		}
		if said := drain[protocol.Progress](t, b.wire, protocol.KindProgress); len(said) != 0 {
			t.Errorf("an attempt that ended at once also said %+v", said)
		}
		b.wantMarks("t1/1")
	})
}

func TestCopiesOfOfferAndGrantRunOnce(t *testing.T) {
	inBubble(t, count, func(t *testing.T, b *bench) {
		b.connect()
		for range 3 {
			b.offer("t1")
		}
		b.wantClaims("t1")
		for range 3 {
			b.grant("t1", 1)
		}
		for _, r := range drain[protocol.Result](t, b.wire, protocol.KindResult) {
			b.receipt(r, true, "")
		}
		b.grant("t1", 1)
		b.offer("t1")
		b.grant("t1", 1)
		sleep(time.Minute)
		b.wantMarks("t1/1")
	})
}

func TestGrantBeforeItsOfferWaitsForIt(t *testing.T) {
	inBubble(t, count, func(t *testing.T, b *bench) {
		b.connect()
		b.grant("t1", 1)
		b.wantMarks()
		b.offer("t1")
		b.wantMarks("t1/1")
		b.grant("t2", 1)
		sleep(lease + time.Second)
		b.offer("t2")
		b.wantMarks("t1/1") // its lease is over: headquarters may have granted it elsewhere
	})
}

func TestGrantOutOfDateNeverStarts(t *testing.T) {
	inBubble(t, count, func(t *testing.T, b *bench) {
		old := protocol.Order{Meta: b.meta(), Order: protocol.OrderGrant, TaskID: "t1", Attempt: 1, LeaseMs: lease.Milliseconds()}
		b.order(old) // before headquarters' clock is known
		b.connect(pending("t1"))
		b.offer("t1")
		sleep(time.Hour)
		b.order(old)
		b.wantMarks()
	})
}

func TestCancelMeetsEveryState(t *testing.T) {
	cancel := func(b *bench, attempt int) {
		b.order(protocol.Order{Order: protocol.OrderCancel, TaskID: "t1", Attempt: attempt, Reason: "by_user"})
	}
	t.Run("running", func(t *testing.T) {
		inBubble(t, slow, func(t *testing.T, b *bench) {
			b.connect()
			b.offer("t1")
			b.grant("t1", 1)
			cancel(b, 1)
			r := b.result()
			if r.Outcome != protocol.AnswerCancelled {
				t.Errorf("outcome %s", r.Outcome)
			}
			b.wantFailure(r, protocol.CodeCancelled)
		})
	})
	t.Run("grant still on its way", func(t *testing.T) {
		inBubble(t, count, func(t *testing.T, b *bench) {
			b.connect()
			b.offer("t1")
			cancel(b, 1)
			b.grant("t1", 1)
			b.offer("t1")
			b.grant("t1", 1)
			b.wantMarks()
		})
	})
	t.Run("before the offer, and finished", func(t *testing.T) {
		inBubble(t, count, func(t *testing.T, b *bench) {
			b.connect()
			cancel(b, 0)
			b.offer("t1")
			b.wantClaims("t1") // headquarters alone says whether it is open
			b.grant("t1", 1)
			r := b.result()
			cancel(b, 1)
			b.receipt(r, true, "")
			b.wantMarks("t1/1")
		})
	})
	t.Run("of an attempt before the offer", func(t *testing.T) {
		inBubble(t, count, func(t *testing.T, b *bench) {
			b.connect()
			b.offer("t1", func(o *protocol.Offer) { o.Attempt, o.Status = 1, task.Failed })
			cancel(b, 1)
			b.claims()
			b.grant("t1", 2)
			b.wantMarks("t1/2")
		})
	})
}

func TestWithdrawnOfferIsDropped(t *testing.T) {
	inBubble(t, slow, func(t *testing.T, b *bench) {
		b.offer("t1")
		b.withdraw("t1")
		b.connect()
		b.wantClaims()
		b.offer("t2")
		b.claims()
		b.grant("t2", 1)
		b.withdraw("t2") // what runs goes on
		// A grant that waits for a place goes with its offer, and a late copy of
		// the offer does not bring it back.
		b.offer("t3")
		b.grant("t3", 1)
		b.withdraw("t3")
		b.offer("t3")
		sleep(11 * time.Second)
		b.result()
		b.wantMarks("t2/1")
	})
}

func TestDenyIsObeyed(t *testing.T) {
	inBubble(t, count, func(t *testing.T, b *bench) {
		b.connect()
		deny := func(code protocol.Code, after time.Duration) {
			b.order(protocol.Order{Order: protocol.OrderDeny, TaskID: "t1", Code: code, RetryAfterMs: after.Milliseconds()})
		}
		b.offer("t1")
		b.wantClaims("t1")
		deny(protocol.CodeNotYet, 2*time.Minute)
		sleep(2*time.Minute - time.Second)
		b.wantClaims()
		sleep(32 * time.Second)
		b.wantSomeClaims("t1")
		deny(protocol.CodeTaken, 0)
		sleep(30 * time.Second)
		b.wantSomeClaims("t1")
		for _, code := range []protocol.Code{protocol.CodeSettled, protocol.CodeNotFound} {
			deny(code, 0)
			sleep(time.Hour)
			b.sync()
			b.wantClaims()
			b.offer("t1")
			b.wantClaims("t1")
		}
	})
}

func TestUnansweredIsSaidAgain(t *testing.T) {
	inBubble(t, count, func(t *testing.T, b *bench) {
		b.connect()
		b.offer("t1")
		for range 5 {
			b.wantSomeClaims("t1")
			sleep(30 * time.Second)
		}
		b.grant("t1", 1)
		first := b.result()
		sleep(30 * time.Second)
		if second := b.result(); second.SHA256 != first.SHA256 || second.ID == first.ID {
			t.Errorf("sent again as %+v after %+v", second, first)
		}
		b.agent.Down()
		sleep(time.Minute)
		if n := len(drain[protocol.Result](t, b.wire, protocol.KindResult)); n != 0 {
			t.Errorf("%d results sent while the link was down", n)
		}
		b.agent.Up()
		b.result()
	})
}

func TestLargeResultWaitsForItsSlot(t *testing.T) {
	big := `{"text":"` + strings.Repeat("x", protocol.InlineLimit) + `"}`
	work := func(context.Context, json.RawMessage, time.Time) (json.RawMessage, error) {
		return json.RawMessage(big), nil
	}
	inBubble(t, work, func(t *testing.T, b *bench) {
		b.connect()
		b.offer("t1")
		b.grant("t1", 1)
		ready := drain[protocol.Ready](t, b.wire, protocol.KindReady)
		if len(ready) != 1 || ready[0].Bytes != int64(len(big)) {
			t.Fatalf("ready %+v", ready)
		}
		sleep(31 * time.Second)
		if again := drain[protocol.Ready](t, b.wire, protocol.KindReady); len(again) == 0 {
			t.Error("not announced again")
		}
		b.order(protocol.Order{Order: protocol.OrderSend, TaskID: "t1", Attempt: 1})
		r := b.result()
		if string(r.Result) != big || r.SHA256 != ready[0].SHA256 {
			t.Error("the bytes differ from those announced")
		}
		sleep(31 * time.Second) // the slot is used up: announce, do not push
		if n := len(drain[protocol.Result](t, b.wire, protocol.KindResult)); n != 0 {
			t.Errorf("%d more results without a slot", n)
		}
		b.receipt(r, true, "")
		if b.answers() != 0 {
			t.Error("kept after the receipt")
		}
	})
}

func TestReceiptMustNameTheBytes(t *testing.T) {
	inBubble(t, count, func(t *testing.T, b *bench) {
		b.connect()
		b.offer("t1")
		b.grant("t1", 1)
		r := b.result()
		for _, wrong := range []func(*protocol.Result){
			func(r *protocol.Result) { r.SHA256 = strings.Repeat("0", 64) },
			func(r *protocol.Result) { r.Attempt = 2 },
			func(r *protocol.Result) { r.TaskID = "t2" },
		} {
			copied := r
			wrong(&copied)
			b.receipt(copied, true, "")
		}
		if b.answers() != 1 {
			t.Fatal("I1: deleted without its receipt")
		}
		b.receipt(r, true, "")
		if b.answers() != 0 {
			t.Fatal("kept in spite of its receipt")
		}
	})
}

func TestStoredResultAnswersANewGrant(t *testing.T) {
	inBubble(t, count, func(t *testing.T, b *bench) {
		b.connect()
		b.offer("t1")
		b.grant("t1", 1)
		first := b.result()
		b.receipt(first, false, protocol.CodeStale) // its lease had ended
		b.offer("t1", func(o *protocol.Offer) { o.Attempt, o.Status = 1, task.Failed })
		sleep(31 * time.Second)
		claims := drain[protocol.Claim](t, b.wire, protocol.KindClaim)
		if len(claims) == 0 || claims[len(claims)-1].StoredAttempt != 1 {
			t.Fatalf("claims %+v, want one with storedAttempt 1", claims)
		}
		b.grant("t1", 2)
		second := b.result()
		if second.Attempt != 2 || second.Executed || second.SHA256 != first.SHA256 || string(second.Result) != string(first.Result) {
			t.Errorf("answered %+v", second)
		}
		b.receipt(second, true, "")
		if b.answers() != 0 {
			t.Error("kept after the receipt")
		}
		b.wantMarks("t1/1")
	})
}

func TestExpiredAndNotYetDueOffersAreNotClaimed(t *testing.T) {
	inBubble(t, count, func(t *testing.T, b *bench) {
		b.offer("old", func(o *protocol.Offer) { o.QueueDeadline = time.Now().Add(-time.Second).UnixMilli() })
		b.offer("later", func(o *protocol.Offer) { o.NotBefore = time.Now().Add(time.Minute).UnixMilli() })
		b.connect(pending("old"), pending("later"))
		b.wantClaims()
		sleep(time.Minute)
		b.wantClaims("later")
	})
}

func TestHeadquartersClockDecides(t *testing.T) {
	inBubble(t, count, func(t *testing.T, b *bench) {
		b.agent.Up()
		sleep(100 * time.Millisecond)
		hello := drain[protocol.Hello](t, b.wire, protocol.KindHello)[0]
		ahead := time.Now().Add(48 * time.Hour) // this terminal's clock is two days slow
		b.order(protocol.Order{Order: protocol.OrderSync, HelloID: hello.ID, ServerTimeMs: ahead.UnixMilli()})
		b.offer("over", func(o *protocol.Offer) { o.QueueDeadline = ahead.Add(-time.Second).UnixMilli() })
		b.offer("open", func(o *protocol.Offer) { o.QueueDeadline = ahead.Add(time.Minute).UnixMilli() })
		b.wantClaims("open")
	})
}

func TestForeignMessagesChangeNothing(t *testing.T) {
	inBubble(t, count, func(t *testing.T, b *bench) {
		b.connect()
		for topic, payload := range map[string]string{
			topics(t).Offer("008", "t1"):                                             `{"taskId":"t1","storeId":"008"}`,
			topics(t).Offer(storeID, "t1"):                                           `{"taskId":"t2","storeId":"007"}`,
			topics(t).Offer(storeID, "t2"):                                           `{"taskId":"t2","storeId":"008"}`,
			topics(t).Offer(storeID, "t3"):                                           `{"taskId":"t3",`,
			topics(t).Offer(storeID, "t4"):                                           `{"taskId":"t4","TASKID":"t5","storeId":"007"}`,
			topics(t).Terminal(storeID, "pos-2", protocol.KindOrders):                `{"order":"grant","taskId":"t1","attempt":1}`,
			topics(t).Terminal(storeID, terminalID, protocol.KindOrders):             `{"order":"grant","taskId":"../x","attempt":1}`,
			topics(t).Terminal(storeID, terminalID, protocol.KindClaim):              `{}`,
			"elsewhere/stores/" + storeID + "/tasks/t1":                              `{}`,
			topics(t).Terminal(storeID, terminalID, protocol.KindOrders) + "/deeper": `{}`,
		} {
			b.deliver(topic, []byte(payload))
		}
		b.offer("t6", func(o *protocol.Offer) { o.TerminalID = "pos-2" })
		sleep(time.Minute)
		b.wantClaims()
		b.wantMarks()
	})
}

func TestHelloTellsWhatIsHeld(t *testing.T) {
	inBubble(t, slow, func(t *testing.T, b *bench) {
		b.connect()
		b.offer("run")
		b.grant("run", 1)
		b.offer("wait")
		b.agent.Up()
		hello := b.sync(mine("run", 1), pending("wait"))
		want := []protocol.OpenTask{{TaskID: "run", Attempt: 1, Phase: "running"}, {TaskID: "wait", Phase: "offered"}}
		if !slices.Equal(hello.Open, want) || !slices.Equal(hello.Jobs, []protocol.JobVersion{{Type: "count", Version: 1}}) {
			t.Errorf("hello %+v", hello)
		}
	})
}
