//go:build linux

package hostile_test

import (
	"context"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	halfOpen  = 10_000
	terminals = 500
	// dialling bounds the connections that are being opened at one moment; the
	// system's queue for a listener is not the broker's.
	dialling = 64
	// holding is longer than the broker's CONNECT deadline, so that the flood has
	// to come again, too.
	holding = 15 * time.Second
	// halfOpenBound is what 99 of 100 answers take at most, halfOpenMiB what the
	// flood may cost.
	halfOpenBound = 2 * time.Second
	halfOpenMiB   = 300
)

// Ten thousand connections that never say who they are cost little memory and
// nobody's answers.
func TestHalfOpenFloodCostsNobodyAnswers(t *testing.T) {
	if underRace {
		t.Skip("the race detector ends a program with more than 8,128 goroutines, and each connection has one")
	}
	var limit syscall.Rlimit // the runtime has raised the soft limit to the hard one
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if need := uint64(halfOpen + terminals + 500); limit.Max < need {
		t.Skipf("at most %d descriptors are allowed here and the flood needs %d: raise the hard limit (ulimit -Hn)", limit.Max, need)
	}
	broker := startProcess(t)
	all := make([]*customer, terminals)
	customers, endCustomers := context.WithCancel(t.Context())
	var served sync.WaitGroup
	for i := range all {
		all[i] = terminal(storeID(i), "pos1", time.Second)
		served.Go(func() { all[i].work(customers, broker.addr, false) })
	}
	defer served.Wait()
	defer endCustomers()
	poll(t, "every terminal was answered", func() bool { return everyoneServed(all) })
	quiet, err := sum(all...)
	if err != nil {
		t.Fatal(err)
	}
	before := broker.residentMiB(t)
	for _, c := range all {
		c.forget()
	}

	flooding, endFlood := context.WithCancel(t.Context())
	var flooded sync.WaitGroup
	flood(flooding, &flooded, broker.addr)
	defer flooded.Wait()
	defer endFlood()
	begin := time.Now()
	poll(t, "the broker holds the whole flood", func() bool { return broker.files(t) >= halfOpen+terminals })
	filled := time.Since(begin)
	peak := peakWhile(t, broker, holding)

	got, err := sum(all...)
	if err != nil {
		t.Error(err)
	}
	t.Logf("before: %v; %d MiB resident", quiet, before)
	t.Logf("during: %v; %d MiB resident; %d connections within %v, held for %v", got, peak, halfOpen, filled.Round(time.Millisecond), holding)
	if got.p99 > halfOpenBound {
		t.Errorf("p99 is %v, over %v", got.p99, halfOpenBound)
	}
	if peak-before > halfOpenMiB {
		t.Errorf("the flood costs %d MiB, over %d", peak-before, halfOpenMiB)
	}
}

func everyoneServed(all []*customer) bool {
	for _, c := range all {
		if c.answered() == 0 {
			return false
		}
	}
	return true
}

// peakWhile watches the broker's memory and that the flood does not ebb away.
func peakWhile(t *testing.T, broker *process, length time.Duration) (peak int) {
	t.Helper()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	most := 0
	for end := time.Now().Add(length); time.Now().Before(end); <-tick.C {
		peak = max(peak, broker.residentMiB(t))
		most = max(most, broker.files(t))
	}
	if most < halfOpen {
		t.Errorf("the broker held %d connections at most", most)
	}
	return peak
}

// flood keeps half-open connections up until ctx ends: whatever the broker
// closes comes again.
func flood(ctx context.Context, all *sync.WaitGroup, addr string) {
	slots := make(chan struct{}, dialling)
	for i := range halfOpen {
		all.Go(func() {
			for ctx.Err() == nil {
				slots <- struct{}{}
				conn, err := dialHalf(ctx, addr, i)
				<-slots
				if err == nil {
					holdHalf(ctx, conn)
				}
			}
		})
	}
}

// dialHalf connects from one of twenty loopback addresses and says nothing, or
// half a CONNECT.
func dialHalf(ctx context.Context, addr string, i int) (net.Conn, error) {
	dialer := net.Dialer{Timeout: wait, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 2, byte(1+i%20))}}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil || i%2 == 0 {
		return conn, err
	}
	packet := connect(5, "nobody", true)
	_, err = conn.Write(packet[:len(packet)/2])
	return conn, err
}

// holdHalf keeps the connection until the broker closes it or ctx ends.
func holdHalf(ctx context.Context, conn net.Conn) {
	release := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer release()
	_, _ = io.Copy(io.Discard, conn) // nothing comes
	_ = conn.Close()
}
