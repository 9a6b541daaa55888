package server_test

import (
	"fmt"
	"testing"

	"github.com/eclipse/paho.golang/paho"

	"muster/broker/server"
)

const presence = root + "/stores/0001/terminals/pos1/presence"

// marker proves that what should not arrive before it did not.
func marker(t *testing.T, s *server.Server, topic string, c *client) {
	t.Helper()
	publish(t, s, topic, "marker", false)
	if got := c.next(); string(got.Payload) != "marker" {
		t.Errorf("%s with %q was delivered", got.Topic, got.Payload)
	}
}

// No client waits for an answer: a refusal is told, on the broker's own topics too.
func TestRefusedPublishIsToldAndNeverDelivered(t *testing.T) {
	for name, topic := range map[string]string{
		"foreign": root + "/stores/0002/terminals/pos1/claim", "system": "$SYS/broker/uptime", "share": "$share/pos",
	} {
		t.Run(name, func(t *testing.T) { refusedPublishIsTold(t, topic) })
	}
}

func refusedPublishIsTold(t *testing.T, foreign string) {
	s := start(t, anonymous(), server.Options{})
	watcher := connect(t, s, login{user: "dispatcher", id: "w", clean: true})
	watcher.subscribe(root + "/#")
	pos := connect(t, s, as("0001/pos1"))
	if code := pos.say(foreign, "v5"); code != 0x87 {
		t.Errorf("PUBACK 0x%02x", code)
	}
	if code := pos.publish(&paho.Publish{Topic: foreign, QoS: 2, Payload: []byte("v5")}); code != 0x87 {
		t.Errorf("PUBREC 0x%02x", code)
	}
	pos.publishQoS0(foreign)
	for _, qos := range []byte{0, 1, 2} {
		old := dial(t, s)
		old.send(frame(0x10, str("MQTT"), []byte{4, 0x82, 0, 60}, str("olga"), str("olga")))
		old.read()
		id := []byte{0, 1}
		if qos == 0 {
			id = nil
		}
		old.send(frame(0x30|qos<<1, str(foreign), id, []byte("v3")))
		if qos > 0 {
			old.closed() // 3.1.1 has no other way to refuse
			continue
		}
		old.send([]byte{0xc0, 0})
		if kind, _ := old.read(); kind != 0xd0 {
			t.Errorf("QoS 0: got 0x%02x, not PINGRESP", kind)
		}
	}
	marker(t, s, root+"/info", watcher)
}

func (c *client) publishQoS0(topic string) {
	c.t.Helper()
	if _, err := c.Publish(c.t.Context(), &paho.Publish{Topic: topic, Payload: []byte("0")}); err != nil {
		c.t.Fatal(err)
	}
}

func TestRefusedSubscriptionsEscapeNothing(t *testing.T) {
	s := start(t, anonymous(), server.Options{})
	publish(t, s, root+"/stores/0002/tasks/t1", "secret", true)
	pos := connect(t, s, as("0001/pos1"))
	for _, filter := range []string{
		"#", "+/+/#", root + "/#", root + "/stores/#", root + "/stores/+/tasks/+", root + "/stores/0002/tasks/t1",
		"$share/g/" + root + "/stores/+/tasks/+", "$SHARE/g/" + root + "/#", "$share/g/#", "$SYS/#",
	} {
		if code := pos.subscribe(filter); code != 0x87 {
			t.Errorf("%s: 0x%02x", filter, code)
		}
	}
	if code := pos.subscribe(root + "/info"); code != 1 {
		t.Errorf("info: 0x%02x", code)
	}
	publish(t, s, root+"/stores/0002/tasks/t2", "secret", false)
	marker(t, s, root+"/info", pos)
	old := dial(t, s)
	old.send(frame(0x10, str("MQTT"), []byte{4, 0x82, 0, 60}, str("0001/pos2"), str("0001/pos2")))
	old.read()
	old.send(frame(0x82, []byte{0, 7}, str(root+"/#"), []byte{1}))
	if kind, body := old.read(); kind != 0x90 || body[2] != 0x80 {
		t.Errorf("3.1.1: 0x%02x % x", kind, body)
	}
}

