package server

import (
	"sync/atomic"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"muster/broker/server/retain"
)

// replayWindow is how many messages may be unacknowledged by a client before
// the replay of retained messages to it waits for acknowledgements. It lies
// well below the library's in-flight limit, which drops what goes over it.
const replayWindow = 1_024

// extras is what a retained message carries besides topic and payload.
type extras struct {
	qos        byte
	properties *packets.Properties // nil when there are none
}

type retained = retain.Message[extras]

// keep stores a retained publish, or withdraws one with an empty payload.
func (s *Server) keep(pk packets.Packet) {
	if s.serves(pk.TopicName) {
		return
	}
	m := &retained{Topic: pk.TopicName, Payload: pk.Payload, Extra: extras{qos: pk.FixedHeader.Qos}}
	if pk.Expiry > 0 {
		m.Expires = time.Unix(pk.Expiry, 0)
	}
	m.Extra.properties = kept(pk.Properties)
	s.retained.Set(m)
	atomic.StoreInt64(&s.broker.Info.Retained, int64(s.retained.Len()))
}

// kept are the properties that a retained message is sent on with; nil: none.
func kept(p packets.Properties) *packets.Properties {
	if p.ContentType == "" && p.ResponseTopic == "" && len(p.CorrelationData) == 0 && len(p.User) == 0 && !p.PayloadFormatFlag {
		return nil
	}
	return &packets.Properties{
		ContentType: p.ContentType, ResponseTopic: p.ResponseTopic, CorrelationData: p.CorrelationData,
		User: p.User, PayloadFormat: p.PayloadFormat, PayloadFormatFlag: p.PayloadFormatFlag,
	}
}

// replay is what a subscription still has to be sent of the retained messages.
// Only the connection's own goroutine touches it.
type replay struct {
	sub    packets.Subscription
	left   []*retained
	served []string // topics, see Served
}

// replay notes what a subscription that was granted is to be sent. existed says
// whether the client had it before (retain handling 1; MQTT 5, 3.8.3.1).
func (s *Server) replay(p *peer, sub packets.Subscription, existed bool) {
	unwanted := sub.RetainHandling == 2 || (sub.RetainHandling == 1 && existed)
	if unwanted || mqtt.IsSharedFilter(sub.Filter) {
		return
	}
	left, served := s.retained.Match(sub.Filter, time.Now()), s.servedTopics(p, sub.Filter)
	if len(left)+len(served) > 0 {
		p.replays = append(p.replays, replay{sub: sub, left: left, served: served})
	}
}

// resume sends retained messages until none are left or the client has enough
// to acknowledge. It is called after each packet of the client.
func (s *Server) resume(p *peer) {
	for len(p.replays) > 0 {
		r := &p.replays[0]
		for len(r.left) > 0 {
			if p.client.State.Inflight.Len() >= p.window() {
				return
			}
			m := r.left[0]
			r.left = r.left[1:]
			if !s.retained.Holds(m, time.Now()) {
				continue // withdrawn, replaced or expired meanwhile
			}
			if err := s.repeat(p, r.sub, m); err != nil {
				p.replays = nil // the connection is over
				return
			}
		}
		for len(r.served) > 0 {
			if p.client.State.Inflight.Len() >= p.window() {
				return
			}
			topic := r.served[0]
			r.served = r.served[1:]
			if err := s.serve(p, r, topic); err != nil {
				p.replays = nil // the connection is over
				return
			}
		}
		p.replays = p.replays[1:]
	}
	p.replays = nil
}

// repeat sends a retained message, and waits while the client has too much to read.
func (s *Server) repeat(p *peer, sub packets.Subscription, m *retained) error {
	pk := packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Publish, Retain: true, Qos: min(m.Extra.qos, sub.Qos)},
		TopicName:   m.Topic,
		Payload:     m.Payload,
	}
	if m.Extra.properties != nil {
		pk.Properties = *m.Extra.properties
	}
	if !m.Expires.IsZero() {
		pk.Expiry = m.Expires.Unix()
	}
	if sub.Identifier > 0 {
		pk.Properties.SubscriptionIdentifier = []int{sub.Identifier}
	}
	p.WaitRoom()
	return s.send(p, pk, atOnce)
}
