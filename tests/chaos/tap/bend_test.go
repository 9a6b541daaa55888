package tap_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"muster/broker/server"
	"muster/tests/chaos/history"
	"muster/tests/chaos/sim/mesh"
	"muster/tests/chaos/tap"
	"muster/tests/fleet"
)

// heard are the payloads that somebody got.
type heard struct {
	mu  sync.Mutex
	all []string
}

func (h *heard) take(m fleet.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, string(m.Payload))
}

func (h *heard) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.all, " ")
}

// bend treats a message as its payload says.
func bend(m tap.Message) []tap.Passage {
	switch string(m.Payload) {
	case "lost":
		return nil
	case "twice":
		return []tap.Passage{{Message: m}, {Message: m}}
	case "late":
		return []tap.Passage{{Message: m, After: time.Second}}
	}
	return tap.Straight(m)
}

func TestBentMessagesGetLostDoubledAndOvertaken(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) { sayBoth(t, folder) })
	h, err := history.Read(folder)
	if err != nil {
		t.Fatal(err)
	}
	acts := map[history.Act][]string{}
	for _, l := range h.Lines {
		acts[l.Act] = append(acts[l.Act], l.Payload)
	}
	if got := acts[history.ActGot]; !slices.Equal(got, strings.Fields("first twice twice last late")) {
		t.Errorf("the history got %v", got)
	}
	if sent := acts[history.ActSent]; !slices.Equal(sent, strings.Fields("late first lost twice last")) {
		t.Errorf("the history sent %v", sent)
	}
}

// bentBroker is a broker on a network in memory.
func bentBroker(t *testing.T, host *mesh.Host, address string) *server.Server {
	t.Helper()
	cfg := server.DefaultConfig()
	cfg.Listeners.TCP.Address, cfg.Anonymous = address, true
	b, err := server.New(cfg, server.Options{Logger: slog.New(slog.DiscardHandler), Listen: host.Listen})
	if err == nil {
		err = b.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// sayBoth says the same things in both directions through a tap.
func sayBoth(t *testing.T, folder string) {
	t.Helper()
	const address = "127.0.0.1:1883"
	m := mesh.New(1)
	host := m.Host()
	b := bentBroker(t, host, address)
	w, err := history.CreateBy(func() (int64, int64) { return time.Now().UnixMilli(), time.Now().UnixMicro() }, folder,
		history.Participant{Who: "A/pos1", Role: history.RoleAgent, Store: "A", Terminal: "pos1"})
	if err != nil {
		t.Fatal(err)
	}
	relay := tap.Bent(w, bend)
	join := func(user, filter string, through bool, got *heard) *fleet.Conn {
		conn, err := host.Dial(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if through {
			near, inner := m.Pipe()
			relay.Join(inner, conn)
			conn = near
		}
		c, err := fleet.Over(t.Context(), conn, fleet.Login{User: user}, got.take)
		if err == nil {
			err = c.Subscribe(t.Context(), filter)
		}
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const claims, orders = "muster/v1/stores/A/terminals/pos1/claim", "muster/v1/stores/A/terminals/pos1/orders"
	var up, down heard
	hq, near := join("dispatcher", claims, false, &up), join("A/pos1", orders, true, &down)
	for _, say := range []string{"late", "first", "lost", "twice", "last"} {
		if err := errors.Join(near.Publish(claims, []byte(say)), hq.Publish(orders, []byte(say))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
	}
	<-time.After(2 * time.Second)
	synctest.Wait()
	if want := "first twice twice last late"; up.text() != want || down.text() != want {
		t.Errorf("up came %q, down %q; want %q", up.text(), down.text(), want)
	}
	near.Close()
	hq.Close()
	relay.Close()
	if err := errors.Join(b.Stop(context.WithoutCancel(t.Context())), w.Close()); err != nil {
		t.Error(err)
	}
}
