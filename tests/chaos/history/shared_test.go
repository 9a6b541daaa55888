package history_test

import (
	"fmt"
	"sync"
	"testing"

	"muster/tests/chaos/history"
)

func TestASharedFileHoldsTheLinesOfAll(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	shared, err := history.CreateShared(folder, "fleet")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := history.CreateShared(folder, "fleet"); err == nil {
		t.Error("two files have one name")
	}
	const people, lines = 20, 50
	var all sync.WaitGroup
	for i := range people {
		all.Go(func() {
			who := history.Participant{Who: fmt.Sprintf("S%d/pos1", i), Role: history.RoleAgent, Store: fmt.Sprintf("S%d", i), Terminal: "pos1"}
			for n := range lines {
				if l, err := shared.Write(who, history.Line{Act: history.ActSent, Topic: "t", Call: int64(n + 1)}); err != nil || l.AtMs == 0 {
					t.Errorf("%+v, %v", l, err)
				}
			}
		})
	}
	all.Wait()
	if err := shared.Close(); err != nil {
		t.Fatal(err)
	}
	h, err := history.Read(folder)
	if err != nil || len(h.Lines) != people*lines || len(h.Torn) != 0 {
		t.Fatalf("%d lines, torn %v, %v", len(h.Lines), h.Torn, err)
	}
	next := map[string]int64{}
	for _, l := range h.Lines {
		if next[l.Who]++; l.Call != next[l.Who] || l.Store+"/pos1" != l.Who {
			t.Fatalf("%s wrote line %d, read is %+v", l.Who, next[l.Who], l)
		}
	}
}
