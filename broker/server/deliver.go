package server

import (
	"bytes"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"muster/broker/server/route"
)

// spread keeps a message if it is to be retained, and sends it to whoever
// subscribed.
func (s *Server) spread(pk packets.Packet, h haste) {
	pk.Created = time.Now().Unix()
	if pk.Properties.MessageExpiryInterval > 0 {
		pk.Expiry = pk.Created + int64(pk.Properties.MessageExpiryInterval)
	}
	if pk.FixedHeader.Retain {
		s.keep(pk)
	}
	atomic.AddInt64(&s.broker.Info.MessagesReceived, 1)
	atomic.AddInt64(&s.broker.Info.PacketsReceived, 1)
	s.route(pk, h)
}

// haste is how a message leaves.
type haste int

const (
	atOnce haste = iota
	soon         // with others to the same client, within some milliseconds
)

// route sends a message to whoever subscribed. It goes past the library's queues:
// an order has one reader, for whom the library would copy it three times and wake
// a goroutine. Nothing here waits for a client.
func (s *Server) route(pk packets.Packet, h haste) {
	var room [4]route.Reader
	for _, r := range s.readers.Readers(pk.TopicName, room[:0]) {
		cl, ok := s.broker.Clients.Get(r.Client)
		if !ok || r.NoLocal && pk.Origin == r.Client {
			continue
		}
		if panicked, err := recovered(func() error { s.deliver(cl, r, pk, h); return nil }); panicked {
			s.log.Error("sending a message panicked", "error", err, "client_id", r.Client, "topic", pk.TopicName)
		}
	}
}

// deliver sends a message to one subscriber, or keeps it until that has room. A
// client that is away finds it in its session.
func (s *Server) deliver(cl *mqtt.Client, r route.Reader, pk packets.Packet, h haste) {
	p := peerOf(cl)
	if p == nil || !s.judge.MayRead(p.identity, pk.TopicName) {
		return
	}
	pk = addressed(cl, r, pk)
	switch over := cl.Closed(); {
	case over && !persistent(cl):
		return
	case !over && !p.ready():
		s.wait(p, pk)
		return
	}
	if cl.State.Inflight.Len() >= int(s.broker.Options.Capabilities.MaximumInflight) {
		atomic.AddInt64(&s.broker.Info.InflightDropped, 1)
		s.lost(p, pk, "the reader acknowledges nothing")
		return
	}
	_ = s.send(p, pk, h) // it is over, then
}

// ready reports whether a message can be sent now, behind all that were sent
// before.
func (p *peer) ready() bool {
	quota := p.client.Properties.Props.ReceiveMaximum
	return !p.backlog.busy() && p.HasRoom() && (quota == 0 || p.client.State.Inflight.Len() < int(quota))
}

// window is how many messages the client may have unacknowledged before those that
// can wait do.
func (p *peer) window() int {
	if quota := p.client.Properties.Props.ReceiveMaximum; quota > 0 {
		return min(int(quota), replayWindow)
	}
	return replayWindow
}

// addressed is a message as a client's subscription wants it. It shares with the
// original what is in it.
func addressed(cl *mqtt.Client, r route.Reader, pk packets.Packet) packets.Packet {
	pk.FixedHeader.Qos = min(pk.FixedHeader.Qos, r.QoS)
	pk.FixedHeader.Retain = pk.FixedHeader.Retain && cl.Properties.ProtocolVersion == 5 && r.RetainAsPublished
	pk.FixedHeader.Dup = false
	pk.PacketID = 0
	pk.Properties.SubscriptionIdentifier = r.Identifiers
	return pk
}

// send writes a message to a client, past the library's queue. One that is larger
// than the client takes is as good as sent (MQTT 5, 3.1.2.11.4).
func (s *Server) send(p *peer, pk packets.Packet, h haste) error {
	if pk.FixedHeader.Qos > 0 {
		id, err := p.client.NextPacketID()
		if err != nil {
			return err
		}
		pk.PacketID = uint16(id)
		pk.Created = time.Now().Unix()
		if p.client.State.Inflight.Set(pk) {
			atomic.AddInt64(&s.broker.Info.Inflight, 1)
		}
	}
	err := s.write(p, pk, h)
	if errors.Is(err, packets.ErrPacketTooLarge) {
		s.tooLarge(p, pk)
		return nil
	}
	return err
}

