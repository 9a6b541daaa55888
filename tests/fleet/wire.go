package fleet

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
)

// readBuffer and keepAlive keep a connection small and quiet: thousands of
// them live in one process.
const (
	readBuffer = 2 << 10
	keepAlive  = 120
)

// Message is what a Conn receives.
type Message struct {
	Topic    string
	Payload  []byte
	Retained bool
}

// Conn is a lean MQTT 5 connection: clean start, QoS 1 both ways, one reading
// goroutine. Publish does not wait for its acknowledgement; Acked counts them.
type Conn struct {
	net     net.Conn
	receive func(Message)

	mu     sync.Mutex
	out    bytes.Buffer
	nextID uint16
	acks   map[uint16]chan packets.Packet
	done   chan struct{}
}

// Login is how a Conn introduces itself.
type Login struct {
	User     string
	ClientID string // "" means User
	Password string
	Will     *Outgoing // nil: none
}

// Dial connects and calls receive, from one goroutine, for every message.
func Dial(ctx context.Context, addr string, who Login, receive func(Message)) (*Conn, error) {
	var dialer net.Dialer
	raw, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("cannot dial: %w", err)
	}
	return Over(ctx, raw, who, receive)
}

// Over is Dial over a connection that is there, which it closes when it fails.
func Over(ctx context.Context, raw net.Conn, who Login, receive func(Message)) (*Conn, error) {
	c := &Conn{net: raw, receive: receive, acks: map[uint16]chan packets.Packet{}, done: make(chan struct{})}
	if err := c.connect(ctx, who); err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	return c, nil
}

func (c *Conn) connect(ctx context.Context, who Login) error {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(30 * time.Second)
	}
	if err := c.net.SetDeadline(deadline); err != nil {
		return fmt.Errorf("cannot set a deadline: %w", err)
	}
	pk := packets.Packet{
		ProtocolVersion: 5,
		FixedHeader:     packets.FixedHeader{Type: packets.Connect},
		Connect: packets.ConnectParams{
			ProtocolName: []byte("MQTT"), Clean: true, Keepalive: keepAlive, ClientIdentifier: cmp.Or(who.ClientID, who.User),
			UsernameFlag: true, Username: []byte(who.User),
			PasswordFlag: who.Password != "", Password: []byte(who.Password),
		},
	}
	if will := who.Will; will != nil {
		pk.Connect.WillFlag, pk.Connect.WillQos, pk.Connect.WillRetain = true, 1, will.Retain
		pk.Connect.WillTopic, pk.Connect.WillPayload = will.Topic, will.Payload
	}
	if err := c.write(pk.ConnectEncode); err != nil {
		return err
	}
	r := bufio.NewReaderSize(c.net, readBuffer)
	ack, err := readPacket(r)
	if err != nil {
		return fmt.Errorf("cannot read the CONNACK: %w", err)
	}
	if ack.FixedHeader.Type != packets.Connack || ack.ReasonCode != 0 {
		return fmt.Errorf("the broker refused the connection with code 0x%02x", ack.ReasonCode)
	}
	if err := c.net.SetDeadline(time.Time{}); err != nil {
		return fmt.Errorf("cannot clear the deadline: %w", err)
	}
	go c.read(r)
	return nil
}

// Subscribe subscribes with QoS 1 and waits for the answer.
func (c *Conn) Subscribe(ctx context.Context, filters ...string) error {
	pk := packets.Packet{ProtocolVersion: 5, FixedHeader: packets.FixedHeader{Type: packets.Subscribe, Qos: 1}}
	for _, f := range filters {
		pk.Filters = append(pk.Filters, packets.Subscription{Filter: f, Qos: 1})
	}
	answer := make(chan packets.Packet, 1)
	c.mu.Lock()
	pk.PacketID = c.packetID()
	c.acks[pk.PacketID] = answer
	c.mu.Unlock()
	if err := c.write(pk.SubscribeEncode); err != nil {
		return err
	}
	select {
	case ack := <-answer:
		for i, code := range ack.ReasonCodes {
			if code >= 0x80 {
				return fmt.Errorf("the broker refused the subscription to %s with code 0x%02x", filters[i], code)
			}
		}
		return nil
	case <-c.done:
		return errors.New("the connection ended before the SUBACK")
	case <-ctx.Done():
		return fmt.Errorf("no SUBACK: %w", ctx.Err())
	}
}

