package attack_test

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"muster/internal/protocol"
	"muster/tests/programs"
)

// secure opens a TLS connection without saying anything in it.
func (s *site) secure() net.Conn {
	s.t.Helper()
	conn, err := tls.Dial("tcp", s.broker, &tls.Config{RootCAs: s.authority, MinVersion: tls.VersionTLS13})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// closes waits until the server ends a connection and returns how long it took.
func closes(t *testing.T, conn net.Conn) time.Duration {
	t.Helper()
	began := time.Now()
	if err := conn.SetReadDeadline(began.Add(programs.Patience)); err != nil {
		t.Fatal(err)
	}
	_, err := io.Copy(io.Discard, conn)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatal("the server keeps the connection")
	}
	return time.Since(began)
}

// serves fails the test unless a technician is still answered.
func (s *site) serves() {
	s.t.Helper()
	began := time.Now()
	if reply := s.ask("operator", "jobs", ""); !reply.OK {
		s.t.Errorf("jobs: %+v", reply)
	}
	if took := time.Since(began); took > 5*time.Second {
		s.t.Errorf("an honest client waited %v", took)
	}
}

func TestS13RequestsOfOneUserAreMetered(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{}, "A")
	c := s.enter(as("technician"))
	box := "muster/v1/rep/technician/flood"
	c.subscribe(box)
	for n := range 1000 {
		if _, err := c.publish(message{topic: "muster/v1/req/technician/run", answerTo: box,
			payload: fmt.Sprintf(`{"job":"probe","stores":["A"],"requestId":"flood-%d"}`, n)}); err != nil {
			t.Fatal(err)
		}
	}
	programs.Eventually(t, "1,000 answers", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.messages) >= 1000 })
	codes := map[protocol.Code]int{}
	for _, m := range c.messages {
		var reply protocol.Reply
		if err := protocol.Decode(m.Payload, protocol.MaxPayloadBytes, &reply); err != nil {
			t.Fatal(err)
		}
		codes[reply.Code]++
	}
	if codes[""] > 100 || codes[""] == 0 || codes[protocol.CodeRateLimited] < 900 {
		t.Errorf("answers by code: %v", codes)
	}
	s.serves()
}

func TestS14HugeHeaderBeforeConnectReservesNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{}, "A")
	s.serves()
	before := s.hq.Status("VmRSS")
	for range 50 {
		conn := s.secure()
		if _, err := conn.Write([]byte{0x10, 0xff, 0xff, 0xff, 0x7f}); err != nil { // CONNECT of 256 MiB
			t.Fatal(err)
		}
		if took := closes(t, conn); took > 5*time.Second {
			t.Errorf("it was kept for %v", took)
		}
	}
	if grew := s.hq.Status("VmRSS") - before; grew > 64<<10 {
		t.Errorf("memory grew by %d KiB", grew)
	}
	s.serves()
}

func TestS15SilentConnectionsAreClosedInTime(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{limits: "connect_deadline: 2s"}, "A")
	connect := []byte("\x10\x0e\x00\x04MQTT\x05\x02\x00\x1e\x00\x00\x01a")
	for name, open := range map[string]func() net.Conn{
		"no TLS":       func() net.Conn { return wire(t, s.broker) },
		"half a hello": func() net.Conn { c := wire(t, s.broker); _, _ = c.Write([]byte{0x16, 3, 1, 2, 0}); return c },
		"no CONNECT":   s.secure,
		"half CONNECT": func() net.Conn { c := s.secure(); _, _ = c.Write(connect[:7]); return c },
		"a byte at a time": func() net.Conn {
			c := s.secure()
			go func() {
				for _, b := range connect {
					if _, err := c.Write([]byte{b}); err != nil {
						return
					}
					time.Sleep(time.Second) // slower than the deadline as a whole
				}
			}()
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if took := closes(t, open()); took > 6*time.Second {
				t.Errorf("it was kept for %v", took)
			}
		})
	}
}

