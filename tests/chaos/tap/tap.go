// Package tap is a way to the broker that writes down what goes over it: a TCP
// relay in front of one participant, which records each MQTT 5 message before
// it passes it on.
//
// So what an agent got stands in the history before the agent can act on it, and
// what it sent before anybody can have it. Unless it is told to bend messages
// (Bent), it changes no byte. It speaks no TLS and knows no message of Muster.
package tap

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/mochi-mqtt/server/v2/packets"

	"muster/tests/chaos/history"
)

// maxPacket bounds one packet, in bytes.
const maxPacket = 1 << 20

// Tap is one relay. Failed tells what went wrong with the record.
type Tap struct {
	broker string
	out    *history.Writer
	listen net.Listener // nil: Join brings the connections
	bend   Bend         // nil: everything passes as it is
	all    sync.WaitGroup

	mu     sync.Mutex
	open   map[net.Conn]bool
	closed bool
	failed error
}

// Start relays connections from a new loopback address to the broker's.
func Start(ctx context.Context, broker string, out *history.Writer) (*Tap, error) {
	listen, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("cannot listen for a tap: %w", err)
	}
	t := &Tap{broker: broker, out: out, listen: listen, open: map[net.Conn]bool{}}
	t.all.Go(func() { t.accept(context.WithoutCancel(ctx)) })
	return t, nil
}

// Bent is a tap without a listener: Join brings the connections, and bend says
// what becomes of each message.
func Bent(out *history.Writer, bend Bend) *Tap {
	return &Tap{out: out, bend: bend, open: map[net.Conn]bool{}}
}

// Join relays between the participant's connection and the broker's, and closes
// both when either ends.
func (t *Tap) Join(near, far net.Conn) {
	t.all.Go(func() {
		defer near.Close()
		defer far.Close()
		t.join(near, far)
	})
}

// Addr is where the participant connects.
func (t *Tap) Addr() string { return t.listen.Addr().String() }

// Failed returns the first failure to record; the history then has a hole.
func (t *Tap) Failed() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

// Cut ends the connections that are open now; new ones are taken.
func (t *Tap) Cut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for conn := range t.open {
		conn.Close()
	}
}

// Close ends the relay and waits for it. It may be called twice.
func (t *Tap) Close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	if t.listen != nil {
		t.listen.Close()
	}
	t.Cut()
	t.all.Wait()
}

func (t *Tap) accept(ctx context.Context) {
	for {
		near, err := t.listen.Accept()
		if err != nil {
			return
		}
		t.all.Go(func() { t.relay(ctx, near) })
	}
}

func (t *Tap) relay(ctx context.Context, near net.Conn) {
	defer near.Close()
	far, err := (&net.Dialer{}).DialContext(ctx, "tcp", t.broker)
	if err != nil {
		return // the participant sees a connection that ends, as without a broker
	}
	defer far.Close()
	t.join(near, far)
}

func (t *Tap) join(near, far net.Conn) {
	if !t.holds(near, far) {
		return
	}
	defer t.drop(near, far)
	t.note(t.out.Connected(true))
	var both sync.WaitGroup
	up, down := t.lane(far, true), t.lane(near, false)
	up.back, down.back = down, up
	for _, way := range []struct {
		lane *lane
		from net.Conn
	}{{up, near}, {down, far}} {
		both.Go(func() {
			way.lane.pump(way.from)
			near.Close()
			far.Close()
			way.lane.end()
		})
	}
	both.Wait()
	t.note(t.out.Connected(false))
}

func (t *Tap) holds(conns ...net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, conn := range conns {
		t.open[conn] = true
	}
	return !t.closed
}

func (t *Tap) drop(conns ...net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, conn := range conns {
		delete(t.open, conn)
	}
}

func (t *Tap) note(err error) {
	if err == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed = errors.Join(t.failed, err)
}

// read takes one packet as its bytes, and apart when it is one to record.
func read(in *bufio.Reader) (raw []byte, pk packets.Packet, err error) {
	pk.ProtocolVersion = 5
	first, err := in.ReadByte()
	if err != nil {
		return nil, pk, err
	}
	if err := pk.FixedHeader.Decode(first); err != nil {
		return nil, pk, err
	}
	raw = append(raw, first)
	length, shift := 0, 0
	for more := true; more; shift += 7 {
		b, err := in.ReadByte()
		if err != nil || shift > 21 {
			return nil, pk, errors.Join(err, errors.New("a packet without a length"))
		}
		raw = append(raw, b)
		length |= int(b&0x7f) << shift
		more = b&0x80 != 0
	}
	if length > maxPacket {
		return nil, pk, fmt.Errorf("a packet of %d bytes", length)
	}
	pk.FixedHeader.Remaining = length
	head := len(raw)
	raw = append(raw, make([]byte, length)...)
	if _, err := io.ReadFull(in, raw[head:]); err != nil {
		return nil, pk, err
	}
	return raw, pk, decode(&pk, append([]byte{}, raw[head:]...))
}

func decode(pk *packets.Packet, body []byte) error {
	switch pk.FixedHeader.Type {
	case packets.Publish:
		return pk.PublishDecode(body)
	case packets.Subscribe:
		return pk.SubscribeDecode(body)
	case packets.Puback:
		return pk.PubackDecode(body)
	}
	return nil
}
