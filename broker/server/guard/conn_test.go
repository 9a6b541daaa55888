package guard_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"muster/broker/server/guard"
)

func limits() guard.Limits {
	return guard.Limits{
		ConnectDeadline: 5 * time.Second, WriteDeadline: 5 * time.Second,
		MaxControlBytes: 1 << 10, MaxPacketBytes: 1 << 20, WriteBuffer: 64 << 10,
	}
}

// pair returns a guarded connection and its far end, over real TCP.
func pair(t *testing.T, l guard.Limits) (*guard.Conn, net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	far, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	near, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c := guard.NewConn(near, l)
	t.Cleanup(func() { _ = c.Close(); _ = far.Close() })
	return c, far
}

func TestReadPassesWholePacketsUnchanged(t *testing.T) {
	c, far := pair(t, limits())
	big := append([]byte{0x30, 0xff, 0xff, 0x03}, make([]byte, 65_535)...)
	copy(big[4:], text("topic"))
	want := join(connect5("x"), packet(0xc0), big, packet(0xe0))
	go func() {
		for chunk := want; len(chunk) > 0; chunk = chunk[min(7, len(chunk)):] {
			_, _ = far.Write(chunk[:min(7, len(chunk))])
		}
		_ = far.Close()
	}()
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
	}
	if n := c.ReadBuffer(); n > 0 {
		t.Errorf("an idle connection keeps %d bytes", n)
	}
}

func TestHugeHeaderBeforeConnectIsRefusedUnallocated(t *testing.T) {
	c, far := pair(t, limits())
	if _, err := far.Write([]byte{0x10, 0xff, 0xff, 0xff, 0x7f}); err != nil { // 256 MiB to come
		t.Fatal(err)
	}
	var v *guard.Violation
	if _, err := c.Read(make([]byte, 16)); !errors.As(err, &v) || v.Code != 0x95 {
		t.Errorf("got %v", err)
	}
	if n := c.ReadBuffer(); n > 4<<10 {
		t.Errorf("%d bytes were reserved", n)
	}
}

func TestPromisedBytesAreNotReserved(t *testing.T) {
	c, far := pair(t, limits())
	if _, err := far.Write(append(connect5("x"), 0x30, 0x80, 0x80, 0x3f)); err != nil { // 1 MiB to come
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1<<10)); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, err := c.Read(make([]byte, 16)); err == nil {
		t.Fatal("half a packet was passed on")
	}
	if n := c.ReadBuffer(); n > 512 {
		t.Errorf("%d bytes were reserved for a promise", n)
	}
}

func TestClientOfVersion5IsToldWhy(t *testing.T) {
	for code, bad := range map[byte][]byte{
		0x81: packet(0x82, 0, 1),
		0x82: packet(0x20, 0, 0, 0),
		0x95: {0x30, 0xff, 0xff, 0xff, 0x7f},
	} {
		c, far := pair(t, limits())
		if _, err := far.Write(join(connect5("x"), bad)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(c); err == nil {
			t.Errorf("0x%02x: no error", code)
		}
		_ = c.Close()
		got, err := io.ReadAll(far)
		if err != nil || !bytes.Equal(got, []byte{0xe0, 1, code}) {
			t.Errorf("0x%02x: far end got % x, %v", code, got, err)
		}
	}
}

func TestWriteNeverWaitsAndStuckReaderIsClosed(t *testing.T) {
	l := limits()
	l.WriteDeadline = 200 * time.Millisecond
	c, _ := pair(t, l)
	begin := time.Now()
	block := make([]byte, 64<<10)
	var err error
	for range 1_000 { // far more than the sockets hold
		if _, err = c.Write(block); err != nil {
			break
		}
	}
	if !errors.Is(err, guard.ErrSlowReader) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("writing waited %v for a peer that does not read", took)
	}
	select {
	case <-c.Done():
	case <-time.After(5 * time.Second):
		t.Fatal("still open")
	}
	if !errors.Is(c.Cause(), guard.ErrSlowReader) {
		t.Errorf("cause %v", c.Cause())
	}
}

