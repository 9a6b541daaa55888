package guard

import (
	"fmt"
	"net"
	"time"
)

// overflow is how far Write may exceed the write buffer before the connection
// is given up: acknowledgements and answers go past WaitRoom.
const overflow = 1 << 20

// Write queues p and returns at once. It fails when the connection is closing,
// or closes it when far too much is waiting.
func (c *Conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return 0, net.ErrClosed
	}
	if c.queued+len(p) > c.limits.WriteBuffer+overflow+c.limits.MaxPacketBytes {
		c.failLocked(ErrSlowReader)
		return 0, ErrSlowReader
	}
	c.pending = append(c.pending, p...)
	c.queued += len(p)
	if !c.flushing {
		c.flushing = true
		go c.flush()
	}
	return len(p), nil
}

// WaitRoom blocks while more than the write buffer is waiting to leave. It
// returns when there is room or the connection closes; the write deadline
// bounds how long that takes.
func (c *Conn) WaitRoom() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.queued > c.limits.WriteBuffer && !c.closing {
		c.room.Wait()
	}
}

// flush sends until nothing is pending, then ends.
func (c *Conn) flush() {
	var spare []byte
	for {
		c.mu.Lock()
		buf := c.pending
		if len(buf) == 0 {
			c.flushing = false
			closing := c.closing
			c.mu.Unlock()
			if closing {
				c.shut()
			}
			return
		}
		c.pending = spare[:0]
		c.mu.Unlock()
		if err := c.send(buf); err != nil {
			c.fail(fmt.Errorf("cannot send: %w", err))
			c.shut()
			return
		}
		spare = nil
		if cap(buf) <= keepBuffer {
			spare = buf
		}
	}
}

func (c *Conn) send(buf []byte) error {
	for len(buf) > 0 {
		chunk := buf[:min(len(buf), writeChunk)]
		c.mu.Lock()
		deadline := time.Now().Add(c.limits.WriteDeadline)
		if c.closing && c.closeBy.Before(deadline) {
			deadline = c.closeBy
		}
		err := c.inner.SetWriteDeadline(deadline)
		c.mu.Unlock()
		if err != nil {
			return err
		}
		n, err := c.inner.Write(chunk)
		if err != nil {
			return err
		}
		buf = buf[n:]
		c.mu.Lock()
		c.queued -= n
		c.room.Broadcast()
		c.mu.Unlock()
	}
	return nil
}

func (c *Conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failLocked(err)
}

func (c *Conn) failLocked(err error) {
	if c.cause == nil && !c.closing {
		c.cause = err
	}
	c.closeLocked()
}
