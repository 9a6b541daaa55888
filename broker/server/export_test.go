package server

import (
	"bytes"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
	"github.com/mochi-mqtt/server/v2/system"
)

// PanicOnTopic makes the MQTT library itself panic when a client publishes to a
// topic, after our own hooks.
func (s *Server) PanicOnTopic(topic string) error {
	return s.broker.AddHook(&panicHook{topic: topic}, nil)
}

// Subscriptions is how many the library counts.
func (s *Server) Subscriptions() int64 { return s.broker.Info.Clone().Subscriptions }

// SeatsTaken is how many client ids are held by connections.
func (s *Server) SeatsTaken() int { return len(s.seats.Holders()) }

// Known reports whether the library knows a client id.
func (s *Server) Known(id string) bool {
	_, ok := s.broker.Clients.Get(id)
	return ok
}

// Mislay makes the library forget a live client, as its sweep of expired
// sessions can.
func (s *Server) Mislay(id string) { s.broker.Clients.Delete(id) }

// Postpone puts a message behind what waits for a client.
func (s *Server) Postpone(id, topic string, payload []byte) {
	cl, _ := s.broker.Clients.Get(id)
	s.wait(peerOf(cl), packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: 1}, TopicName: topic, Payload: payload,
	})
}

// InFlight is how many messages a client has not acknowledged.
func (s *Server) InFlight(id string) int {
	cl, _ := s.broker.Clients.Get(id)
	return cl.State.Inflight.Len()
}

// FailToKeep makes whatever is to be retained panic, until it is called again. No
// client may be connected.
func (s *Server) FailToKeep(info *system.Info) *system.Info {
	before := s.broker.Info
	s.broker.Info = info
	return before
}

// PublishInto writes a PUBLISH.
func PublishInto(buf *bytes.Buffer, pk *packets.Packet) bool { return publishInto(buf, pk) }

type panicHook struct {
	mqtt.HookBase
	topic string
}

func (h *panicHook) Provides(b byte) bool { return b == mqtt.OnPacketProcessed }

func (h *panicHook) OnPacketProcessed(_ *mqtt.Client, pk packets.Packet, _ error) {
	if pk.TopicName == h.topic {
		panic("the library fails")
	}
}

// LookAgain reads the files of the listeners now, not at the next tick.
func (s *Server) LookAgain() { s.lookAgain() }

// PurgeAt does what the broker and the library do to old messages at a time, and
// returns how many retained ones went.
func (s *Server) PurgeAt(now time.Time) int {
	if s.broker.Options.Capabilities.MaximumMessageExpiryInterval != 0 {
		return s.retained.Len() // the library would count from when a message came
	}
	return s.retained.Sweep(now)
}

// Tick does what is done once a minute.
func (s *Server) Tick() { (&hook{s: s}).OnSysInfoTick(nil) }
