package grant_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"muster/dispatcher/internal/grant"
	"muster/dispatcher/internal/steptest"
	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
	"muster/internal/trust"
)

// reached counts what reaches the far end of the wire.
type reached struct{ n atomic.Int64 }

func (r *reached) Publish(context.Context, transport.Outbound) error {
	r.n.Add(1)
	return nil
}

// BenchmarkBurst is what headquarters pays for stores that all claim at once, from
// the claim to the order on its way to the broker, over a real store.
func BenchmarkBurst(b *testing.B) {
	for _, runs := range []int{1, 200} {
		for _, signed := range []bool{false, true} {
			b.Run(fmt.Sprintf("runs=%d/signed=%t", runs, signed), func(b *testing.B) { burst(b, runs, signed) })
		}
	}
}

func burst(b *testing.B, runs int, signed bool) {
	const claims, atOnce = 5000, 64
	var a *grant.Admission
	bench := steptest.New(b, func(changes []store.Change) { a.Changed(changes) })
	far, asked := &reached{}, &tasks{Store: bench.Store}
	queue := transport.NewQueue(far, bench.Logger)
	sender := bench.Sender
	if signed {
		signer := trust.NewSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize)))
		sender = sender.Signing(func() *trust.Signer { return signer })
	}
	a = grant.New(grant.Config{Tasks: asked, Attempts: bench.Store, Grants: bench.Store, Orders: sender.Through(queue), Now: time.Now,
		Logger: bench.Logger, MaxRunning: 1 << 20, Burst: 1})
	queue.Start(b.Context())
	b.Cleanup(queue.Stop)
	if err := a.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(a.Stop)
	bursts, used := int64(0), time.Duration(0)
	for b.Loop() {
		b.StopTimer()
		name := func(run int) string { return fmt.Sprintf("b%d-r%d", bursts, run) }
		for run := range runs {
			bench.Create(name(run), claims/runs, steptest.Policy())
		}
		began := cpu(b)
		b.StartTimer()
		var all sync.WaitGroup
		for first := range atOnce {
			all.Go(func() {
				for i := first; i < claims; i += atOnce {
					m := steptest.Message(protocol.Claim{TaskID: steptest.TaskID(name(i%runs), i/runs)})
					if err := a.HandleClaim(b.Context(), steptest.From(i/runs, protocol.KindClaim), m); err != nil {
						b.Error(err)
					}
				}
			})
		}
		all.Wait()
		for deadline := time.Now().Add(time.Minute); far.n.Load() < (bursts+1)*claims; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				b.Fatalf("%d grants came, %+v", far.n.Load(), a.Stats())
			}
		}
		used += cpu(b) - began
		bursts++
	}
	grants := float64(bursts * claims)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/grants, "ns/grant")
	b.ReportMetric(float64(used.Nanoseconds())/grants, "cpu-ns/grant")
	b.ReportMetric(float64(asked.notes.Load())/grants, "notes/grant")
}

// cpu is what this process used so far.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
