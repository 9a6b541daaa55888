package grant_test

import (
	"testing"
	"time"

	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
)

// BenchmarkOfferHash is what naming the offer adds to a grant.
func BenchmarkOfferHash(b *testing.B) {
	bench := steptest.New(b)
	run := bench.Create("r", 1, steptest.Policy())
	task := bench.Task(steptest.TaskID("r", 0))
	for b.Loop() {
		if len(transport.OfferOf(task, run).Hash()) != 64 {
			b.Fatal("no hash")
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
