package tap_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"muster/broker/server"
	"muster/tests/chaos/history"
	"muster/tests/chaos/tap"
	"muster/tests/fleet"
	"muster/tests/programs"
)

// broker runs the real one and returns its address.
func broker(t *testing.T) string {
	t.Helper()
	cfg := server.DefaultConfig()
	cfg.Listeners.TCP.Address = "127.0.0.1:0"
	cfg.Anonymous = true
	s, err := server.New(cfg, server.Options{Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return s.Addr("tcp").String()
}

// start puts a tap in front of the broker; text is its history so far.
func start(t *testing.T, addr string) (relay *tap.Tap, text func() string) {
	t.Helper()
	folder := t.TempDir()
	w, err := history.Create(folder, history.Participant{Who: "A/pos1", Role: history.RoleAgent, Store: "A", Terminal: "pos1"})
	if err != nil {
		t.Fatal(err)
	}
	if relay, err = tap.Start(t.Context(), addr, w); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		relay.Close()
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return relay, func() string {
		t.Helper()
		h, err := history.Read(folder)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, l := range h.Lines {
			fmt.Fprintf(&b, "%s %s %.40s %t\n", l.Act, l.Topic, l.Payload, l.Retained)
		}
		return b.String()
	}
}

const offers = "muster/v1/stores/A/tasks/"

func TestWhatIsReceivedIsInTheHistoryBefore(t *testing.T) {
	t.Parallel()
	addr := broker(t)
	relay, text := start(t, addr)
	hq, err := fleet.Dial(t.Context(), addr, fleet.Login{User: "dispatcher"}, func(fleet.Message) {})
	if err != nil {
		t.Fatal(err)
	}
	defer hq.Close()
	if err := hq.Subscribe(t.Context(), "muster/v1/stores/#"); err != nil {
		t.Fatal(err)
	}
	if err := hq.Send(fleet.Outgoing{Topic: offers + "T1", Payload: []byte(`{"n":1}`), Retain: true}); err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 100)
	near, err := fleet.Dial(t.Context(), relay.Addr(), fleet.Login{User: "A/pos1"}, func(m fleet.Message) {
		if want := fmt.Sprintf("got %s %.40s %t\n", m.Topic, m.Payload, m.Retained); !strings.Contains(text(), want) {
			t.Errorf("%q is received and not in the history:\n%s", want, text())
		}
		got <- m.Topic
	})
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	if err := near.Subscribe(t.Context(), offers+"+"); err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x", 300<<10)
	for i := range 10 {
		if err := hq.Publish(fmt.Sprintf("%sL%d", offers, i), []byte(large)); err != nil {
			t.Fatal(err)
		}
	}
	for range 11 {
		await(t, got)
	}
	all := text()
	if first := "connected   false\nsubscribed " + offers + "+  false\ngot " + offers + "T1 {\"n\":1} true\n"; !strings.HasPrefix(all, first) {
		t.Errorf("history\n%s\nbegins not with\n%s", all, first)
	}
}

func TestWhatIsSentIsInTheHistoryBefore(t *testing.T) {
	t.Parallel()
	addr := broker(t)
	relay, text := start(t, addr)
	got := make(chan string, 10)
	const topic = "muster/v1/stores/A/terminals/pos1/claim"
	hq, err := fleet.Dial(t.Context(), addr, fleet.Login{User: "dispatcher"}, func(m fleet.Message) {
		if want := fmt.Sprintf("sent %s %s false\n", topic, m.Payload); !strings.Contains(text(), want) {
			t.Errorf("%q came and is not in the history:\n%s", want, text())
		}
		got <- m.Topic
	})
	if err != nil {
		t.Fatal(err)
	}
	defer hq.Close()
	if err := hq.Subscribe(t.Context(), topic); err != nil {
		t.Fatal(err)
	}
	near, err := fleet.Dial(t.Context(), relay.Addr(), fleet.Login{User: "A/pos1"}, func(fleet.Message) {})
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	for i := range 5 {
		if err := near.Publish(topic, fmt.Appendf(nil, `{"claim":%d}`, i)); err != nil {
			t.Fatal(err)
		}
		await(t, got)
	}
}

func TestCutEndsWhatIsOpenAndTakesWhatComes(t *testing.T) {
	t.Parallel()
	relay, text := start(t, broker(t))
	for life := 1; life <= 2; life++ {
		near, err := fleet.Dial(t.Context(), relay.Addr(), fleet.Login{User: "A/pos1"}, func(fleet.Message) {})
		if err != nil {
			t.Fatal(err)
		}
		relay.Cut()
		select {
		case <-near.Done():
		case <-time.After(programs.Patience):
			t.Fatal("the connection outlived the cut")
		}
		programs.Eventually(t, "the end in the history", func() bool { return strings.Count(text(), "disconnected") == life })
	}
	relay.Close()
	relay.Close()
	if err := relay.Failed(); err != nil {
		t.Error(err)
	}
}

func await(t *testing.T, got <-chan string) {
	t.Helper()
	select {
	case <-got:
	case <-time.After(programs.Patience):
		t.Fatal("nothing came")
	}
}
