package links_test

import (
	"fmt"
	"testing"
	"time"

	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
	"muster/tests/chaos/site"
	"muster/tests/programs"
)

// turnLength is how long a store is cut off: longer than a silent broker is
// noticed by whom it refuses, shorter than an attempt's lease.
const turnLength = 1500 * time.Millisecond

// TestATenthIsAlwaysCutOff: at any time one store of ten has no link, each in
// its turn, by turns refused and silent, while run follows run.
func TestATenthIsAlwaysCutOff(t *testing.T) {
	t.Parallel()
	tenths, length := 1, 9*time.Second
	if programs.Full() {
		tenths, length = 2, 30*time.Second
	}
	var stores []string
	for i := range 10 * tenths {
		stores = append(stores, fmt.Sprintf("S%02d", i))
	}
	b := newBench(t, site.Config{Policy: patient, Work: "sleep 0.5", Claims: site.Executed("I2 events"), Limits: checker.Limits{
		MaxRunning: 10, GrantsPerSecond: 20, GrantBurst: 5, Settle: 5 * time.Second, Reoffer: 10 * time.Second}}, stores...)
	for _, store := range stores {
		b.Agent(store)
	}
	b.connected(stores...)
	var events []event
	for at := time.Duration(0); at < length-3*time.Second; at += 3 * time.Second {
		events = append(events, event{after: at, do: func() { b.order("r"+at.String(), 3, stores...) }})
	}
	turn := 0
	for at := time.Duration(0); at+turnLength < length; at, turn = at+turnLength, turn+1 {
		for tenth := range tenths {
			store, silent := stores[(turn+10*tenth)%len(stores)], turn%2 == 1
			events = append(events, event{after: at, do: func() { b.part(store, silent) }},
				event{after: at + turnLength, do: func() { b.rejoin(store, silent) }})
		}
	}
	if missed := play(length, events); missed > 0 {
		t.Errorf("%d events did not come about", missed)
	}
	b.allSucceed()
	e := b.judgeAll(nil)
	cuts := 0
	for _, l := range e.History {
		if l.Act == history.ActDisconnected {
			cuts++
		}
	}
	if cuts < turn*tenths {
		t.Errorf("%d connections ended in %d turns", cuts, turn*tenths)
	}
}

// part takes a store's link away: refused, or silent.
func (b *bench) part(store string, silent bool) {
	b.t.Helper()
	b.note(store, true)
	if silent {
		b.links.spoil(store, holes[black]...)
		return
	}
	b.links.cut(store, true)
}

// rejoin gives it back.
func (b *bench) rejoin(store string, silent bool) {
	b.t.Helper()
	if silent {
		b.links.heal(store)
	} else {
		b.links.cut(store, false)
	}
	b.note(store, false)
}
