package seat_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"muster/broker/server/seat"
)

type connection struct {
	owner      string
	superseded atomic.Bool
}

func (c *connection) Owner() string     { return c.owner }
func (c *connection) Supersede(by bool) { c.superseded.Store(by) }

func nobody(*connection) {}

// seated is a table in which a connection of the owner holds the id "c".
func seated(t *testing.T, owner string) (*seat.Table[*connection], *connection) {
	t.Helper()
	table, first := seat.New[*connection](), &connection{owner: owner}
	if err := table.Take(t.Context(), "c", first, nobody); err != nil {
		t.Fatalf("the first is refused: %v", err)
	}
	return table, first
}

func TestANewerConnectionWaitsUntilTheOlderIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table, first := seated(t, "ann")
		second := &connection{owner: "ann"}
		evicted, taken := make(chan *connection, 1), make(chan error, 1)
		go func() {
			taken <- table.Take(t.Context(), "c", second, func(old *connection) { evicted <- old })
		}()
		synctest.Wait()
		if old := <-evicted; old != first || !first.superseded.Load() {
			t.Error("the older connection is not ended as superseded")
		}
		select {
		case err := <-taken:
			t.Fatalf("the newer connection did not wait: %v", err)
		default:
		}
		table.Leave("c", func(string) { t.Error("a replaced connection is reported as gone") })
		if err := <-taken; err != nil {
			t.Fatalf("the newer connection is refused: %v", err)
		}
		if holders := table.Holders(); !slices.Equal(holders, []*connection{second}) {
			t.Errorf("held by %v, not by the newer connection alone", holders)
		}
	})
}

func TestTheNewestOfThreeGetsTheSeat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table, _ := seated(t, "ann")
		second, third := make(chan error, 1), make(chan error, 1)
		go func() { second <- table.Take(t.Context(), "c", &connection{owner: "ann"}, nobody) }()
		synctest.Wait()
		go func() { third <- table.Take(t.Context(), "c", &connection{owner: "ann"}, nobody) }()
		if err := <-second; !errors.Is(err, seat.ErrReplaced) {
			t.Errorf("the second got %v, want %v", err, seat.ErrReplaced)
		}
		synctest.Wait()
		table.Leave("c", func(string) {})
		if err := <-third; err != nil {
			t.Errorf("the third is refused: %v", err)
		}
	})
}

func TestAnotherIdentityIsRefusedAndHarmsNobody(t *testing.T) {
	t.Parallel()
	table, first := seated(t, "ann")
	evict := func(*connection) { t.Error("the holder is ended") }
	if err := table.Take(t.Context(), "c", &connection{owner: "bob"}, evict); !errors.Is(err, seat.ErrOtherOwner) {
		t.Errorf("got %v, want %v", err, seat.ErrOtherOwner)
	}
	if first.superseded.Load() {
		t.Error("the holder counts as superseded")
	}
}

func TestWhoGivesUpLeavesTheHolderAsItWas(t *testing.T) {
	t.Parallel()
	table, first := seated(t, "ann")
	table.Announce("c", "s1", func() {})
	ctx, cancel := context.WithCancel(t.Context())
	err := table.Take(ctx, "c", &connection{owner: "ann"}, func(*connection) { cancel() })
	if !errors.Is(err, context.Canceled) || first.superseded.Load() {
		t.Errorf("error %v, superseded %v; want canceled, false", err, first.superseded.Load())
	}
	var gone []string
	table.Leave("c", func(session string) { gone = append(gone, session) })
	if !slices.Equal(gone, []string{"s1"}) || len(table.Holders()) > 0 {
		t.Errorf("sessions %v are reported as gone, %d seats are taken; want s1, none", gone, len(table.Holders()))
	}
}
