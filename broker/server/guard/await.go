package guard

// Await returns once the first packet, a whole and well-formed CONNECT, has
// arrived; Read passes it on. Until then a connection costs its socket, one
// small buffer and one goroutine: nothing of the MQTT library's.
func (c *Conn) Await() error {
	if c.ready > 0 {
		return nil
	}
	return c.nextPacket()
}
