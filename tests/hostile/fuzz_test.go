package hostile_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"muster/broker/server"
)

const (
	secondsVar = "MUSTER_FUZZ_SECONDS"
	seedVar    = "MUSTER_FUZZ_SEED"
	attackers  = 6
	// usual and most are what a well-behaved client waits in 99 of 100 cases and
	// at the very most, on a machine that the attackers use as well. On top comes
	// what the machine itself costs: an answer takes up to five turns of it (dial,
	// CONNECT, SUBSCRIBE, request, reply), an echo without a broker one.
	usual = time.Second
	most  = 5 * time.Second
	turns = 5
)

// Nobody is hurt by what others send: a terminal, a technician and a newcomer
// every moment are answered in time, nothing panics, and nothing is left over.
func TestHostileClientsHurtNobody(t *testing.T) {
	length, seed := fuzzTime(t), fuzzSeed(t)
	t.Logf("seed %d for %v (%s=%d repeats it)", seed, length, seedVar, seed)
	seen := &panics{}
	s, err := serve(t.Context(), configuration(), slog.New(seen))
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, s)
	addr := s.Addr("tcp").String()
	staying := []*customer{terminal("S1", "pos1", 20*time.Millisecond), technician("alice", 20*time.Millisecond)}
	newcomer := technician("bob", 50*time.Millisecond)

	customers, endCustomers := context.WithCancel(t.Context())
	var served sync.WaitGroup
	for _, c := range staying {
		served.Go(func() { c.work(customers, addr, false) })
	}
	poll(t, "the customers are in", func() bool { return s.Connected() == len(staying) })
	before := inventory()
	var idle machine
	served.Go(func() { idle.work(customers, t) })
	served.Go(func() { newcomer.work(customers, addr, true) })
	connections, packets := attack(t.Context(), seed, addr, length)
	endCustomers()
	served.Wait()

	slowP99, slowMost := idle.worst()
	t.Logf("an echo without a broker: p99 %v, max %v", slowP99.Round(10*time.Microsecond), slowMost.Round(10*time.Microsecond))
	report(t, "staying", usual+turns*slowP99, most+turns*slowMost, staying...)
	report(t, "newcomer", usual+turns*slowP99, most+turns*slowMost, newcomer)
	t.Logf("%d hostile connections, %d hostile packets", connections, packets)
	for _, text := range seen.all() {
		t.Errorf("the broker says: %s", text)
	}
	settles(t, before)
}

// attack runs the attackers for a while.
func attack(ctx context.Context, seed uint64, addr string, length time.Duration) (connections, packets int) {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	all := make([]*attacker, attackers)
	var attacking sync.WaitGroup
	for i := range all {
		all[i] = newAttacker(seed, i, addr)
		attacking.Go(func() { all[i].work(ctx) })
	}
	attacking.Wait()
	for _, a := range all {
		connections, packets = connections+a.connections, packets+a.packets
	}
	return connections, packets
}

func report(t *testing.T, who string, usual, most time.Duration, customers ...*customer) {
	t.Helper()
	got, err := sum(customers...)
	if err != nil {
		t.Errorf("%s: %v", who, err)
	}
	if got.p99 > usual || got.max > most {
		t.Errorf("%s waited longer than %v in 99 of 100 cases, or than %v at all", who, usual, most)
	}
	t.Logf("%s: %v", who, got)
}

func storeID(i int) string { return fmt.Sprintf("S%04d", i) }

func stop(t *testing.T, s *server.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), wait)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// stock is what a process holds.
type stock struct {
	goroutines, files int
	heap              uint64
}

func inventory() stock {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	names, _ := os.ReadDir("/proc/self/fd") // nil where there is no /proc: nothing to compare
	return stock{runtime.NumGoroutine(), len(names), m.HeapAlloc}
}

// settles fails unless the process holds no more than before, give or take what
// pools and the runtime keep.
func settles(t *testing.T, before stock) {
	t.Helper()
	const goroutines, files, heap = 4, 4, 16 << 20
	var now stock
	poll(t, "goroutines, descriptors and heap are back where they were", func() bool {
		now = inventory()
		return now.goroutines <= before.goroutines+goroutines && now.files <= before.files+files && now.heap <= before.heap+heap
	}, func() { t.Logf("before %+v, now %+v", before, now) })
	t.Logf("before: %+v; after: %+v", before, now)
}

// poll waits for what happens in the background; explain runs when it does not.
func poll(t *testing.T, what string, holds func() bool, explain ...func()) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(wait); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			for _, f := range explain {
				f()
			}
			t.Fatalf("not in time: %s", what)
		}
	}
}

// fuzzTime is 10 s, a minute in CI, or what the variable says.
func fuzzTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv(secondsVar)
	switch {
	case text == "" && os.Getenv("CI") == "true":
		return time.Minute
	case text == "":
		return 10 * time.Second
	}
	seconds, err := strconv.Atoi(text)
	if err != nil || seconds < 1 {
		t.Fatalf("%s=%q is not a number of seconds", secondsVar, text)
	}
	return time.Duration(seconds) * time.Second
}

func fuzzSeed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv(seedVar)
	if text == "" {
		return rand.Uint64()
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%q is not a seed", seedVar, text)
	}
	return seed
}