func TestForeignWillsAreRefused(t *testing.T) {
	s := start(t, anonymous(), server.Options{})
	for name, c := range map[string]struct {
		user, topic string
		code        byte
	}{
		"own presence":     {"0001/pos1", presence, 0},
		"other's presence": {"0001/pos2", presence, 0x87},
		"own result":       {"0001/pos1", root + "/stores/0001/terminals/pos1/result", 0x87},
		"an offer":         {"0001/pos1", root + "/stores/0001/tasks/t1", 0x87},
		"own request":      {"olga", root + "/req/olga/run", 0x87},
		"other's request":  {"olga", root + "/req/bob/run", 0x87},
		"outside":          {"olga", "elsewhere", 0x87},
		"system":           {"olga", "$SYS/broker/uptime", 0x87},
		"dispatcher":       {"dispatcher", root + "/info", 0},
	} {
		l := as(c.user)
		l.will = &paho.WillMessage{Topic: c.topic, Payload: []byte("gone"), QoS: 1, Retain: true}
		if _, ack, err := tryConnect(t, s, l); ack == nil || ack.ReasonCode != c.code {
			t.Errorf("%s: %+v %v", name, ack, err)
		}
	}
}

func presenceWill() login {
	l := as("0001/pos1")
	l.will = &paho.WillMessage{Topic: presence, Payload: []byte("gone"), QoS: 1, Retain: true}
	return l
}

func TestPresenceOnABrokerThatRunsAlone(t *testing.T) {
	s := start(t, anonymous(), server.Options{})
	watcher := connect(t, s, as("olga"))
	watcher.subscribe(presence)
	first := connect(t, s, presenceWill())
	birth := func(c *client) {
		c.publish(&paho.Publish{Topic: presence, QoS: 1, Retain: true, Payload: []byte("here")})
		if got := watcher.next(); string(got.Payload) != "here" {
			t.Errorf("got %q", got.Payload)
		}
	}
	birth(first)
	second := connect(t, s, presenceWill()) // the will of the first must stay silent
	birth(second)
	marker(t, s, presence, watcher)
	_ = second.Disconnect(&paho.Disconnect{ReasonCode: 4}) // with will
	if got := watcher.next(); string(got.Payload) != "gone" {
		t.Errorf("got %q", got.Payload)
	}
	late := connect(t, s, as("oscar"))
	late.subscribe(root + "/stores/+/terminals/+/presence")
	if got := late.next(); string(got.Payload) != "gone" || !got.Retain {
		t.Errorf("retained %q", got.Payload)
	}
}

func TestManagedPresenceIsHeadquarters(t *testing.T) {
	events, opts := newSessions()
	s := start(t, anonymous(), opts)
	watcher := connect(t, s, as("olga"))
	watcher.subscribe(presence)
	pos := connect(t, s, presenceWill())
	events.next(t, "pos1", true)
	if code := pos.publish(&paho.Publish{Topic: presence, QoS: 1, Retain: true, Payload: []byte("here")}); code != 0 {
		t.Errorf("PUBACK 0x%02x", code)
	}
	_ = pos.Disconnect(&paho.Disconnect{ReasonCode: 4})
	events.next(t, "pos1", false)
	marker(t, s, presence, watcher)
}

func TestTerminalUnderManagedPresenceHasNoSession(t *testing.T) {
	_, opts := newSessions()
	s := start(t, anonymous(), opts)
	l := as("0001/pos1")
	l.expiry = 3600
	_, ack, err := tryConnect(t, s, l)
	if err != nil || ack.Properties.SessionExpiryInterval == nil || *ack.Properties.SessionExpiryInterval != 0 {
		t.Errorf("%+v %v", ack, err)
	}
}

