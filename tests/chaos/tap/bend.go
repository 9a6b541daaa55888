package tap

import (
	"bufio"
	"net"
	"sync"
	"time"

	"github.com/mochi-mqtt/server/v2/packets"
)

// Message is one PUBLISH with QoS 1 on its way. It can be passed on again later,
// over any connection.
type Message struct {
	// Sent is true for what the participant sent, false for what it gets.
	Sent     bool
	Topic    string
	Payload  []byte
	Retained bool

	raw []byte
	id  int // where its packet id stands in raw
}

// Passage is one message that passes, after a time: others may overtake it.
type Passage struct {
	Message
	After time.Duration
}

// Bend says what passes in the place of a message: nothing when it gets lost,
// itself twice, itself later, or another one of the same direction from long ago.
// It is called by one goroutine for each direction of a connection. A message is
// acknowledged when its first passage is; one that gets lost at once, as by a
// broker that loses.
type Bend func(Message) []Passage

// Straight passes a message on as it is.
func Straight(m Message) []Passage { return []Passage{{Message: m}} }

// ownIDs are the packet ids of what was bent; nobody else counts so far.
const ownIDs = 50_000

// lane is one direction of one connection.
type lane struct {
	tap   *Tap
	to    net.Conn
	sent  bool  // by the participant
	back  *lane // the other direction
	turn  chan struct{}
	ended chan struct{}
	held  sync.WaitGroup // messages that wait

	mu     sync.Mutex
	nextID uint16
	owed   map[uint16]uint16 // own packet id: the sender's, which waits for its acknowledgement
}

func (t *Tap) lane(to net.Conn, sent bool) *lane {
	return &lane{tap: t, to: to, sent: sent, turn: make(chan struct{}, 1), ended: make(chan struct{}), nextID: ownIDs, owed: map[uint16]uint16{}}
}

func (l *lane) record(m Message) error {
	if l.sent {
		return l.tap.out.Sent(m.Topic, m.Payload, m.Retained)
	}
	return l.tap.out.Got(m.Topic, m.Payload, m.Retained)
}

// end lets nothing pass any more that still waits.
func (l *lane) end() {
	close(l.ended)
	l.held.Wait()
}

// pump passes packets on, each after it was recorded, until one end is gone.
func (l *lane) pump(from net.Conn) {
	in := bufio.NewReader(from)
	for {
		raw, pk, err := read(in)
		if err != nil || l.pass(raw, pk) != nil {
			return
		}
	}
}

func (l *lane) pass(raw []byte, pk packets.Packet) error {
	switch pk.FixedHeader.Type {
	case packets.Publish:
		m := Message{Sent: l.sent, Topic: pk.TopicName, Payload: pk.Payload, Retained: pk.FixedHeader.Retain,
			raw: raw, id: len(raw) - pk.FixedHeader.Remaining + 2 + len(pk.TopicName)}
		if l.tap.bend != nil && pk.FixedHeader.Qos == 1 {
			return l.bent(m, pk.PacketID)
		}
		return l.write(raw, func() error { return l.record(m) })
	case packets.Subscribe:
		return l.write(raw, func() error {
			for _, filter := range pk.Filters {
				if err := l.tap.out.Subscribed(filter.Filter); err != nil {
					return err
				}
			}
			return nil
		})
	case packets.Puback:
		if l.tap.bend != nil && pk.PacketID >= ownIDs {
			id, owed := l.back.paid(pk.PacketID)
			if !owed {
				return nil // of a copy
			}
			head := len(raw) - pk.FixedHeader.Remaining
			raw[head], raw[head+1] = byte(id>>8), byte(id)
		}
	}
	return l.write(raw, nil)
}

// write passes one packet on after it was recorded.
func (l *lane) write(raw []byte, record func() error) error {
	l.turn <- struct{}{} // no mutex: a bubble's time stands still while one is waited for
	defer func() { <-l.turn }()
	if record != nil {
		l.tap.note(record())
	}
	_, err := l.to.Write(raw)
	return err
}

// bent lets pass what is to pass in the place of a message.
func (l *lane) bent(m Message, id uint16) error {
	if m.Sent { // what leaves was sent, whatever becomes of it
		l.tap.note(l.record(m))
	}
	passages := l.tap.bend(m)
	if len(passages) == 0 {
		return l.back.write([]byte{packets.Puback << 4, 2, byte(id >> 8), byte(id)}, nil)
	}
	for i, p := range passages {
		own := l.own()
		if i == 0 {
			l.mu.Lock()
			l.owed[own] = id
			l.mu.Unlock()
		}
		if p.After > 0 {
			l.held.Go(func() { l.later(p, own) })
		} else if err := l.deliver(p.Message, own); err != nil {
			return err
		}
	}
	return nil
}

// own is the next packet id of the tap.
func (l *lane) own() uint16 {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := l.nextID
	if l.nextID++; l.nextID == 0 {
		l.nextID = ownIDs
	}
	return id
}

// paid returns the sender's id of a message that is acknowledged now.
func (l *lane) paid(own uint16) (id uint16, owed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id, owed = l.owed[own]
	delete(l.owed, own)
	return id, owed
}

func (l *lane) later(p Passage, own uint16) {
	timer := time.NewTimer(p.After)
	defer timer.Stop()
	select {
	case <-timer.C:
		_ = l.deliver(p.Message, own) // the connection's end ends the pump too
	case <-l.ended:
	}
}

func (l *lane) deliver(m Message, own uint16) error {
	raw := append([]byte(nil), m.raw...)
	raw[m.id], raw[m.id+1] = byte(own>>8), byte(own)
	return l.write(raw, func() error {
		if m.Sent {
			return nil
		}
		return l.record(m)
	})
}
