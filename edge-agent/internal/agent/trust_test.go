package agent_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"muster/edge-agent/internal/agent/refused"
	"muster/edge-agent/internal/executor"
	"muster/edge-agent/internal/hqtest"
	"muster/internal/protocol"
	"muster/internal/task"
	"muster/internal/trust"
)

// inTrust is inBubble with identity on.
func inTrust(t *testing.T, work executor.Func, test func(t *testing.T, b *bench, hq *hqtest.HQ)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, work)
		hq := b.identify()
		b.start()
		defer func() { b.kill() }()
		test(t, b, hq)
	})
}

// encode gives the payload of an offer or an order.
func encode(t testing.TB, message any) []byte {
	t.Helper()
	payload, err := protocol.Encode(message)
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

// grantOf is a grant of the newest offer of a task.
func (b *bench) grantOf(taskID string, attempt int) protocol.Order {
	return protocol.Order{Meta: b.meta(), Order: protocol.OrderGrant, TaskID: taskID, Attempt: attempt,
		LeaseMs: lease.Milliseconds(), RunTimeoutMs: 60_000, OfferSHA256: b.hashes[taskID]}
}

func (b *bench) wantRefused(reason refused.Reason, want int64) {
	b.t.Helper()
	if got := b.agent.Refused(); got[reason] != want {
		b.t.Errorf("refused %v, want %d %s", got, want, reason)
	}
}

// as has another key sign, or none.
func (b *bench) as(signer *trust.Signer, do func()) {
	own := b.signer
	b.signer = signer
	do()
	b.signer = own
}

func TestSignedWorkIsDoneAndNamesItsOffer(t *testing.T) {
	inTrust(t, count, func(t *testing.T, b *bench, _ *hqtest.HQ) {
		b.connect()
		b.offer("t1")
		b.wantClaims("t1")
		b.grant("t1", 1)
		r := b.result()
		if r.OfferSHA256 != b.hashes["t1"] || !r.Executed {
			t.Errorf("the result names %q, want %s", r.OfferSHA256, b.hashes["t1"])
		}
		b.receipt(r, true, "")
		b.wantMarks("t1/1")
		if got := b.agent.Refused(); len(got) != 0 {
			t.Errorf("refused %v", got)
		}
	})
}

func TestForgedOffersAreNotEvenClaimed(t *testing.T) {
	inTrust(t, count, func(t *testing.T, b *bench, hq *hqtest.HQ) {
		stranger, _ := hq.NewKey(time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
		b.connect()
		b.as(nil, func() { b.offer("t1") })
		b.wantRefused(refused.Unsigned, 1)
		b.as(stranger, func() { b.offer("t2") })
		b.wantRefused(refused.UnknownKey, 1)

		// Headquarters' own offer to another store, under this store's topic; and one
		// that says this store, signed for that one's topic.
		for _, store := range []string{"008", storeID} {
			offer := protocol.Offer{Meta: b.meta(), TypeVersion: 1, QueueDeadline: time.Now().Add(time.Hour).UnixMilli(),
				Record: protocol.Record{TaskID: "t3", ParentID: "run1", StoreID: store, Type: "count", Input: json.RawMessage(`{}`), Status: task.Pending}}
			payload := encode(t, offer)
			b.agent.Message(topics(t).Offer(storeID, "t3"), payload, b.signer.Sign(topics(t).Offer("008", "t3"), payload))
		}
		b.wantRefused(refused.BadSignature, 2)
		sleep(time.Minute)
		b.wantClaims()
		b.wantMarks()
	})
}

func TestOrdersThatAreNotHeadquartersStartNothing(t *testing.T) {
	inTrust(t, count, func(t *testing.T, b *bench, hq *hqtest.HQ) {
		b.connect()
		b.offer("t1")
		b.claims()
		payload := encode(t, b.grantOf("t1", 1))
		sig := b.signer.Sign(orders(t), payload)
		altered := []byte(strings.Replace(string(payload), `"attempt":1`, `"attempt":2`, 1))
		stranger, _ := hq.NewKey(time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
		terminal := trust.NewSigner(hq.Parts("008", "pos-1").Key)
		for name, tc := range map[string]struct {
			topic   string
			payload []byte
			sig     trust.Signature
			want    refused.Reason
		}{
			"unsigned":                    {orders(t), payload, trust.Signature{}, refused.Unsigned},
			"by a stranger":               {orders(t), payload, stranger.Sign(orders(t), payload), refused.UnknownKey},
			"by another store's terminal": {orders(t), payload, terminal.Sign(orders(t), payload), refused.UnknownKey},
			"under another key's name": {orders(t), payload, trust.Signature{KeyID: b.signer.KeyID(),
				Value: stranger.Sign(orders(t), payload).Value}, refused.BadSignature},
			"with an altered byte": {orders(t), altered, sig, refused.BadSignature},
			"moved from another terminal": {orders(t), payload,
				b.signer.Sign(topics(t).Terminal(storeID, "pos-2", protocol.KindOrders), payload), refused.BadSignature},
			"empty": {orders(t), nil, b.signer.Sign(orders(t), nil), refused.BadSignature},
		} {
			before := b.agent.Refused()[tc.want]
			b.agent.Message(tc.topic, tc.payload, tc.sig)
			synctest.Wait()
			if got := b.agent.Refused()[tc.want]; got != before+1 {
				t.Errorf("%s: %d refused as %s, want 1", name, got-before, tc.want)
			}
		}
		b.wantMarks()
		b.agent.Message(orders(t), payload, sig) // none of them used the number up
		b.result()
		b.wantMarks("t1/1")
	})
}

func TestAReplayedOrderIsRefusedAlsoAfterARestart(t *testing.T) {
	inTrust(t, slow, func(t *testing.T, b *bench, _ *hqtest.HQ) {
		b.connect()
		b.offer("t1")
		grant := encode(t, b.grantOf("t1", 1))
		b.deliver(orders(t), grant)
		cancel := encode(t, protocol.Order{Meta: b.meta(), Order: protocol.OrderCancel, TaskID: "t1", Attempt: 1, Reason: "by_user"})
		b.deliver(orders(t), cancel)
		r := b.result()
		b.receipt(r, true, "")
		b.deliver(orders(t), grant)
		b.wantRefused(refused.Replayed, 1)

		b.kill()
		b.start()
		b.connect()
		b.deliver(orders(t), grant)
		b.deliver(orders(t), cancel)
		b.wantRefused(refused.Replayed, 2)
		b.offer("t2")
		b.grant("t2", 1)
		sleep(11 * time.Second)
		b.wantMarks("t1/1", "t2/1")
	})
}

func TestAnOrderThatWasHeldBackIsRefused(t *testing.T) {
	inTrust(t, slow, func(t *testing.T, b *bench, _ *hqtest.HQ) {
		held := protocol.Order{Meta: b.meta(), Order: protocol.OrderCancel, TaskID: "t1", Attempt: 1, Reason: "by_user"}
		almost := protocol.Order{Meta: b.meta(), Order: protocol.OrderCancel, TaskID: "t1", Attempt: 1, Reason: "by_user"}
		sleep(20 * time.Second)
		almost.At = protocol.At(time.Now())
		sleep(15*time.Minute - 10*time.Second)
		b.connect()
		b.offer("t1")
		b.grant("t1", 1)
		b.order(held)
		b.wantRefused(refused.Expired, 1)
		if n := len(drain[protocol.Result](t, b.wire, protocol.KindResult)); n != 0 {
			t.Error("an order of a quarter of an hour ago was obeyed")
		}
		b.order(almost)
		b.wantFailure(b.result(), protocol.CodeCancelled)
	})
}

// TestASyncIsBelievedAfterHeadquartersSetItsClockBack: else the terminal would
// refuse all that could correct it.
func TestASyncIsBelievedAfterHeadquartersSetItsClockBack(t *testing.T) {
	inTrust(t, count, func(t *testing.T, b *bench, _ *hqtest.HQ) {
		ahead := time.Now().Add(2 * time.Hour)
		b.agent.Up()
		sleep(100 * time.Millisecond)
		hello := drain[protocol.Hello](t, b.wire, protocol.KindHello)[0]
		b.order(protocol.Order{Order: protocol.OrderSync, HelloID: hello.ID, ServerTimeMs: ahead.UnixMilli()})
		b.grant("t1", 1)
		b.wantRefused(refused.Expired, 1)
		sleep(31 * time.Second) // it asks again by itself
		b.sync()
		b.offer("t1")
		b.grant("t1", 1)
		b.result()
	})
}

func TestAGrantRunsTheOfferThatItNamesAlone(t *testing.T) {
	inTrust(t, count, func(t *testing.T, b *bench, _ *hqtest.HQ) {
		b.connect()
		began := time.Now()
		meant := func(o *protocol.Offer) { // at each time the same
			o.ScheduledFor = protocol.Time{}
			o.Deadline, o.QueueDeadline = began.Add(time.Minute).UnixMilli(), began.Add(time.Hour).UnixMilli()
		}
		other := func(o *protocol.Offer) {
			meant(o)
			o.Input = json.RawMessage(`{"n":2}`)
		}
		b.offer("t1", meant)
		want := b.hashes["t1"]
		b.offer("t1", other)
		named := b.grantOf("t1", 1)
		named.OfferSHA256 = want
		b.order(named)
		sleep(time.Second)
		b.wantMarks()
		b.offer("t1", meant)
		r := b.result()
		if r.OfferSHA256 != want {
			t.Errorf("the result names %s, want %s", r.OfferSHA256, want)
		}
		b.wantMarks("t1/1")

		b.offer("t2")
		unbound := b.grantOf("t2", 1)
		unbound.OfferSHA256 = ""
		b.order(unbound)
		b.wantRefused(refused.Unbound, 1)
		b.wantMarks("t1/1")
	})
}

func TestTheListOfKeysIsTakenFromTheAuthorityAlone(t *testing.T) {
	inTrust(t, count, func(t *testing.T, b *bench, hq *hqtest.HQ) {
		b.connect()
		next, listed := hq.NewKey(time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
		forged := hqtest.New(t).Seal(9, listed)
		altered := hq.Seal(2, hq.Listed)
		altered.Document = strings.Replace(altered.Document, `"version":2`, `"version":8`, 1)
		for _, payload := range [][]byte{nil, []byte("{}"), encode(t, forged), encode(t, altered)} {
			b.agent.Message(topics(t).Trust(), payload, trust.Signature{})
		}
		b.wantRefused(refused.Keys, 4)
		b.as(next, func() { b.offer("t1") })
		b.wantRefused(refused.UnknownKey, 1)

		b.agent.Message(topics(t).Trust(), encode(t, hq.Seal(3, listed)), trust.Signature{})
		b.offer("t1") // by the key that was removed
		b.wantRefused(refused.UnknownKey, 2)
		b.agent.Message(topics(t).Trust(), encode(t, hq.Seal(2, hq.Listed)), trust.Signature{})
		b.agent.Message(topics(t).Trust(), encode(t, hq.Seal(3, listed)), trust.Signature{}) // retained: again each time
		b.wantRefused(refused.Keys, 5)
		b.kill()
		b.start() // it was kept
		b.as(next, func() {
			b.connect()
			b.offer("t1")
			b.grant("t1", 1)
		})
		b.result()
		b.wantMarks("t1/1")
	})
}

// TestARotationWithOverlapLosesNothing: the new key is known before it signs, and
// the old one is believed until its end.
func TestARotationWithOverlapLosesNothing(t *testing.T) {
	inTrust(t, count, func(t *testing.T, b *bench, hq *hqtest.HQ) {
		b.connect()
		overlap := 24 * time.Hour
		change := time.Now().Add(overlap)
		newer, listed := hq.NewKey(change, change.Add(1000*time.Hour))
		old := hq.Listed
		old.NotAfter = protocol.At(change.Add(overlap))
		b.agent.Message(topics(t).Trust(), encode(t, hq.Seal(2, old, listed)), trust.Signature{})
		b.as(newer, func() { b.offer("early") })
		b.wantRefused(refused.ExpiredKey, 1)
		b.offer("t1")
		b.grant("t1", 1)
		sleep(overlap)
		b.as(newer, func() {
			b.sync()
			b.offer("t2")
			b.grant("t2", 1)
		})
		b.offer("t3") // a worker that still has the old key
		b.grant("t3", 1)
		b.as(newer, func() {
			b.offer("t5", func(o *protocol.Offer) { o.At = protocol.At(change.Add(-time.Minute)) })
		})
		b.wantRefused(refused.ExpiredKey, 2) // at that time it did not sign yet
		b.wantMarks("t1/1", "t2/1", "t3/1")
		sleep(overlap + time.Minute)
		b.offer("t4")
		b.wantRefused(refused.ExpiredKey, 3)
	})
}

// TestAKeyWhoseTimeIsProvenToBeOverSignsNothingBackDated: headquarters itself
// proved what time it is, and a restart does not forget it.
func TestAKeyWhoseTimeIsProvenToBeOverSignsNothingBackDated(t *testing.T) {
	inTrust(t, count, func(t *testing.T, b *bench, hq *hqtest.HQ) {
		began := time.Now()
		newer, listed := hq.NewKey(began, began.Add(1000*time.Hour))
		old := hq.Listed
		old.NotAfter = protocol.At(began.Add(time.Hour))
		b.agent.Message(topics(t).Trust(), encode(t, hq.Seal(2, old, listed)), trust.Signature{})
		backDated := func(o *protocol.Offer) { o.At = protocol.At(began.Add(30 * time.Minute)) }
		sleep(2 * time.Hour)
		b.offer("t0", backDated) // nothing proves yet that it is over
		b.wantRefused(refused.ExpiredKey, 0)
		b.as(newer, func() { b.offer("t1") })
		b.offer("t2", backDated)
		b.wantRefused(refused.ExpiredKey, 1)
		b.kill()
		b.start()
		b.offer("t3", backDated)
		b.wantRefused(refused.ExpiredKey, 1)
		b.as(newer, func() { b.connect(pending("t0"), pending("t1")) })
		b.wantClaims() // what was held before the restart comes again with the connection
	})
}

// TestAnOverKeyCannotPushTheWindow: numbers that it takes would have the true
// orders look old for ever.
func TestAnOverKeyCannotPushTheWindow(t *testing.T) {
	inTrust(t, count, func(t *testing.T, b *bench, hq *hqtest.HQ) {
		over, listed := hq.NewKey(time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour))
		b.agent.Message(topics(t).Trust(), encode(t, hq.Seal(2, hq.Listed, listed)), trust.Signature{})
		b.connect()
		b.as(over, func() {
			o := protocol.Order{Meta: b.meta(), Order: protocol.OrderSync}
			o.Seq = 1 << 60
			b.order(o)
		})
		b.wantRefused(refused.ExpiredKey, 1)
		b.offer("t1")
		b.grant("t1", 1)
		b.wantMarks("t1/1")
	})
}

func TestEveryAnswerNamesTheOfferThatItAnswers(t *testing.T) {
	t.Run("cut off by a crash", func(t *testing.T) {
		inTrust(t, slow, func(t *testing.T, b *bench, _ *hqtest.HQ) {
			b.connect()
			b.offer("t1")
			b.grant("t1", 1)
			b.kill()
			drain[protocol.Result](t, b.wire, protocol.KindResult)
			b.start()
			b.agent.Up()
			r := b.result()
			b.wantFailure(r, protocol.CodeInterrupted)
			if r.OfferSHA256 != b.hashes["t1"] {
				t.Errorf("names %q, want %s", r.OfferSHA256, b.hashes["t1"])
			}
		})
	})
	t.Run("stored, for a new grant and after a restart", func(t *testing.T) {
		inTrust(t, count, func(t *testing.T, b *bench, _ *hqtest.HQ) {
			b.connect()
			b.offer("t1")
			b.grant("t1", 1)
			b.receipt(b.result(), false, protocol.CodeStale)
			b.kill()
			b.start()
			b.agent.Up()
			first := b.result()
			b.receipt(first, false, protocol.CodeStale)
			b.sync(pending("t1"))
			want := b.hashes["t1"]
			b.offer("t1", func(o *protocol.Offer) { o.Attempt, o.Status = 1, task.Failed })
			b.grant("t1", 2)
			second := b.result()
			if second.Attempt != 2 || second.Executed || first.OfferSHA256 != want || second.OfferSHA256 != want {
				t.Errorf("names %q and %q, want %s: %+v", first.OfferSHA256, second.OfferSHA256, want, second)
			}
		})
	})
	t.Run("with another offer since", func(t *testing.T) {
		inTrust(t, slow, func(t *testing.T, b *bench, _ *hqtest.HQ) {
			b.connect()
			b.offer("t1")
			b.grant("t1", 1)
			want := b.hashes["t1"]
			b.offer("t1", func(o *protocol.Offer) { o.Input = json.RawMessage(`{"n":2}`) })
			sleep(11 * time.Second)
			if r := b.result(); r.OfferSHA256 != want {
				t.Errorf("names %q, want %s, which was executed", r.OfferSHA256, want)
			}
		})
	})
	t.Run("refused by the terminal", func(t *testing.T) {
		inTrust(t, count, func(t *testing.T, b *bench, _ *hqtest.HQ) {
			b.connect()
			b.offer("t1", func(o *protocol.Offer) { o.Type = "unknown" })
			b.grant("t1", 1)
			r := b.result()
			b.wantFailure(r, protocol.CodeRefused)
			if r.OfferSHA256 != b.hashes["t1"] || r.Executed {
				t.Errorf("names %q, want %s", r.OfferSHA256, b.hashes["t1"])
			}
		})
	})
}

func TestAFloodOfForgeriesIsCountedAndDoesNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, count)
		b.identify()
		lines := &lineCounter{}
		b.log = slog.New(slog.NewTextHandler(lines, nil))
		b.start()
		defer func() { b.kill() }()
		for i := range 2000 {
			b.agent.Message(topics(t).Offer(storeID, fmt.Sprint("t", i)), []byte(`{"taskId":"t"}`), trust.Signature{})
		}
		b.wantRefused(refused.Unsigned, 2000)
		if n := lines.count(); n != 1 {
			t.Errorf("%d lines in the log, want 1", n)
		}
		sleep(time.Minute)
		b.agent.Message(topics(t).Offer(storeID, "t"), []byte(`{}`), trust.Signature{})
		if n := lines.count(); n != 2 {
			t.Errorf("%d lines in the log a minute later, want 2", n)
		}
	})
}

type lineCounter struct {
	mu sync.Mutex
	n  int
}

func (l *lineCounter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n += strings.Count(string(p), "\n")
	return len(p), nil
}

func (l *lineCounter) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

func TestWithIdentityOffNothingIsDemanded(t *testing.T) {
	inBubble(t, count, func(t *testing.T, b *bench) {
		b.connect()
		b.agent.Message(topics(t).Trust(), []byte("{}"), trust.Signature{})
		b.offer("t1")
		b.grant("t1", 1) // names no offer
		r := b.result()
		if r.OfferSHA256 != b.hashes["t1"] {
			t.Errorf("names %q", r.OfferSHA256)
		}
		b.wantMarks("t1/1")
	})
}
