package grant_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
)

// BenchmarkOfferHash is what naming the offer adds to a grant: once for the task
// alone, and once where the run's offers remember their input.
func BenchmarkOfferHash(b *testing.B) {
	bench := steptest.New(b)
	run := bench.Create("r", 1, steptest.Policy())
	task := bench.Task(steptest.TaskID("r", 0))
	for _, size := range []int{len(run.Input), 16 << 10} {
		run.Input = fmt.Appendf(nil, `{"date":"2026-09-17","x":"%0*d"}`, max(0, size-len(run.Input)), 0)
		task.Input = bytes.Clone(run.Input)
		for name, of := range map[string]func(store.Task) protocol.Offer{
			"alone":      func(t store.Task) protocol.Offer { return transport.OfferOf(t, run) },
			"remembered": transport.NewOffers(run).Of,
		} {
			b.Run(fmt.Sprintf("bytes=%d/%s", len(task.Input), name), func(b *testing.B) {
				for b.Loop() {
					if len(of(task).Hash()) != 64 {
						b.Fatal("no hash")
					}
				}
			})
		}
	}
}

// BenchmarkGrantAgain is a claim that is answered by the grant that was lost:
// everything that a grant costs but for its commit.
func BenchmarkGrantAgain(b *testing.B) {
	d := open(b, "", wide())
	d.Create("r", 1, steptest.Policy())
	d.claim("r", 0)
	for deadline := time.Now().Add(30 * time.Second); len(d.Broker.Orders(protocol.OrderGrant)) == 0; {
		if time.Now().After(deadline) {
			b.Fatal("no grant came")
		}
	}
	d.Broker.Forget()
	for b.Loop() {
		d.claim("r", 0)
	}
	if got := len(d.Broker.Orders(protocol.OrderGrant)); got != b.N {
		b.Fatalf("%d grants answered %d claims", got, b.N)
	}
}
