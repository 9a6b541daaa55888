package server

import (
	mqtt "github.com/mochi-mqtt/server/v2"

	"muster/broker/server/access"
)

// Access says what a client may do. access.Rules is the one that counts.
type Access interface {
	MayPublish(id access.Identity, topic string) bool
	MayRead(id access.Identity, filter string) bool
	MayRetain(id access.Identity, topic string) bool
	MayLeaveWill(id access.Identity, topic string) bool
}

// Interop bends the broker for a public interoperability suite, which knows
// neither our topics nor our users and asks for what we leave out on purpose.
// No configuration reaches it; every other guard stays as it is.
type Interop struct {
	// Access judges instead of the protocol's rules.
	Access Access
	// ClientQuotas leaves Receive Maximum and Topic Alias Maximum in a CONNECT.
	ClientQuotas bool
	// Compatibilities are the library's. The inheritance of properties on
	// acknowledgements stays off whatever they say.
	Compatibilities mqtt.Compatibilities
}

// access is the judge of this broker.
func (o Options) access(rules *access.Rules) Access {
	if o.Interop != nil && o.Interop.Access != nil {
		return o.Interop.Access
	}
	return rules
}

// bend applies what the suite wants of the library.
func (o Options) bend(c *mqtt.Capabilities) *mqtt.Capabilities {
	if o.Interop != nil {
		c.Compatibilities = o.Interop.Compatibilities
		c.Compatibilities.NoInheritedPropertiesOnAck = true
	}
	return c
}

func (o Options) keepsClientQuotas() bool { return o.Interop != nil && o.Interop.ClientQuotas }
