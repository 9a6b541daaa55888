package guard

// Await returns once a whole and well-formed packet has arrived, the first of them a
// CONNECT. Until then a connection costs its socket and one goroutine with a small
// stack.
func (c *Conn) Await() error {
	if c.ready > 0 {
		return nil
	}
	return c.nextPacket()
}

// Packet is the one that Await found: its first byte, and what follows its length.
// It is good until Skip.
func (c *Conn) Packet() (first byte, body []byte) {
	packet := c.in[c.head : c.head+c.ready]
	_, n, _, _ := varint(packet[1:]) // it is well-formed
	return packet[0], packet[1+n:]
}

// Skip goes on behind the packet.
func (c *Conn) Skip() { c.advance(c.ready) }
