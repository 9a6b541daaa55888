package hostile_test

import (
	"context"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// machine measures what the machine itself costs a customer at the moment: an
// echo over loopback in this process, without a broker. A stall that shows here
// too is not the broker's.
type machine struct {
	mu   sync.Mutex
	took []time.Duration
}

func (m *machine) work(ctx context.Context, t *testing.T) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Error(err)
		return
	}
	defer ln.Close()
	go func() {
		if far, err := ln.Accept(); err == nil {
			_, _ = io.Copy(far, far) // until the near end closes
			_ = far.Close()
		}
	}()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", ln.Addr().String())
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for word := make([]byte, 8); ctx.Err() == nil; <-tick.C {
		begin := time.Now()
		if _, err := conn.Write(word); err != nil {
			return
		}
		if _, err := io.ReadFull(conn, word); err != nil {
			return
		}
		m.mu.Lock()
		m.took = append(m.took, time.Since(begin))
		m.mu.Unlock()
	}
}

// worst is the 99th percentile and the maximum.
func (m *machine) worst() (p99, most time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.took) == 0 {
		return 0, 0
	}
	slices.Sort(m.took)
	return m.took[len(m.took)*99/100], m.took[len(m.took)-1]
}
