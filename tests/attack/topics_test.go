package attack_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/eclipse/paho.golang/paho"
)

// refusedFilter fails the test unless the server refuses a subscription.
func (c *client) refusedFilter(filter string) {
	c.t.Helper()
	if code := c.subscribe(filter); code < 0x80 {
		c.t.Errorf("subscribing to %s was granted with 0x%02x", filter, code)
	}
}

// refusedTopic fails the test unless the server refuses a message, by its
// answer or by ending the connection.
func (c *client) refusedTopic(topic string) {
	c.t.Helper()
	if code, err := c.publish(message{topic: topic, payload: `{"id":"x","seq":1}`}); err == nil && code < 0x80 {
		c.t.Errorf("publishing on %s was granted with 0x%02x", topic, code)
	}
}

// foreign are topics that are not those of terminal pos1 of store A.
func foreign() []string {
	var topics []string
	for _, kind := range []string{"claim", "progress", "ready", "result", "hello", "presence"} {
		topics = append(topics, "muster/v1/stores/B/terminals/pos1/"+kind, "muster/v1/stores/A/terminals/pos2/"+kind,
			"muster/v1/stores/a/terminals/pos1/"+kind)
	}
	return append(topics, "muster/v1/stores/A/terminals/pos1/orders", "muster/v1/stores/A/tasks/t1", "muster/v1/stores/B/tasks/t1",
		"muster/v1/info", "muster/v1/trust", "muster/v1/req/operator/run", "muster/v1/rep/operator/1", "muster/v1/runs/r/state",
		"muster/v1/alarms/critical/x", "muster/v2/stores/A/terminals/pos1/hello", "other", "$SYS/broker/uptime")
}

func TestS02TerminalSpeaksOnItsOwnTopicsAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{}, "A", "B")
	a := s.steal("A", "pos1", s.enrol("A", "pos1"))
	s.enrol("B", "pos1")
	watch := s.enter(as("auditor"))
	watch.subscribe("muster/v1/#")
	for _, topic := range foreign() {
		s.enter(a.login()).refusedTopic(topic)
	}
	if n := watch.received(func(m *paho.Publish) bool { return strings.Contains(string(m.Payload), `"id":"x"`) }); n > 0 {
		t.Errorf("%d of them were delivered", n)
	}
}

func TestS03NobodyBelowAnAuditorReadsEverything(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{}, "A", "B")
	a := s.enter(s.steal("A", "pos1", s.enrol("A", "pos1")).login())
	technician := s.enter(as("technician"))
	for _, filter := range []string{"#", "+/+", "+/#", "$SYS/#", "$SYS/broker/#", "muster/#", "muster/v1/#", "muster/v1/+/#", "+/v1/#"} {
		a.refusedFilter(filter)
		technician.refusedFilter(filter)
	}
}

func TestS04SharedSubscriptionsWidenNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{}, "A", "B")
	a := s.enter(s.steal("A", "pos1", s.enrol("A", "pos1")).login())
	technician := s.enter(as("technician"))
	for _, filter := range []string{"$share/g/#", "$share/g/muster/v1/stores/B/tasks/+", "$SHARE/g/#", "$share/+/#", "$share/g", "$share//#",
		"$share/g/$share/h/#", "$share/g/muster/v1/rep/operator/#", "$share/g/$SYS/#"} {
		a.refusedFilter(filter)
		technician.refusedFilter(filter)
	}
}

func TestS05WildcardsReachNoFurtherThanTheRights(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{}, "A", "B")
	a := s.enter(s.steal("A", "pos1", s.enrol("A", "pos1")).login())
	for _, filter := range []string{"muster/v1/stores/A/#", "muster/v1/stores/A/terminals/#", "muster/v1/stores/A/terminals/+/orders",
		"muster/v1/stores/A/terminals/pos1/#", "muster/v1/stores/+/tasks/+", "muster/v1/stores/A/tasks/#", "muster/v1/stores/A/+/+"} {
		a.refusedFilter(filter)
	}
	technician := s.enter(as("technician"))
	for _, filter := range []string{"muster/v1/rep/#", "muster/v1/rep/+/last", "muster/v1/req/technician/#", "muster/v1/req/#", "muster/v1/stores/#",
		"muster/v1/stores/+/tasks/+", "muster/v1/stores/+/terminals/+/+", "muster/v1/rep/mate/#"} {
		technician.refusedFilter(filter)
	}
	for filter, who := range map[string]*client{"muster/v1/stores/A/tasks/+": a, "muster/v1/rep/technician/#": technician, "muster/v1/runs/#": technician} {
		if code := who.subscribe(filter); code >= 0x80 {
			t.Errorf("their own %s is refused with 0x%02x", filter, code)
		}
	}
}

func TestS06ClientsRetainNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{}, "A", "B")
	folder := s.enrol("A", "pos1")
	a := s.enter(s.steal("A", "pos1", folder).login())
	for _, kind := range []string{"hello", "claim", "result", "presence"} {
		topic := "muster/v1/stores/A/terminals/pos1/" + kind
		if _, err := a.publish(message{topic: topic, payload: `{"forged":true}`, retain: true}); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	technician := s.enter(as("technician"))
	const request = `{"job":"probe","stores":["A"],"requestId":"kept"}`
	if _, err := technician.publish(message{topic: "muster/v1/req/technician/run", payload: request, retain: true}); err != nil {
		t.Error(err)
	}
	late := s.enter(as("auditor"))
	late.subscribe("muster/v1/#")
	late.take("muster/v1/info") // what is retained has come
	if n := late.received(func(m *paho.Publish) bool {
		return strings.Contains(string(m.Payload), "forged") || strings.Contains(m.Topic, "/req/")
	}); n > 0 {
		t.Errorf("%d messages of clients were retained", n)
	}
	if reply := s.ask("operator", "run", request); !reply.OK || *reply.Duplicate {
		t.Errorf("the retained request made a run: %+v", reply)
	}
}

func TestS07WillsSpeakForNobodyElse(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{}, "A", "B")
	a := s.steal("A", "pos1", s.enrol("A", "pos1"))
	for _, topic := range foreign() {
		who := a.login()
		who.will = &paho.WillMessage{Topic: topic, Payload: []byte(`{"online":false}`), QoS: 1}
		s.refused("a will on "+topic, who)
	}
	technician := as("technician")
	technician.will = &paho.WillMessage{Topic: "muster/v1/req/operator/run", Payload: []byte(`{"job":"probe","stores":"all"}`)}
	s.refused("a technician's will for the operator", technician)
	technician.will = &paho.WillMessage{Topic: "muster/v1/req/technician/run", Payload: []byte(`{"job":"probe","stores":"all"}`)}
	s.refused("a technician's will as a request", technician)
}

func TestS08WillsStayOutOfTheBrokersOwnTopics(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{}, "A")
	a := s.steal("A", "pos1", s.enrol("A", "pos1"))
	for _, name := range []string{"terminal", "technician", "operator", "auditor"} {
		who := a.login()
		if name != "terminal" {
			who = as(name)
		}
		for _, topic := range []string{"$SYS/broker/clients/connected", "$share/g/x", "$other"} {
			who.will = &paho.WillMessage{Topic: topic, Payload: []byte("x"), Retain: true}
			s.refused(fmt.Sprintf("a will of the %s on %s", name, topic), who)
		}
	}
}
