// Package packetid keeps the packet ids that a client chose apart from those
// that the MQTT library chose for the same connection.
//
// It reads no sockets and sends nothing; it changes no packet, but says which id
// to put into it.
package packetid

import (
	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// Map is the ids of one connection. The zero value is ready. The protocol counts the two directions apart (MQTT 5, 2.2.1);
// the library has one map for both, so that a client's id can wipe out a
// message on its way to that client, or gets SUBSCRIBE refused. A client's id
// that collides is replaced on the way in and put back on the acknowledgement.
//
// One goroutine, the connection's own, reads packets and writes these
// acknowledgements.
type Map struct {
	inner map[uint16]uint16 // the client's id by ours
	outer map[uint16]uint16 // ours by the client's
}

// Inbound returns the id the library is to see.
func (m *Map) Inbound(inflight *mqtt.Inflight, pk packets.Packet) uint16 {
	id := pk.PacketID
	if id == 0 || len(m.inner) == 0 && inflight.Len() == 0 {
		return id
	}
	if ours, ok := m.outer[id]; ok {
		return ours
	}
	known, taken := inflight.Get(id)
	ourMessage := known.FixedHeader.Type == packets.Publish || known.FixedHeader.Type == packets.Pubrel
	clash := (taken && ourMessage) || m.inner[id] != 0
	if !clash || pk.FixedHeader.Type == packets.Pubrel {
		return id
	}
	ours := m.free(inflight)
	if ours == 0 {
		return id
	}
	if m.inner == nil {
		m.inner, m.outer = map[uint16]uint16{}, map[uint16]uint16{}
	}
	m.inner[ours], m.outer[id] = id, ours
	return ours
}

// free looks for an unused id from the top, away from where the library counts.
func (m *Map) free(inflight *mqtt.Inflight) uint16 {
	for id := uint16(65_535); id > 0; id-- {
		_, taken := inflight.Get(id)
		if !taken && m.inner[id] == 0 {
			return id
		}
	}
	return 0
}

// Outbound returns the id the client knows, for an acknowledgement. The
// exchange is over then, but for PUBREC, which PUBREL and PUBCOMP follow.
func (m *Map) Outbound(ack packets.Packet) uint16 {
	id, ok := m.inner[ack.PacketID]
	if !ok {
		return ack.PacketID
	}
	goesOn := ack.FixedHeader.Type == packets.Pubrec && ack.ReasonCode < packets.ErrUnspecifiedError.Code
	if !goesOn {
		delete(m.inner, ack.PacketID)
		delete(m.outer, id)
	}
	return id
}
