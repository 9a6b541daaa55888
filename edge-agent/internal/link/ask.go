package link

import (
	"context"
	"fmt"
	"net"

	"github.com/eclipse/paho.golang/packets"
)

// Ask says CONNECT (MQTT 5, section 3.1) on a connection whose handshake has shown the
// terminal's certificate, and returns why the broker lets that in no more; "" when it
// does. It asks under an id that is no terminal's, which pushes nobody off a connection:
// a broker that has nothing but that against it takes the certificate.
func Ask(ctx context.Context, conn net.Conn) (refusal string, err error) {
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return "", fmt.Errorf("cannot ask it: %w", err)
		}
	}
	connect := &packets.Connect{ProtocolName: "MQTT", ProtocolVersion: 5, ClientID: "doctor", CleanStart: true, KeepAlive: 10,
		Properties: &packets.Properties{}}
	if _, err := connect.WriteTo(conn); err != nil {
		return "", fmt.Errorf("cannot ask it: %w", err)
	}
	answer, err := packets.ReadPacket(conn)
	if err != nil {
		return "", fmt.Errorf("it does not answer: %w", err)
	}
	connack, ok := answer.Content.(*packets.Connack)
	switch {
	case !ok:
		return "", fmt.Errorf("it answers with no CONNACK but %s", answer.PacketType())
	case connack.ReasonCode == packets.ConnackSuccess || connack.ReasonCode == packets.ConnackInvalidClientID:
		return "", nil
	case connack.Properties != nil && connack.Properties.ReasonString != "":
		return connack.Properties.ReasonString, nil
	}
	return connack.Reason(), nil
}