func TestStuckReaderIsClosedAtTheWriteDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limits()
		l.WriteDeadline = 10 * time.Second
		near, far := net.Pipe() // holds nothing: every byte waits for its reader
		defer far.Close()
		c := guard.NewConn(near, l)
		begin := time.Now()
		for range 5 {
			if _, err := c.Write(make([]byte, 64<<10)); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("writing waited %v", took)
		}
		c.WaitRoom()
		<-c.Done()
		if took := time.Since(begin); took != l.WriteDeadline {
			t.Errorf("closed after %v, not %v", took, l.WriteDeadline)
		}
		if c.Cause() == nil {
			t.Error("no cause")
		}
	})
}

func TestSlowReaderThatMakesProgressIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limits()
		l.WriteDeadline = 10 * time.Second
		near, far := net.Pipe()
		defer far.Close()
		c := guard.NewConn(near, l)
		const chunks = 20
		go func() {
			for range chunks {
				_, _ = c.Write(make([]byte, 16<<10))
				c.WaitRoom()
			}
		}()
		for n := range chunks {
			time.Sleep(8 * time.Second)
			if _, err := io.ReadFull(far, make([]byte, 16<<10)); err != nil {
				t.Fatalf("cut off after %d chunks: %v (cause %v)", n, err, c.Cause())
			}
		}
		_ = c.Close()
		<-c.Done()
	})
}

func TestCloseLetsQueuedBytesLeave(t *testing.T) {
	c, far := pair(t, limits())
	want := bytes.Repeat([]byte("goodbye "), 4_000)
	if _, err := c.Write(want); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("read from a closed connection")
	}
	if _, err := c.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write after close: %v", err)
	}
	got, err := io.ReadAll(far)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d of %d bytes left, %v", len(got), len(want), err)
	}
	<-c.Done()
}

// flaky fails like a process without file descriptors before each connection.
type flaky struct {
	net.Listener
	fails atomic.Int32
}

func (f *flaky) Accept() (net.Conn, error) {
	if f.fails.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return f.Listener.Accept()
}

func TestAcceptErrorsAreWaitedOut(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &flaky{Listener: ln}
	f.fails.Store(3)
	a := guard.NewAcceptor(f, guard.NewCaps(0, "", 0), slog.New(slog.DiscardHandler))
	defer a.Close()
	far, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	near, err := a.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = near.Close()
	_ = a.Close()
	if _, err := a.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after close: %v", err)
	}
}

func TestTotalCapRefusesAndFrees(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	a := guard.NewAcceptor(ln, guard.NewCaps(1, "limits.max_connections", 0), slog.New(slog.NewTextHandler(&log, nil)))
	defer a.Close()
	accepted := make(chan net.Conn)
	go func() {
		for {
			c, err := a.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- c
		}
	}()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	dial()
	first := <-accepted
	for range 20 {
		second := dial()
		_ = second.SetReadDeadline(time.Now().Add(5 * time.Second))
		if _, err := second.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("over the cap: %v", err)
		}
	}
	_ = first.Close()
	_ = first.Close() // counts once
	dial()
	_ = (<-accepted).Close()
	_ = a.Close()
	<-accepted // what is logged is complete
	said := log.String()
	if strings.Count(said, "\n") != 1 || !strings.Contains(said, "level=WARN") ||
		!strings.Contains(said, "setting=limits.max_connections cap=1 remote=127.0.0.1:") || !strings.Contains(said, "left_out=0") {
		t.Errorf("of twenty refusals the log says %q", said)
	}
}

func TestCapPerAddress(t *testing.T) {
	caps := guard.NewCaps(0, "", 2)
	one, other, loop := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("127.0.0.1")
	for _, step := range []struct {
		addr netip.Addr
		want bool
	}{{one, true}, {one, true}, {one, false}, {other, true}, {loop, true}, {loop, true}, {loop, true}} {
		if got := caps.Enter(step.addr); got != step.want {
			t.Errorf("%v: %v", step.addr, got)
		}
	}
	caps.Leave(one)
	if !caps.Enter(one) {
		t.Error("a place was not given back")
	}
}
