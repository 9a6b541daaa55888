package agent_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oklog/ulid/v2"

	"muster/internal/protocol"
	"muster/internal/task"
)

// TestAClockThatIsSetIsShownAndNotCountedBy: it is off, at 1970, and set in the
// middle of an execution. The work lasts as long as it lasts, no time ends before
// it begins, and headquarters hears of the new clock soon.
func TestAClockThatIsSetIsShownAndNotCountedBy(t *testing.T) {
	begun := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // of a bubble
	for _, c := range []struct{ at, by time.Duration }{
		{0, -26 * time.Hour}, {0, 26 * time.Hour}, {26 * time.Hour, -52 * time.Hour},
		{-begun.Sub(time.Unix(0, 0)), 0}, {0, -begun.Sub(time.Unix(0, 0)) - time.Hour}, {-begun.Sub(time.Unix(5, 0)), begun.Sub(time.Unix(5, 0))},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, func(context.Context, json.RawMessage, time.Time) (json.RawMessage, error) {
				sleep(40 * time.Second)
				return json.RawMessage(`{}`), nil
			})
			var off atomic.Int64 // of the clock on the wall
			off.Store(int64(c.at))
			b.cfg.Now = func() time.Time { return time.Now().Add(time.Duration(off.Load())) }
			b.start()
			defer func() { b.kill() }()
			b.agent.Up()
			if got := b.sync().ClockMs; got != max(1, time.Now().Add(c.at).UnixMilli()) {
				t.Errorf("%v: hello says %d", c, got)
			}
			b.offer("t")
			sleep(time.Second)
			b.wantClaims("t")
			b.grant("t", 1)
			sleep(time.Second)
			off.Add(int64(c.by))
			sleep(34 * time.Second)
			if c.by != 0 {
				if got, want := b.sync(protocol.SyncTask{TaskID: "t", Status: task.Running, Attempt: 1, Mine: true}).ClockMs,
					max(1, b.cfg.Now().UnixMilli()); got > want || got < want-34_000 {
					t.Errorf("%v: a later hello says %d, the clock %d", c, got, want)
				}
			}
			sleep(10 * time.Second)
			results := drain[protocol.Result](t, b.wire, protocol.KindResult)
			if len(results) != 1 {
				t.Fatalf("%v: %d results", c, len(results))
			}
			r := results[0]
			if r.Outcome != protocol.AnswerSucceeded || r.DurationMs != 40_000 || r.StartedAt < 1 || r.FinishedAt < r.StartedAt || r.FinishedAt-r.StartedAt > 40_000 {
				t.Errorf("%v: %s from %d to %d, %d ms", c, r.Outcome, r.StartedAt, r.FinishedAt, r.DurationMs)
			}
		})
	}
}

// TestHeadquartersClockThatIsSetLosesNothing: what is offered by the new time is
// claimed and runs within seconds, although this terminal measured the old one.
func TestHeadquartersClockThatIsSetLosesNothing(t *testing.T) {
	for _, c := range []struct {
		identified bool
		measured   time.Duration // ago
	}{{false, time.Minute}, {true, time.Minute}, {false, time.Second}, {true, time.Second}} {
		for _, by := range []time.Duration{time.Hour, -time.Hour, 26 * time.Hour, -26 * time.Hour} {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, func(context.Context, json.RawMessage, time.Time) (json.RawMessage, error) {
					return json.RawMessage(`{}`), nil
				})
				if c.identified {
					b.identify()
					sleep(30 * time.Hour) // headquarters' key is older than the step
				}
				b.start()
				defer func() { b.kill() }()
				b.connect()
				sleep(c.measured)
				hq := func() time.Time { return time.Now().Add(by) }
				says := func() protocol.Meta {
					b.seq++
					return protocol.Meta{ID: ulid.Make().String(), At: protocol.At(hq()), Seq: b.seq}
				}
				b.offer("t", func(o *protocol.Offer) {
					o.Meta, o.NotBefore = says(), hq().Add(time.Second).UnixMilli()
					o.Deadline, o.QueueDeadline = hq().Add(time.Minute).UnixMilli(), hq().Add(30*time.Minute).UnixMilli()
				})
				open := protocol.SyncTask{TaskID: "t", Status: task.Pending}
				for range 8 {
					sleep(time.Second)
					for _, h := range drain[protocol.Hello](t, b.wire, protocol.KindHello) {
						b.order(protocol.Order{Meta: says(), Order: protocol.OrderSync, HelloID: h.ID, ServerTimeMs: hq().UnixMilli(),
							Open: []protocol.SyncTask{open}})
					}
					if len(b.claims()) > 0 {
						open = protocol.SyncTask{TaskID: "t", Status: task.Running, Attempt: 1, Mine: true}
						b.order(protocol.Order{Meta: says(), Order: protocol.OrderGrant, TaskID: "t", Attempt: 1,
							LeaseMs: lease.Milliseconds(), RunTimeoutMs: 60_000, OfferSHA256: b.hashes["t"]})
					}
				}
				if got := b.marks(); len(got) != 1 {
					t.Errorf("%+v, by %s: executed %v", c, by, got)
				}
			})
		}
	}
}

// TestAnOfferThatIsOverAsksNoSilentHeadquartersAgainAndAgain: a thousand terminals
// hold one while headquarters is away and the broker lives.
func TestAnOfferThatIsOverAsksNoSilentHeadquartersAgainAndAgain(t *testing.T) {
	inBubble(t, count, func(t *testing.T, b *bench) {
		b.connect()
		b.offer("t", func(o *protocol.Offer) { o.QueueDeadline = time.Now().Add(time.Minute).UnixMilli() })
		b.wantClaims("t")
		sleep(2 * time.Minute)
		drain[protocol.Hello](t, b.wire, protocol.KindHello)
		sleep(10 * time.Minute)
		if n := len(drain[protocol.Hello](t, b.wire, protocol.KindHello)); n == 0 || n > 40 { // each 15 to 30 s
			t.Errorf("%d hellos in 10 minutes", n)
		}
	})
}
