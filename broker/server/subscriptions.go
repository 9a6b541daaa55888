package server

import (
	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"
)

// maxSubscriptions bounds the filters that one client holds. Each costs some
// 1.8 KiB for as long as its session lives; a terminal has four, a person's tool
// a handful.
const maxSubscriptions = 1_024

// tooMany reports whether a SUBSCRIBE takes a client over the bound. A filter
// that it holds already counts once.
func tooMany(cl *mqtt.Client, asked packets.Subscriptions) bool {
	held := cl.State.Subscriptions
	total := held.Len()
	for _, sub := range asked {
		if _, known := held.Get(sub.Filter); !known {
			total++
		}
	}
	return total > maxSubscriptions
}