// Publish sends one message with QoS 1 and does not wait.
func (c *Conn) Publish(topic string, payload []byte) error {
	return c.Send(Outgoing{Topic: topic, Payload: payload})
}

// Outgoing is a message with everything a technician's tool may set.
type Outgoing struct {
	Topic           string
	Payload         []byte
	Retain          bool
	ResponseTopic   string
	CorrelationData []byte
}

// Send is Publish with the properties of a request.
func (c *Conn) Send(m Outgoing) error {
	c.mu.Lock()
	id := c.packetID()
	c.mu.Unlock()
	pk := packets.Packet{ProtocolVersion: 5, TopicName: m.Topic, Payload: m.Payload, PacketID: id,
		FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: 1, Retain: m.Retain},
		Properties:  packets.Properties{ResponseTopic: m.ResponseTopic, CorrelationData: m.CorrelationData},
		Mods:        packets.Mods{AllowResponseInfo: true}}
	return c.write(pk.PublishEncode)
}

// Close cuts the connection without a DISCONNECT and waits for the reader.
func (c *Conn) Close() {
	c.net.Close()
	<-c.done
}

// Deafen stops reading and leaves the connection open, as a network does that
// swallows everything. The reader ends; Close must still be called.
func (c *Conn) Deafen() {
	_ = c.net.SetReadDeadline(time.Unix(1, 0)) // fails when it has ended already
	<-c.done
}

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// packetID returns the next id that is not awaited; c.mu is held.
func (c *Conn) packetID() uint16 {
	for {
		c.nextID++
		if _, taken := c.acks[c.nextID]; c.nextID != 0 && !taken {
			return c.nextID
		}
	}
}

func (c *Conn) write(encode func(*bytes.Buffer) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.Reset()
	if err := encode(&c.out); err != nil {
		return fmt.Errorf("cannot encode: %w", err)
	}
	if _, err := c.net.Write(c.out.Bytes()); err != nil {
		return fmt.Errorf("cannot write: %w", err)
	}
	return nil
}

func (c *Conn) read(r *bufio.Reader) {
	defer close(c.done)
	ping := time.AfterFunc(keepAlive/2*time.Second, c.ping)
	defer ping.Stop()
	for {
		pk, err := readPacket(r)
		if err != nil {
			return
		}
		switch pk.FixedHeader.Type {
		case packets.Publish:
			c.receive(Message{Topic: pk.TopicName, Payload: pk.Payload, Retained: pk.FixedHeader.Retain})
			if pk.FixedHeader.Qos == 1 {
				ack := packets.Packet{ProtocolVersion: 5, PacketID: pk.PacketID, FixedHeader: packets.FixedHeader{Type: packets.Puback}}
				if c.write(ack.PubackEncode) != nil {
					return
				}
			}
		case packets.Suback:
			c.mu.Lock()
			answer := c.acks[pk.PacketID]
			delete(c.acks, pk.PacketID)
			c.mu.Unlock()
			if answer != nil {
				answer <- pk
			}
		case packets.Pingresp:
			ping.Reset(keepAlive / 2 * time.Second)
		}
	}
}

func (c *Conn) ping() {
	pk := packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Pingreq}}
	_ = c.write(pk.PingreqEncode) // a dead connection ends the reader
}

func readPacket(r *bufio.Reader) (packets.Packet, error) {
	pk := packets.Packet{ProtocolVersion: 5}
	first, err := r.ReadByte()
	if err != nil {
		return pk, err
	}
	if err := pk.FixedHeader.Decode(first); err != nil {
		return pk, err
	}
	if pk.FixedHeader.Remaining, _, err = packets.DecodeLength(r); err != nil {
		return pk, err
	}
	body := make([]byte, pk.FixedHeader.Remaining)
	if _, err := io.ReadFull(r, body); err != nil {
		return pk, err
	}
	switch pk.FixedHeader.Type {
	case packets.Connack:
		err = pk.ConnackDecode(body)
	case packets.Publish:
		err = pk.PublishDecode(body)
	case packets.Suback:
		err = pk.SubackDecode(body)
	case packets.Puback:
		err = pk.PubackDecode(body)
	}
	return pk, err
}
