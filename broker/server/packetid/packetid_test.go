package packetid_test

import (
	"testing"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"muster/broker/server/packetid"
)

func packet(kind byte, id uint16) packets.Packet {
	return packets.Packet{FixedHeader: packets.FixedHeader{Type: kind, Qos: 2}, PacketID: id}
}

// underway is a connection to which a message of the library's is on its way.
func underway(id uint16) *mqtt.Inflight {
	inflight := mqtt.NewInflights()
	inflight.Set(packet(packets.Publish, id))
	return inflight
}

func TestAFreeIdStaysAsItIs(t *testing.T) {
	t.Parallel()
	var ids packetid.Map
	if got := ids.Inbound(underway(7), packet(packets.Publish, 8)); got != 8 {
		t.Errorf("the library sees %d, want 8", got)
	}
	if got := ids.Outbound(packet(packets.Puback, 8)); got != 8 {
		t.Errorf("the client is acknowledged %d, want 8", got)
	}
}

func TestACollidingIdIsReplacedUntilItsExchangeIsOver(t *testing.T) {
	t.Parallel()
	var ids packetid.Map
	inflight := underway(7)
	ours := ids.Inbound(inflight, packet(packets.Publish, 7))
	if ours == 7 {
		t.Fatal("the client's id wipes out a message on its way to it")
	}
	if got := ids.Outbound(packet(packets.Pubrec, ours)); got != 7 {
		t.Errorf("PUBREC says %d, want 7", got)
	}
	if got := ids.Inbound(inflight, packet(packets.Pubrel, 7)); got != ours {
		t.Errorf("PUBREL reaches the library as %d, want %d", got, ours)
	}
	if got := ids.Outbound(packet(packets.Pubcomp, ours)); got != 7 {
		t.Errorf("PUBCOMP says %d, want 7", got)
	}
	if got := ids.Outbound(packet(packets.Puback, ours)); got != ours {
		t.Errorf("the id is still replaced by %d after the exchange", got)
	}
}
