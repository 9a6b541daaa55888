package server_test

import (
	"testing"

	"muster/broker/server"
)

func TestClientIsToldThatItsSessionIsShorter(t *testing.T) {
	s := start(t, anonymous(), server.Options{})
	const day = 24 * 60 * 60
	for asked, told := range map[uint32]uint32{7 * day: day, 60: 0} { // 0: nothing is said
		who := as("alice")
		who.expiry = asked
		_, ack, err := tryConnect(t, s, who)
		if err != nil {
			t.Fatal(err)
		}
		var got uint32
		if p := ack.Properties.SessionExpiryInterval; p != nil {
			got = *p
		}
		if got != told {
			t.Errorf("asked for %d s, was told %d s, not %d s", asked, got, told)
		}
	}
}
