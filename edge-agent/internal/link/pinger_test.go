package link_test

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"muster/edge-agent/internal/link"
)

// TestASilentBrokerIsGivenUp: after a keep-alive without a word and another
// without an answer; later by what a large answer takes on the slowest link,
// which an answer to a later question ends.
func TestASilentBrokerIsGivenUp(t *testing.T) {
	const keepAlive = 30 * time.Second
	const mebibyte = 256 * time.Second // on the slowest link
	for name, c := range map[string]struct {
		answers int  // of the broker, before it falls silent
		carries int  // bytes, just before
		goesOn  bool // small messages are sent all the time
		want    time.Duration
	}{
		"at once":                 {0, 0, false, keepAlive},
		"after two answers":       {2, 0, false, 3 * keepAlive},
		"behind a large answer":   {0, 1 << 20, false, mebibyte + keepAlive},
		"the large answer is out": {2, 1 << 20, false, 3 * keepAlive},
		"small ones go on":        {0, 0, true, keepAlive},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				p := &link.Pinger{}
				go func() {
					for n := 0; ; n++ {
						if _, err := io.ReadFull(far, make([]byte, 2)); err != nil {
							return
						}
						if n < c.answers {
							time.Sleep(time.Millisecond)
							p.PacketReceived()
							p.PingResp()
						}
					}
				}()
				if c.goesOn {
					go func() {
						for range 100 {
							p.Carries(300)
							p.PacketSent()
							time.Sleep(keepAlive / 3)
						}
					}()
				}
				if c.carries > 0 {
					p.Carries(c.carries)
					time.Sleep(time.Millisecond)
				}
				begin := time.Now()
				err := p.Run(t.Context(), near, uint16(keepAlive/time.Second))
				if took := time.Since(begin); err == nil || took < c.want-time.Second || took > c.want+time.Second {
					t.Errorf("after %v: %v", took, err)
				}
				_, _ = near.Close(), far.Close()
				time.Sleep(100 * keepAlive) // the goroutines end
			})
		})
	}
}
