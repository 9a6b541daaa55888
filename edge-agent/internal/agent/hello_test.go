package agent_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"muster/internal/protocol"
)

// hellosFor lets time pass and returns when each hello came, since the start.
func (b *bench) hellosFor(d time.Duration) []time.Duration {
	b.t.Helper()
	const step = 50 * time.Millisecond
	var at []time.Duration
	for passed := step; passed <= d; passed += step {
		sleep(step)
		for range drain[protocol.Hello](b.t, b.wire, protocol.KindHello) {
			at = append(at, passed)
		}
	}
	return at
}

func TestHelloIsSaidAgainUntilTheFirstSync(t *testing.T) {
	inBubble(t, count, func(t *testing.T, b *bench) {
		b.offer("t1")
		b.agent.Up() // headquarters has not subscribed: nobody hears it
		at := b.hellosFor(2 * time.Minute)
		if len(at) < 8 || at[0] != 100*time.Millisecond {
			t.Fatalf("hellos at %v", at)
		}
		const slack = 100 * time.Millisecond
		for i, seconds := range []int{1, 2, 4, 8, 15, 15, 15} {
			least := time.Duration(seconds) * time.Second
			most := least + least/2
			if least == 15*time.Second {
				most = 2 * least
			}
			if gap := at[i+1] - at[i]; gap < least-slack || gap > most+slack {
				t.Errorf("hello %d came %v after the one before, want %v to %v", i+2, gap, least, most)
			}
		}
		b.wantClaims()
		b.agent.Down()
		b.agent.Up()
		b.sync(pending("t1"))
		b.wantClaims("t1")
		if at := b.hellosFor(4 * time.Minute); len(at) != 0 {
			t.Errorf("after the sync still hellos at %v", at)
		}
	})
}

func TestHelloIsSaidSoonWhenHeadquartersAsks(t *testing.T) {
	inBubble(t, count, func(t *testing.T, b *bench) {
		b.connect()
		question := protocol.Order{Order: protocol.OrderSync, Partial: true, ServerTimeMs: time.Now().UnixMilli()}
		for range 3 { // each question is one
			b.order(question)
		}
		// One hello, and, as no sync comes, another one or two by the usual pauses.
		at := b.hellosFor(4 * time.Second)
		if len(at) < 2 || len(at) > 3 || at[0] > 2*time.Second || at[1]-at[0] < 900*time.Millisecond {
			t.Errorf("hellos at %v", at)
		}
	})
}

// TestASyncThatComesAfterWeeksOfHellosCounts: the broker lives, headquarters
// does not; what is remembered of each hello stays bounded, and the newest ones
// still count.
func TestASyncThatComesAfterWeeksOfHellosCounts(t *testing.T) {
	inBubble(t, count, func(t *testing.T, b *bench) {
		b.offer("t1", func(o *protocol.Offer) { o.QueueDeadline = time.Now().Add(48 * time.Hour).UnixMilli() })
		b.agent.Up()
		sleep(24 * time.Hour)
		hellos := drain[protocol.Hello](t, b.wire, protocol.KindHello)
		if len(hellos) < 2000 {
			t.Fatalf("%d hellos a day", len(hellos))
		}
		sync := protocol.Order{Order: protocol.OrderSync, ServerTimeMs: time.Now().UnixMilli(), Open: []protocol.SyncTask{pending("t1")}}
		sync.HelloID = hellos[0].ID
		b.order(sync)
		b.wantClaims()
		sync.Meta, sync.HelloID = protocol.Meta{}, hellos[len(hellos)-2].ID
		b.order(sync)
		b.wantClaims("t1")
	})
}

func TestAPartialListDropsNothing(t *testing.T) {
	inBubble(t, count, func(t *testing.T, b *bench) {
		const offers = 1500
		for i := range offers {
			b.offer(fmt.Sprintf("t%04d", i))
		}
		b.agent.Up()
		sleep(100 * time.Millisecond)
		hello := drain[protocol.Hello](t, b.wire, protocol.KindHello)[0]
		if !hello.Partial || len(hello.Open) != 1000 {
			t.Fatalf("hello lists %d, partial %t", len(hello.Open), hello.Partial)
		}
		order := protocol.Order{Order: protocol.OrderSync, Partial: true, HelloID: hello.ID,
			ServerTimeMs: time.Now().UnixMilli(), Open: []protocol.SyncTask{pending("t0000")}}
		b.order(order)
		b.wantClaims("t0000")
		b.grant("t0000", 1)
		b.receipt(b.result(), true, "")
		b.withdraw("t0000")
		b.wantClaims("t0001") // it is held, though no list named it
		b.order(protocol.Order{Order: protocol.OrderDeny, TaskID: "t0001", Code: protocol.CodeSettled, Message: "it is settled"})
		b.wantClaims("t0002")

		b.agent.Down()
		b.agent.Up()
		if hello := b.sync(pending("t0007")); !hello.Partial {
			t.Error("what was not in the partial list was dropped")
		}
		b.agent.Down()
		b.agent.Up()
		sleep(100 * time.Millisecond)
		hello = drain[protocol.Hello](t, b.wire, protocol.KindHello)[0]
		held := func(o protocol.OpenTask) bool { return o.TaskID == "t0007" }
		if hello.Partial || len(hello.Open) != 1 || !slices.ContainsFunc(hello.Open, held) {
			t.Errorf("after a whole list it still holds %d", len(hello.Open))
		}
	})
}

// TestAnOfferSaidAgainChangesNothing: it neither brings a claim forward nor
// holds one up.
func TestAnOfferSaidAgainChangesNothing(t *testing.T) {
	inBubble(t, count, func(t *testing.T, b *bench) {
		b.connect()
		b.offer("t1")
		b.wantClaims("t1")
		began := time.Now()
		for time.Since(began) < 31*time.Second {
			b.offer("t1", func(o *protocol.Offer) { // as the first one, but for its id
				o.Deadline = began.Add(2 * time.Minute).UnixMilli()
				o.QueueDeadline = began.Add(time.Hour).UnixMilli()
			})
			sleep(100 * time.Millisecond)
			if time.Since(began) < 15*time.Second {
				b.wantClaims()
			}
		}
		b.wantSomeClaims("t1")
		// One of a later attempt counts at once.
		b.order(protocol.Order{Order: protocol.OrderDeny, TaskID: "t1", Code: protocol.CodeNotYet, RetryAfterMs: 600_000})
		b.offer("t1", func(o *protocol.Offer) { o.Attempt = 1 })
		b.wantClaims("t1")
	})
}
