//go:build !race

// The race detector has memory of its own.

package server_test

import (
	"context"
	"net"
	"runtime"
	"testing"

	"muster/broker/server"
)

// TestIdleClientIsCheap: with the library's own loop, queue and buffers an idle
// client costs 49 KiB and more, and 33 KiB without the latter two.
func TestIdleClientIsCheap(t *testing.T) {
	const clients, most = 1_000, 12 << 10
	s, err := server.New(anonymous(), server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Stop(context.WithoutCancel(t.Context())) }()
	hello := frame(0x10, str("MQTT"), []byte{5, 0x82, 0, 60, 0}, str(""), str("olga"))
	open := func() net.Conn {
		conn, err := net.Dial("tcp", s.Addr("tcp").String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		r := raw{conn, t}
		r.send(hello)
		r.read()
		return conn
	}
	open()
	before := inUse()
	for range clients {
		open()
	}
	if each := (inUse() - before) / clients; each > most {
		t.Errorf("%d bytes an idle client, want at most %d", each, most)
	}
}

// inUse is the memory that is in use, stacks included.
func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first one finalised
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