// write encodes a PUBLISH and sends it.
func (s *Server) write(p *peer, pk packets.Packet, h haste) error {
	if p.client.Closed() {
		return mqtt.ErrConnectionClosed
	}
	buf, ok := encodings.Get().(*bytes.Buffer)
	if !ok {
		buf = new(bytes.Buffer)
	}
	defer giveBack(buf)
	if err := encode(p.client, pk, buf); err != nil {
		return err
	}
	var n int
	var err error
	if h == soon {
		n, err = p.WriteSoon(buf.Bytes(), &s.tour)
	} else {
		n, err = p.Write(buf.Bytes())
	}
	if err != nil {
		return err
	}
	info := s.broker.Info
	atomic.AddInt64(&info.BytesSent, int64(n))
	atomic.AddInt64(&info.PacketsSent, 1)
	atomic.AddInt64(&info.MessagesSent, 1)
	return nil
}

// encodings hold a packet until it is written.
var encodings sync.Pool

func giveBack(buf *bytes.Buffer) {
	const most = 64 << 10 // larger ones are rare
	if buf.Cap() <= most {
		buf.Reset()
		encodings.Put(buf)
	}
}

// encode appends a PUBLISH as a client is to be sent it, or fails with
// ErrPacketTooLarge.
func encode(cl *mqtt.Client, pk packets.Packet, buf *bytes.Buffer) error {
	about := &cl.Properties.Props
	pk.ProtocolVersion = cl.Properties.ProtocolVersion
	pk.Mods.AllowResponseInfo = true
	pk.Mods.DisallowProblemInfo = about.RequestProblemInfoFlag && about.RequestProblemInfo == 0
	if pk.Expiry > 0 {
		pk.Properties.MessageExpiryInterval = uint32(max(1, pk.Expiry-time.Now().Unix()))
	}
	pk.Properties.TopicAlias, pk.Properties.TopicAliasFlag = 0, false
	if about.TopicAliasMaximum > 0 && about.MaximumPacketSize == 0 { // what is not sent teaches no alias
		alias(cl, &pk)
	}
	if !publishInto(buf, &pk) {
		return packets.ErrProtocolViolationNoPacketID // MQTT 5, 2.2.1
	}
	if most := about.MaximumPacketSize; most > 0 && uint32(buf.Len()) > most {
		return packets.ErrPacketTooLarge
	}
	return nil
}

// alias puts a number in the place of a topic that the client knows. Only under
// Options.Interop does a client get as far.
func alias(cl *mqtt.Client, pk *packets.Packet) {
	number, known := cl.State.TopicAliases.Outbound.Set(pk.TopicName)
	if pk.Properties.TopicAlias, pk.Properties.TopicAliasFlag = number, number > 0; number > 0 && known {
		pk.TopicName = ""
	}
}

// acknowledge sends the PUBACK of a message that headquarters took in. The library
// would note it as in flight, build it, and forget it again. It waits for company, as
// headquarters' answer does.
func (s *Server) acknowledge(p *peer, id uint16) {
	p.WaitRoom()
	if n, err := p.WriteSoon([]byte{packets.Puback << 4, 2, byte(id >> 8), byte(id)}, &s.tour); err == nil {
		atomic.AddInt64(&s.broker.Info.BytesSent, int64(n))
		atomic.AddInt64(&s.broker.Info.PacketsSent, 1)
	}
}

// outsize drops what is in flight to a client and larger than it takes: the library
// would end a resumed session over it.
func (s *Server) outsize(p *peer) {
	if p.client.Properties.Props.MaximumPacketSize == 0 {
		return
	}
	for _, pk := range p.client.State.Inflight.GetAll(false) {
		if pk.FixedHeader.Type == packets.Publish && errors.Is(encode(p.client, pk, new(bytes.Buffer)), packets.ErrPacketTooLarge) {
			s.tooLarge(p, pk)
		}
	}
}

func (s *Server) tooLarge(p *peer, pk packets.Packet) {
	if pk.PacketID > 0 && p.client.State.Inflight.Delete(pk.PacketID) {
		atomic.AddInt64(&s.broker.Info.Inflight, -1)
		p.client.State.Inflight.IncreaseSendQuota()
	}
	s.lost(p, pk, "the message is larger than its reader takes (Maximum Packet Size)")
}

// lost says, once a minute of each client and reason, that messages do not reach
// it.
func (s *Server) lost(p *peer, pk packets.Packet, why string) {
	if left, due := s.spare.Due(p.identity.Name+" "+why, time.Now()); due {
		s.log.Warn("a message does not reach its reader", "why", why, "user", p.identity.Name, "client_id", p.client.ID,
			"topic", pk.TopicName, "bytes", len(pk.Payload), "left_out", left)
	}
}
