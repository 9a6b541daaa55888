package transport_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"muster/dispatcher/internal/grant"
	"muster/dispatcher/internal/offer"
	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/task"
)

// floor is headquarters with the two steps that must name one offer alike.
type floor struct {
	*steptest.Bench
	offers *offer.Offers
	grants *grant.Admission
}

func openFloor(t *testing.T, path string) *floor {
	t.Helper()
	f := &floor{}
	f.Bench = steptest.Open(t, path, func(c []store.Change) { f.offers.Changed(c) }, func(c []store.Change) { f.grants.Changed(c) })
	f.offers = offer.New(offer.Config{Tasks: f.Store, Sender: f.Sender, Online: func(string) bool { return true }, Now: time.Now, Logger: f.Logger})
	f.grants = grant.New(grant.Config{Tasks: f.Store, Attempts: f.Store, Grants: f.Store, Orders: f.Sender, Now: time.Now, Logger: f.Logger, MaxRunning: 100, Burst: 100})
	if err := f.offers.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.grants.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.offers.Stop)
	t.Cleanup(f.grants.Stop)
	return f
}

// document draws a job's input: white space, words and numbers that a careless
// encoder would spell in another way, or none at all.
func document(rt *rapid.T, label string) json.RawMessage {
	text, err := json.Marshal(rapid.String().Draw(rt, label+" text"))
	if err != nil {
		steptest.Fail("%v", err)
	}
	return json.RawMessage(rapid.SampledFrom([]string{
		"", "null", "{}", `{"a":1.0,"b":9007199254740993}`, "{ \"a\" :\n[1, 2]}", `{"a":"<&>\u00e9\u2028"}`, `{"t":` + string(text) + `}`,
	}).Draw(rt, label))
}

// create makes a run of n tasks, some of which have an input of their own.
func (f *floor) create(t *testing.T, rt *rapid.T, n int) store.Run {
	now := time.Now().Add(time.Duration(rapid.Int64Range(0, 2_000_000).Draw(rt, "microseconds")) * time.Microsecond)
	policy := steptest.Policy()
	places, tasks := make([]store.Place, n), make([]store.NewTask, n)
	for i := range n {
		places[i] = store.Place{StoreID: steptest.StoreID(i), Name: "x", TimeZone: "UTC"}
		tasks[i] = store.NewTask{TaskID: steptest.TaskID("r", i), StoreID: steptest.StoreID(i)}
		if rapid.Bool().Draw(rt, "own input") {
			tasks[i].Input = document(rt, fmt.Sprint("input ", i))
		}
	}
	if _, _, _, err := f.Store.ReplacePlaces(t.Context(), "", places, now); err != nil {
		steptest.Fail("%v", err)
	}
	created, err := f.Store.CreateRun(t.Context(), store.Run{RunID: "r", Job: rapid.StringMatching(`[a-z_]{1,12}`).Draw(rt, "job"),
		JobVersion: rapid.IntRange(1, 99).Draw(rt, "version"), RequestedBy: "wang", Input: document(rt, "input"), Policy: policy, Targets: n,
		CreatedAt: now, BarrierAt: now.Add(time.Minute), MakeupUntil: now.Add(time.Hour)}, places, tasks, store.Request{}, now)
	if err != nil {
		steptest.Fail("%v", err)
	}
	return created.Run
}

// TestAGrantNamesTheOfferThatWasPublished: for any run, whatever its input looks
// like, the hash in a grant is the one that a terminal computes from the offer
// as it arrived; so it is for the next attempt, and after a restart.
func TestAGrantNamesTheOfferThatWasPublished(t *testing.T) {
	folder, n := t.TempDir(), 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		path := filepath.Join(folder, fmt.Sprint(n))
		steptest.Bubble(t, rt, func(t *testing.T) {
			f := openFloor(t, path)
			run := f.create(t, rt, rapid.IntRange(1, 5).Draw(rt, "tasks"))
			first := f.round(t, run, 1)
			for i := range run.Targets {
				f.fail(t, i)
			}
			f.offers.Stop()
			f.grants.Stop()
			f.Close()
			time.Sleep(time.Minute) // the retry is due
			f = openFloor(t, path)
			for i, hash := range f.round(t, run, 2) {
				if hash != first[i] {
					steptest.Fail("attempt 2 of task %d is of offer %s, attempt 1 of %s", i, hash, first[i])
				}
			}
		})
	})
}

// round claims every task and compares each grant with the offer on the wire.
func (f *floor) round(t *testing.T, run store.Run, attempt int) (hashes []string) {
	synctest.Wait()
	for i := range run.Targets {
		payload := f.Broker.Retained(f.Sender.Topics().Offer(steptest.StoreID(i), steptest.TaskID(run.RunID, i)))
		var o protocol.Offer
		if err := protocol.Decode(payload, protocol.MaxPayloadBytes, &o); err != nil {
			steptest.Fail("offer %d: %v", i, err)
		}
		claim := steptest.Message(protocol.Claim{TaskID: o.TaskID})
		if err := f.grants.HandleClaim(t.Context(), steptest.From(i, protocol.KindClaim), claim); err != nil {
			steptest.Fail("%v", err)
		}
		synctest.Wait()
		orders := f.Broker.Orders(protocol.OrderGrant)
		granted := orders[len(orders)-1].Order
		if granted.TaskID != o.TaskID || granted.Attempt != attempt || granted.OfferSHA256 != o.Hash() {
			steptest.Fail("%s grants %s, the offer is\n%s\nwith hash %s", granted.TaskID, granted.OfferSHA256, payload, o.Hash())
		}
		hashes = append(hashes, o.Hash())
	}
	return hashes
}

// fail ends the first attempt of a task; another one is due in 5 s.
func (f *floor) fail(t *testing.T, i int) {
	_, err := f.Store.Settle(t.Context(), store.Answer{Event: task.Fail, RetryAt: time.Now().Add(5 * time.Second), Attempt: store.Attempt{
		TaskID: steptest.TaskID("r", i), Attempt: 1, StoreID: steptest.StoreID(i), TerminalID: "pos", Answer: protocol.AnswerFailed, SHA256: "x",
		Failure: &protocol.Failure{Code: protocol.CodeExecution}}}, time.Now())
	if err != nil {
		steptest.Fail("%v", err)
	}
}