func TestOnlyTheDispatcherRetains(t *testing.T) {
	s := start(t, anonymous(), server.Options{})
	hq := connect(t, s, as("dispatcher"))
	// With "retain as published" a dispatcher sees that a command was retained.
	_, err := hq.Subscribe(t.Context(), &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{
		{Topic: root + "/req/+/+", QoS: 1, RetainAsPublished: true}}})
	if err != nil {
		t.Fatal(err)
	}
	olga := connect(t, s, as("olga"))
	olga.publish(&paho.Publish{Topic: root + "/req/olga/run", QoS: 1, Retain: true, Payload: []byte("{}")})
	if got := hq.next(); !got.Retain {
		t.Error("the flag was lost")
	}
	hq.publish(&paho.Publish{Topic: root + "/stores/0001/tasks/t1", QoS: 1, Retain: true, Payload: []byte("offer"),
		Properties: &paho.PublishProperties{ContentType: "application/json", CorrelationData: []byte("c")}})
	again := connect(t, s, login{user: "dispatcher", id: "d2", clean: true})
	again.subscribe(root + "/#")
	got := again.next()
	if string(got.Payload) != "offer" || !got.Retain || got.Properties.ContentType != "application/json" || string(got.Properties.CorrelationData) != "c" {
		t.Errorf("got %+v", got)
	}
	marker(t, s, root+"/info", again)
}

func TestRetainHandling(t *testing.T) {
	s := start(t, anonymous(), server.Options{})
	publish(t, s, root+"/info", "retained", true)
	c := connect(t, s, as("olga"))
	id := 7
	subscribe := func(handling byte) {
		_, err := c.Subscribe(t.Context(), &paho.Subscribe{
			Properties:    &paho.SubscribeProperties{SubscriptionIdentifier: &id},
			Subscriptions: []paho.SubscribeOptions{{Topic: root + "/info", QoS: 1, RetainHandling: handling}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	subscribe(2) // never
	marker(t, s, root+"/info", c)
	subscribe(1) // only when new
	marker(t, s, root+"/info", c)
	subscribe(0) // always
	if got := c.next(); string(got.Payload) != "retained" || got.Properties.SubscriptionIdentifier == nil || *got.Properties.SubscriptionIdentifier != id {
		t.Errorf("got %+v", got)
	}
}

// TestWildcardGetsEveryRetainedMessage: the library's own store would hand out
// as many as the client's queue has room for, and drop the rest.
func TestWildcardGetsEveryRetainedMessage(t *testing.T) {
	s := start(t, anonymous(), server.Options{})
	const stores = 5_000
	for n := range stores {
		publish(t, s, fmt.Sprintf("%s/stores/%05d/terminals/pos1/presence", root, n), "{}", true)
	}
	c := connect(t, s, as("olga"))
	c.subscribe(root + "/stores/+/terminals/+/presence")
	seen := map[string]bool{}
	for range stores {
		seen[c.next().Topic] = true
	}
	if len(seen) != stores {
		t.Errorf("%d of %d", len(seen), stores)
	}
}

func BenchmarkPublishRetained(b *testing.B) {
	s, err := server.New(anonymous(), server.Options{})
	if err != nil {
		b.Fatal(err)
	}
	payload := make([]byte, 1<<10)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		err := s.Publish(b.Context(), server.Outgoing{Topic: fmt.Sprintf("%s/stores/%05d/tasks/t%d", root, n%5_000, n), Payload: payload, Retain: true})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// TestBurstLosesNothing publishes far more at once than the library queues for
// a client.
func TestBurstLosesNothing(t *testing.T) {
	s := start(t, anonymous(), server.Options{})
	const messages = 8_000
	for name, qos := range map[string]byte{"QoS 0": 0, "QoS 1": 1, "shared": 1} {
		t.Run(name, func(t *testing.T) {
			filter := root + "/runs/#"
			if name == "shared" {
				filter = "$share/g/" + filter
			}
			c := connect(t, s, as("olga"))
			if _, err := c.Subscribe(t.Context(), &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: qos}}}); err != nil {
				t.Fatal(err)
			}
			for n := range messages {
				publish(t, s, fmt.Sprintf("%s/runs/r1/stores/%05d", root, n), "{}", false)
			}
			seen := map[string]bool{}
			for range messages {
				got := c.next()
				seen[got.Topic] = true
				if got.QoS != qos || got.Retain {
					t.Fatalf("got %+v", got)
				}
			}
			if len(seen) != messages {
				t.Errorf("%d of %d", len(seen), messages)
			}
		})
	}
}
