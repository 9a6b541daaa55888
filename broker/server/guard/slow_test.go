package guard_test

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"muster/broker/server/guard"
)

// TestALargePacketOverASlowLinkIsNoSilence: 200 KiB at 4 KiB a second take
// longer than the silence that is allowed; a byte now and then is silence.
func TestALargePacketOverASlowLinkIsNoSilence(t *testing.T) {
	const silence = 45 * time.Second
	large := append([]byte{0x30, 0x80, 0xc0, 0x0c}, make([]byte, 200<<10)...)
	copy(large[4:], text("topic"))
	for name, c := range map[string]struct {
		chunk int
		every time.Duration
		want  time.Duration // 0: the packet comes
	}{
		"4 KiB a second":     {4 << 10, time.Second, 0},
		"1 KiB in the time":  {1 << 10, 40 * time.Second, 0},
		"a byte in the time": {1, 40 * time.Second, silence},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				conn := guard.NewConn(near, limits())
				var sending sync.WaitGroup
				sending.Go(func() {
					defer far.Close()
					if _, err := far.Write(connect5("x")); err != nil {
						return
					}
					for rest := large; len(rest) > 0; rest = rest[min(c.chunk, len(rest)):] {
						if _, err := far.Write(rest[:min(c.chunk, len(rest))]); err != nil {
							return
						}
						time.Sleep(c.every)
					}
				})
				if _, err := io.ReadFull(conn, make([]byte, len(connect5("x")))); err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				if err := conn.SetDeadline(begin.Add(silence)); err != nil {
					t.Fatal(err)
				}
				_, err := io.ReadFull(conn, make([]byte, len(large)))
				if took := time.Since(begin); c.want == 0 && err != nil || c.want > 0 && (!errors.Is(err, os.ErrDeadlineExceeded) || took != c.want) {
					t.Errorf("after %v: %v", took, err)
				}
				_ = conn.Close()
				sending.Wait()
			})
		})
	}
}
