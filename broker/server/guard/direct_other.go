//go:build !unix

package guard

import "net"

// direct is for systems whose sockets can be tried without waiting.
type direct struct{}

func newDirect(net.Conn) *direct { return nil }

func (*direct) write([]byte) (int, error) { return 0, nil }

func (*direct) first() ([]byte, int, error) { return nil, 0, net.ErrClosed }