func TestS16FloodOfConnectionsLeavesHeadquartersServing(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{limits: "max_connections: 200, connect_deadline: 30s, flapping_connects: 1000"}, "A")
	a := s.enter(s.steal("A", "pos1", s.enrol("A", "pos1")).login())
	honest := s.enter(as("operator"))
	before := s.hq.Status("VmRSS")
	for range 1500 {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.broker)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	for n := range 20 {
		began := time.Now()
		if reply := honest.ask("operator", "jobs", fmt.Sprintf(`{"n":%d}`, n)); !reply.OK || time.Since(began) > 2*time.Second {
			t.Fatalf("after %v: %+v", time.Since(began), reply)
		}
		if code := a.subscribe("muster/v1/stores/A/tasks/+"); code >= 0x80 {
			t.Fatalf("the terminal is refused: 0x%02x", code)
		}
	}
	if grew := s.hq.Status("VmRSS") - before; grew > 100<<10 {
		t.Errorf("memory grew by %d KiB", grew)
	}
}

func TestS17SubscriptionsAreBounded(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{}, "A")
	before := s.hq.Status("VmRSS")
	granted := 0
	for c := s.enter(as("technician")); granted <= 100_000; granted++ {
		if code := c.trySubscribe(fmt.Sprintf("muster/v1/runs/r%d/state", granted)); code >= 0x80 {
			break
		}
	}
	if granted == 0 || granted > 2_000 {
		t.Errorf("%d subscriptions were granted to one client", granted)
	}
	if grew := s.hq.Status("VmRSS") - before; grew > 64<<10 {
		t.Errorf("memory grew by %d KiB", grew)
	}
	s.serves()
}

func TestS38TruncatedSubscribeEndsItsConnectionAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{}, "A")
	honest := s.enter(as("operator"))
	for _, packet := range [][]byte{
		{0x82, 0x00}, {0x82, 0x02, 0x00, 0x01}, {0x82, 0x03, 0x00, 0x01, 0x00}, {0x82, 0x05, 0x00, 0x01, 0x00, 0x00, 0x05},
		{0x82, 0x07, 0x00, 0x01, 0x00, 0x00, 0x05, 'a', 'b'}, {0x82, 0x08, 0x00, 0x01, 0x05, 0x0b, 0xff, 0xff, 0xff, 0x7f},
		{0xa2, 0x02, 0x00, 0x01}, {0xa2, 0x05, 0x00, 0x01, 0x00, 0x00, 0x09}, {0x32, 0x02, 0x00, 0x05}, {0x3c, 0x05, 0, 1, 'a', 0, 0},
	} {
		conn := s.secure()
		if _, err := conn.Write(s.connect("technician")); err != nil {
			t.Fatal(err)
		}
		ack := make([]byte, 4)
		if _, err := io.ReadFull(conn, ack); err != nil || ack[0] != 0x20 || ack[3] != 0 {
			t.Fatalf("CONNACK %x, %v", ack, err)
		}
		if _, err := conn.Write(packet); err != nil {
			t.Fatal(err)
		}
		closes(t, conn)
		if reply := honest.ask("operator", "jobs", ""); !reply.OK {
			t.Fatalf("after %x: %+v", packet, reply)
		}
	}
}

// connect is the CONNECT packet of one of the people (MQTT 5, 3.1).
func (s *site) connect(name string) []byte {
	var body bytes.Buffer
	text := func(t string) {
		_ = binary.Write(&body, binary.BigEndian, uint16(len(t))) // a buffer takes everything
		body.WriteString(t)
	}
	text("MQTT")
	body.Write([]byte{5, 0xc2, 0, 30, 0}) // version, flags, keep alive, no properties
	text("raw-" + name)
	text(name)
	text(passwords()[name])
	return append([]byte{0x10, byte(body.Len())}, body.Bytes()...)
}

func TestS39KeepAliveIsClamped(t *testing.T) {
	t.Parallel()
	s := newSite(t, settings{}, "A")
	for asked, want := range map[uint16]uint16{43691: 300, 65535: 300, 301: 300, 1: 15, 14: 15} {
		who := as("technician")
		who.keepAlive, who.clientID = asked, fmt.Sprintf("laptop-%d", asked)
		c := s.enter(who)
		if told := c.connack.Properties.ServerKeepAlive; told == nil || *told != want {
			t.Errorf("asked %d, told %v, want %d", asked, told, want)
		}
	}
	who := as("technician")
	who.keepAlive = 60
	if told := s.enter(who).connack.Properties.ServerKeepAlive; told != nil && *told != 60 {
		t.Errorf("60 s were made %d", *told)
	}
}
