package link

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"
	"github.com/eclipse/paho.golang/paho/session"
	"github.com/eclipse/paho.golang/paho/session/state"

	"muster/edge-agent/internal/stamp"
	"muster/internal/protocol"
)

// willDelay keeps a short break of the link from looking like an absence. The
// session ends with the connection (expiry 0), and a broker that is strict (MQTT
// 5, section 3.1.3.2.2) then sends the will at once, as ours does; mosquitto waits
// the delay out. It is half the keep-alive, so that a dead terminal shows within
// that either way. The session id in it lets receivers ignore a stale one.
const willDelay = 15 * time.Second

// connectPacket opens a clean session that ends with the connection: retained
// offers and hello bring everything back, and resumed sessions lose, double and
// reorder. Receive Maximum and Maximum Packet Size stay unset, since brokers
// stall or disconnect on them.
func (l *Link) connectPacket() (*paho.Connect, string) {
	sessionID := stamp.ID(time.Now())
	expiry, delay := uint32(0), uint32(willDelay/time.Second)
	presence, will := l.topic(protocol.KindPresence), l.handler.Presence(sessionID, false)
	packet := &paho.Connect{
		ClientID:       l.cfg.Store + "/" + l.cfg.Terminal,
		CleanStart:     true,
		KeepAlive:      uint16(keepAlive / time.Second),
		Properties:     &paho.ConnectProperties{SessionExpiryInterval: &expiry, RequestProblemInfo: true},
		WillMessage:    &paho.WillMessage{QoS: 1, Retain: true, Topic: presence, Payload: will},
		WillProperties: &paho.WillProperties{WillDelayInterval: &delay, User: l.signed(presence, will)},
	}
	if l.cfg.User != "" {
		packet.UsernameFlag, packet.Username = true, l.cfg.User
	}
	if l.cfg.Password != "" {
		packet.PasswordFlag, packet.Password = true, []byte(l.cfg.Password)
	}
	return packet, sessionID
}

// subscribeTries bounds how often a refused SUBSCRIBE is sent again: its
// packet id may collide with one the broker uses itself (reason 0x91).
const subscribeTries = 3

func (l *Link) subscribe(ctx context.Context, client *paho.Client) error {
	request := &paho.Subscribe{}
	if l.cfg.Signer != nil {
		// First, so that the list is known before what its keys signed.
		request.Subscriptions = append(request.Subscriptions, paho.SubscribeOptions{Topic: l.cfg.Topics.Trust(), QoS: 1})
	}
	request.Subscriptions = append(request.Subscriptions,
		paho.SubscribeOptions{Topic: l.topic(protocol.KindOrders), QoS: 1},
		// Retain handling 0: every open offer again on every connection.
		paho.SubscribeOptions{Topic: l.cfg.Topics.Offer(l.cfg.Store, "+"), QoS: 1, RetainHandling: 0})
	var err error
	for range subscribeTries {
		if _, err = client.Subscribe(ctx, request); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("cannot subscribe: %w", err)
	}
	return nil
}

// watchedSession is paho's session state of one connection, with an eye on
// acknowledgements that refuse: messages are sent without waiting for them.
type watchedSession struct {
	session.SessionManager
	log *slog.Logger
}

func newWatchedSession(log *slog.Logger) *watchedSession {
	return &watchedSession{SessionManager: state.NewInMemory(), log: log}
}

// PacketReceived logs a PUBACK that refuses and passes everything on.
func (s *watchedSession) PacketReceived(p *packets.ControlPacket, out chan<- *packets.Publish) error {
	if ack, ok := p.Content.(*packets.Puback); ok && ack.ReasonCode >= 0x80 {
		s.log.Warn("broker refused a message", "reason", fmt.Sprintf("0x%02x", ack.ReasonCode))
	}
	return s.SessionManager.PacketReceived(p, out)
}

// ConnectionLost also closes the session, which no later connection resumes,
// so that whoever waits on it is released.
func (s *watchedSession) ConnectionLost(d *packets.Disconnect) error {
	err := s.SessionManager.ConnectionLost(d)
	if closeErr := s.SessionManager.Close(); err == nil {
		err = closeErr
	}
	return err
}
