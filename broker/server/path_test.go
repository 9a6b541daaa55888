//go:build unix

package server_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"muster/broker/server"
)

// pathTerminals is how many connections the benchmarks hold open.
const pathTerminals = 500

// BenchmarkOrder is the way of an order: a PUBLISH of headquarters at QoS 1 to one
// of many terminals over loopback, and its PUBACK back. The far ends are in the
// same process, and cost a read and a write a message.
func BenchmarkOrder(b *testing.B) {
	s := startForBenchmark(b, server.Options{ManagedPresence: true})
	arrived := make(chan struct{}, 64)
	for n := range pathTerminals {
		go newFar(b, s, n).acknowledge(arrived)
	}
	payload := make([]byte, 512)
	topics := make([]string, pathTerminals)
	for n := range topics {
		topics[n] = fmt.Sprintf("%s/stores/%04d/terminals/pos/orders", root, n)
	}
	n, waiting := 0, 0
	measure(b, func() {
		if err := s.Publish(b.Context(), server.Outgoing{Topic: topics[n%pathTerminals], Payload: payload}); err != nil {
			b.Fatal(err)
		}
		if n++; n%cap(arrived) == 0 {
			for range cap(arrived) {
				<-arrived
			}
		}
		waiting = n % cap(arrived)
	})
	for range waiting {
		<-arrived
	}
}

// BenchmarkAnswer is the way back: a PUBLISH of a terminal at QoS 1 that
// headquarters takes in, and its PUBACK.
func BenchmarkAnswer(b *testing.B) {
	s := startForBenchmark(b, server.Options{ManagedPresence: true,
		Intake: func(context.Context, server.Message) error { return nil }})
	far := make([]*far, pathTerminals)
	answers := make([][]byte, pathTerminals)
	for n := range far {
		far[n] = newFar(b, s, n)
		topic := fmt.Sprintf("%s/stores/%04d/terminals/pos/result", root, n)
		answers[n] = frame(0x32, str(topic), []byte{0, 1, 0}, make([]byte, 512))
	}
	n := 0
	measure(b, func() {
		f := far[n%pathTerminals]
		if _, err := f.conn.Write(answers[n%pathTerminals]); err != nil {
			b.Fatal(err)
		}
		f.next()
		n++
	})
}

// measure runs f again and again, and reports the processor time of it beside the
// time of the clock.
func measure(b *testing.B, f func()) {
	b.ReportAllocs()
	used := processorTime(b)
	for b.Loop() {
		f()
	}
	b.ReportMetric(float64((processorTime(b)-used).Nanoseconds())/float64(b.N), "cpu-ns/op")
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func startForBenchmark(b *testing.B, opts server.Options) *server.Server {
	s, err := server.New(anonymous(), opts)
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Stop(context.WithoutCancel(b.Context())) })
	return s
}

// far is the far end of a terminal's connection; it allocates nothing a message.
type far struct {
	conn net.Conn
	r    *bufio.Reader
	body [2 << 10]byte
	ack  [4]byte
}

// newFar logs the n-th terminal in and subscribes to its orders.
func newFar(b *testing.B, s *server.Server, n int) *far {
	conn, err := net.Dial("tcp", s.Addr("tcp").String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	f := &far{conn: conn, r: bufio.NewReaderSize(conn, 1<<10)}
	name := fmt.Sprintf("%04d/pos", n)
	_, _ = conn.Write(frame(0x10, str("MQTT"), []byte{5, 0x82, 0, 60, 0}, str(name), str(name)))
	f.next()
	orders := fmt.Sprintf("%s/stores/%04d/terminals/pos/orders", root, n)
	_, _ = conn.Write(frame(0x82, []byte{0, 1, 0}, str(orders), []byte{1}))
	f.next()
	return f
}

// next reads a packet; its body is good until the next one.
func (f *far) next() (kind byte, body []byte) {
	kind, err := f.r.ReadByte()
	if err != nil {
		return 0, nil
	}
	size, err := binary.ReadUvarint(f.r)
	if err != nil {
		return 0, nil
	}
	body = f.body[:size]
	if _, err := io.ReadFull(f.r, body); err != nil {
		return 0, nil
	}
	return kind, body
}

// acknowledge answers each PUBLISH until the connection ends.
func (f *far) acknowledge(arrived chan<- struct{}) {
	for {
		kind, body := f.next()
		if kind == 0 {
			return
		}
		if kind>>4 != 3 {
			continue
		}
		topic := int(binary.BigEndian.Uint16(body))
		f.ack = [4]byte{0x40, 2, body[2+topic], body[3+topic]}
		if _, err := f.conn.Write(f.ack[:]); err != nil {
			return
		}
		arrived <- struct{}{}
	}
}
