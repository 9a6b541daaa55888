package link_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"muster/broker/server"
	"muster/edge-agent/internal/link"
	"muster/internal/protocol"
	"muster/internal/trust"
	"muster/tests/programs"
)

// patience bounds what must happen; it passes in full only in a failure.
const patience = 20 * time.Second

// recorder is the agent's end.
type recorder struct {
	events chan string
	slow   chan struct{} // when set, each message waits for it
}

// presenceForm is the payload of presence, an object as signatures want it.
const presenceForm = `{"online":%t}`

func (r *recorder) Up()   { r.events <- "up" }
func (r *recorder) Down() { r.events <- "down" }
func (r *recorder) Message(topic string, payload []byte, s trust.Signature) {
	if r.slow != nil {
		<-r.slow
	}
	event := topic + " " + string(payload)
	if !s.IsZero() {
		event += " kid=" + s.KeyID + " sig=" + s.Value
	}
	r.events <- event
}
func (r *recorder) Presence(_ string, online bool) []byte {
	return fmt.Appendf(nil, presenceForm, online)
}

func (r *recorder) wait(t *testing.T, want string) {
	t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case got := <-r.events:
			if got == want {
				return
			}
			t.Logf("passed over %s", got)
		case <-timeout:
			t.Fatalf("no %q", want)
		}
	}
}

type bench struct {
	t      *testing.T
	topics protocol.Topics
	broker *server.Server
	taken  chan server.Message
}

func newBench(t *testing.T, listeners server.Listeners) *bench {
	t.Helper()
	topics, err := protocol.NewTopics(protocol.DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, topics: topics, taken: make(chan server.Message, 1000)}
	b.start(listeners)
	return b
}

func (b *bench) start(listeners server.Listeners) {
	b.t.Helper()
	var err error
	b.broker, err = server.New(server.Config{Listeners: listeners, Anonymous: true},
		server.Options{Logger: slog.New(slog.DiscardHandler), Intake: func(_ context.Context, m server.Message) error {
			b.taken <- m
			return nil
		}})
	if err == nil {
		err = b.broker.Start(b.t.Context())
	}
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(b.stop)
}

func (b *bench) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := b.broker.Stop(ctx); err != nil {
		b.t.Error(err)
	}
}

func tcp(address string) server.Listeners {
	return server.Listeners{TCP: server.ListenerConfig{Address: address}}
}

// run runs a link until the test or the returned function ends it.
func (b *bench) run(r *recorder, broker *url.URL, change ...func(*link.Config)) (*link.Link, func()) {
	cfg := link.Config{Broker: broker, Store: "007", Terminal: "pos-1", User: "007/pos-1", Topics: b.topics,
		Logger: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&cfg)
	}
	l := link.New(cfg, r)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { l.Run(ctx) })
	stop := sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	b.t.Cleanup(stop)
	return l, stop
}

func (b *bench) publish(topic, payload string, retain bool) {
	b.t.Helper()
	err := b.broker.Publish(b.t.Context(), server.Outgoing{Topic: topic, Payload: []byte(payload), Retain: retain})
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) next() server.Message {
	b.t.Helper()
	select {
	case m := <-b.taken:
		return m
	case <-time.After(patience):
		b.t.Fatal("headquarters got nothing")
		return server.Message{}
	}
}

func TestRetainedOffersAndOrdersComeOnEveryConnection(t *testing.T) {
	t.Parallel()
	address := programs.FreeAddr(t)
	b := newBench(t, tcp(address))
	r := &recorder{events: make(chan string, 1000)}
	b.publish(b.topics.Offer("007", "t1"), "offer", true)
	b.publish(b.topics.Offer("008", "t9"), "foreign", true)
	l, _ := b.run(r, &url.URL{Scheme: "mqtt", Host: address})
	if l.Send(protocol.KindClaim, []byte("{}")) {
		t.Error("sent before the link was up")
	}
	r.wait(t, b.topics.Offer("007", "t1")+" offer")
	b.publish(b.topics.Terminal("007", "pos-1", protocol.KindOrders), "order", false)
	r.wait(t, b.topics.Terminal("007", "pos-1", protocol.KindOrders)+" order")

	b.stop()
	r.wait(t, "down")
	if l.Send(protocol.KindClaim, []byte("{}")) {
		t.Error("sent while the link is down")
	}
	b.start(tcp(address)) // the broker lost everything
	b.publish(b.topics.Offer("007", "t2"), "offer", true)
	r.wait(t, b.topics.Offer("007", "t2")+" offer")
}

func TestMessagesKeepTheirOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t, tcp("127.0.0.1:0"))
	r := &recorder{events: make(chan string, 1000)}
	l, _ := b.run(r, &url.URL{Scheme: "mqtt", Host: b.broker.Addr("tcp").String()})
	r.wait(t, "up")
	var want, got []string
	for i := range 100 {
		payload := fmt.Sprint(i)
		if !l.Send(protocol.KindProgress, []byte(payload)) {
			t.Fatal("the link is full")
		}
		want = append(want, payload)
	}
	for range 100 {
		m := b.next()
		if m.Topic != b.topics.Terminal("007", "pos-1", protocol.KindProgress) {
			t.Errorf("topic %s", m.Topic)
		}
		got = append(got, string(m.Payload))
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestFullQueueRefusesInsteadOfBlocking(t *testing.T) {
	t.Parallel()
	b := newBench(t, tcp("127.0.0.1:0"))
	r := &recorder{events: make(chan string, 1000)}
	l, _ := b.run(r, &url.URL{Scheme: "mqtt", Host: b.broker.Addr("tcp").String()})
	r.wait(t, "up")
	big := []byte(strings.Repeat("x", 300<<10))
	refused := false
	for range 5000 {
		if !l.Send(protocol.KindProgress, big) {
			refused = true
			break
		}
		for len(b.taken) > 0 {
			<-b.taken
		}
	}
	if !refused {
		t.Error("1.5 GB found room")
	}
}

func TestWebSocket(t *testing.T) {
	t.Parallel()
	b := newBench(t, server.Listeners{WS: server.ListenerConfig{Address: "127.0.0.1:0"}})
	r := &recorder{events: make(chan string, 1000)}
	l, _ := b.run(r, &url.URL{Scheme: "ws", Host: b.broker.Addr("ws").String(), Path: "/mqtt"})
	r.wait(t, "up")
	l.Send(protocol.KindResult, []byte(strings.Repeat("x", 200<<10)))
	if m := b.next(); len(m.Payload) != 200<<10 {
		t.Errorf("%d bytes", len(m.Payload))
	}
	long := strings.Repeat("y", 200<<10)
	b.publish(b.topics.Offer("007", "t1"), long, false)
	r.wait(t, b.topics.Offer("007", "t1")+" "+long)
}

func TestPresenceIsBornAndSaysGoodbye(t *testing.T) {
	t.Parallel()
	b := newBench(t, tcp("127.0.0.1:0"))
	topic := b.topics.Terminal("007", "pos-1", protocol.KindPresence)
	seen := b.watch(topic)
	r := &recorder{events: make(chan string, 1000)}
	_, stop := b.run(r, &url.URL{Scheme: "mqtt", Host: b.broker.Addr("tcp").String()})
	wait := func(want string) {
		t.Helper()
		select {
		case got := <-seen:
			if got != want {
				t.Errorf("presence %s, want %s", got, want)
			}
		case <-time.After(patience):
			t.Errorf("no presence %s", want)
		}
	}
	wait(`{"online":true}`)
	began := time.Now()
	stop()
	if took := time.Since(began); took > 1500*time.Millisecond {
		t.Errorf("goodbye took %v", took)
	}
	wait(`{"online":false}`)
}

// watch subscribes as a technician.
func (b *bench) watch(topic string) <-chan string {
	b.t.Helper()
	seen := make(chan string, 100)
	b.subscribe(topic, func(p *paho.Publish) { seen <- string(p.Payload) })
	return seen
}

func (b *bench) subscribe(topic string, take func(*paho.Publish)) {
	b.t.Helper()
	conn, err := net.Dial("tcp", b.broker.Addr("tcp").String())
	if err != nil {
		b.t.Fatal(err)
	}
	client := paho.NewClient(paho.ClientConfig{Conn: conn, OnPublishReceived: []func(paho.PublishReceived) (bool, error){
		func(p paho.PublishReceived) (bool, error) {
			take(p.Packet)
			return true, nil
		}}})
	connect := &paho.Connect{ClientID: "olga", Username: "olga", UsernameFlag: true, CleanStart: true, KeepAlive: 30}
	if _, err := client.Connect(b.t.Context(), connect); err != nil {
		b.t.Fatal(err)
	}
	if _, err := client.Subscribe(b.t.Context(), &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: topic, QoS: 1}}}); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = client.Disconnect(&paho.Disconnect{}) })
}

func TestBackOffIsJitteredAndNeverZero(t *testing.T) {
	t.Parallel()
	for failures, full := range map[int]time.Duration{0: time.Second, 1: 2 * time.Second, 4: 16 * time.Second, 5: 30 * time.Second, 1000: 30 * time.Second} {
		least, most := time.Hour, time.Duration(0)
		for range 1000 {
			wait := link.BackOff(failures)
			least, most = min(least, wait), max(most, wait)
		}
		if least < full/2 || most > full*3/2 || most-least < full/2 {
			t.Errorf("after %d failures it waits %v to %v, want about %v to %v", failures, least, most, full/2, full*3/2)
		}
	}
}

func TestWhoIsPushedOutAgainAndAgainWaitsLonger(t *testing.T) {
	t.Parallel()
	for before, want := range map[int]time.Duration{0: 30 * time.Second, 1: time.Minute, 3: 4 * time.Minute, 4: 5 * time.Minute, 1000: 5 * time.Minute} {
		if got := link.RivalWait(before); got != want {
			t.Errorf("after %d times it waits %v, want %v", before, got, want)
		}
	}
}

func TestOnlyALivingConnectionEndsTheRowOfFailures(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 9, 17, 7, 30, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		up   time.Time
		want int
	}{
		"never up, however long it was waited for": {time.Time{}, 4},
		"up and gone at once":                      {now, 4},
		"up for less than it takes":                {now.Add(-10*time.Second + time.Millisecond), 4},
		"up for long enough":                       {now.Add(-10 * time.Second), 0},
	} {
		if got := link.FailuresBefore(4, tc.up, now); got != tc.want {
			t.Errorf("%s: got %d failures, want %d", name, got, tc.want)
		}
	}
}

func TestUnreachableBrokerIsTriedAgain(t *testing.T) {
	t.Parallel()
	address := programs.FreeAddr(t)
	b := newBench(t, tcp(address))
	b.stop()
	r := &recorder{events: make(chan string, 1000)}
	b.run(r, &url.URL{Scheme: "mqtt", Host: address})
	b.start(tcp(address))
	r.wait(t, "up")
}
