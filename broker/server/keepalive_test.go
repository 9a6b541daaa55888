package server_test

import (
	"bytes"
	"testing"
	"time"

	"muster/broker/server"
)

func TestKeepaliveIsKeptWithinBounds(t *testing.T) {
	s := start(t, anonymous(), server.Options{})
	for asked, want := range map[uint16]uint16{
		0: 300, 1: 15, 14: 15, 15: 0, 60: 0, 300: 0, 301: 300, 43_690: 300, 43_691: 300, 65_535: 300,
	} {
		c := dial(t, s)
		c.send(frame(0x10, str("MQTT"), []byte{5, 0x82, byte(asked >> 8), byte(asked), 0}, str(""), str("olga")))
		_, body := c.read()
		told := bytes.Contains(body, []byte{0x13, byte(want >> 8), byte(want)})
		if want > 0 && !told {
			t.Errorf("asked %d: CONNACK % x does not say %d", asked, body, want)
		}
		if want == 0 && bytes.Contains(body, []byte{0x13, 0}) {
			t.Errorf("asked %d: CONNACK % x changes it", asked, body)
		}
	}
}

// silence is how long a client of version 4 with a keep alive may say nothing,
// 0 when the connection outlives the second that the test looks.
func silence(t *testing.T, s *server.Server, keepalive uint16) time.Duration {
	t.Helper()
	c := dial(t, s)
	c.send(frame(0x10, str("MQTT"), []byte{4, 0x82, byte(keepalive >> 8), byte(keepalive)}, str(""), str("olga")))
	c.read()
	begin := time.Now()
	_ = c.SetReadDeadline(begin.Add(2500 * time.Millisecond))
	if _, _, err := c.tryRead(); timedOut(err) {
		return 0
	}
	return time.Since(begin)
}

// TestOldClientsKeepaliveIsOurs: a client of version 4 cannot be told, so only
// our own deadline changes; one and a half times 43,691 s does not fit the
// library's counter and would end the connection at once.
func TestOldClientsKeepaliveIsOurs(t *testing.T) {
	cfg := anonymous()
	cfg.Limits.MinKeepalive, cfg.Limits.MaxKeepalive = 5*time.Second, time.Minute
	s := start(t, cfg, server.Options{})
	for _, keepalive := range []uint16{0, 1, 43_690, 43_691, 65_535} {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			if after := silence(t, s, keepalive); after > 0 {
				t.Errorf("keep alive %d: closed after %v", keepalive, after)
			}
		})
	}
}

func TestSilentClientIsClosedByItsKeepalive(t *testing.T) {
	cfg := anonymous()
	cfg.Limits.MinKeepalive = time.Second
	s := start(t, cfg, server.Options{})
	if after := silence(t, s, 1); after < 500*time.Millisecond {
		t.Errorf("closed after %v (0: not at all), want a second or more", after)
	}
}

// TestShortLongestKeepaliveNeedsNoShortest: a configuration from before the
// shortest keep alive could be set goes on working.
func TestShortLongestKeepaliveNeedsNoShortest(t *testing.T) {
	cfg := server.DefaultConfig()
	cfg.Anonymous, cfg.Limits.MaxKeepalive = true, 10*time.Second
	if err := cfg.Validate(nil); err != nil {
		t.Error(err)
	}
	cfg.Limits.MinKeepalive = 20 * time.Second
	if err := cfg.Validate(nil); err == nil || err.Error() != "limits.min_keepalive: 20s is not between 1s and 10s" {
		t.Errorf("got %v", err)
	}
}
