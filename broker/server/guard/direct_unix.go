//go:build unix

package guard

import (
	"io"
	"net"
	"syscall"
)

// direct tries a TCP socket without waiting: a write costs no goroutine, and an
// idle connection no read buffer. One goroutine may read and one may write.
type direct struct {
	raw  syscall.RawConn
	read attempt
	sent attempt
}

// attempt is one try of a system call, and how it ended. It stands in a field so
// that trying allocates nothing.
type attempt struct {
	try func(fd uintptr) (over bool)
	buf []byte
	n   int
	err error
}

// newDirect returns nil for what is not a TCP socket.
func newDirect(conn net.Conn) *direct {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	d := &direct{raw: raw}
	d.sent.try, d.read.try = d.trySend, d.tryRead
	return d
}

// write writes what the socket takes now, which may be nothing.
func (d *direct) write(p []byte) (n int, err error) {
	d.sent.buf = p
	err = d.raw.Write(d.sent.try)
	d.sent.buf = nil
	if err == nil {
		err = d.sent.err
	}
	return d.sent.n, err
}

func (d *direct) trySend(fd uintptr) bool {
	d.sent.n, d.sent.err = once(syscall.Write, fd, d.sent.buf)
	if d.sent.err == syscall.EAGAIN { //nolint:errorlint // a bare number, and wrapping it costs
		d.sent.err = nil
	}
	return true // never wait
}

// first waits for bytes without a buffer, and returns them in one of buffers, of
// which n bytes are read.
func (d *direct) first() (buf []byte, n int, err error) {
	err = d.raw.Read(d.read.try)
	buf, d.read.buf = d.read.buf, nil
	switch {
	case err != nil: // the deadline, or closed: nothing was read
		return nil, 0, err
	case d.read.err == nil && d.read.n == 0:
		err = io.EOF
	default:
		err = d.read.err
	}
	if err != nil {
		buffers.Put((*[keepBuffer]byte)(buf))
		return nil, 0, err
	}
	return buf, d.read.n, nil
}

func (d *direct) tryRead(fd uintptr) bool {
	buf := takeBuffer()
	d.read.n, d.read.err = once(syscall.Read, fd, buf[:])
	if d.read.err == syscall.EAGAIN { //nolint:errorlint // as above
		buffers.Put(buf)
		return false // wait until there is something
	}
	d.read.buf = buf[:]
	return true
}

// once makes a system call that nothing but its own end ends.
func once(call func(int, []byte) (int, error), fd uintptr, p []byte) (int, error) {
	for {
		n, err := call(int(fd), p)
		if err != syscall.EINTR { //nolint:errorlint // as above
			return max(n, 0), err
		}
	}
}
