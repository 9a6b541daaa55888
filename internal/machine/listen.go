package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strconv"
)

// Unlistenable adds to an error of listening on an address, host:port, which is
// wrapped, who is in the way and what to do about it.
func Unlistenable(address string, err error) error {
	var unknown *net.DNSError
	switch {
	case inUse(err):
		by := "another program"
		if _, digits, split := net.SplitHostPort(address); split == nil {
			if port, number := strconv.Atoi(digits); number == nil {
				if pid, name := Listener(port); pid > 0 {
					by = fmt.Sprintf("%s (process %d)", name, pid)
				}
			}
		}
		return fmt.Errorf("%s is taken by %s: end that, or choose another port: %w", address, by, err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s is not for this user, as ports below 1024 often are: choose a higher port, or grant the program CAP_NET_BIND_SERVICE: %w", address, err)
	case notHere(err):
		return fmt.Errorf("no interface of this machine has the address of %s: choose one that it has, or 0.0.0.0 for all: %w", address, err)
	case errors.As(err, &unknown):
		return fmt.Errorf("this machine knows no host of the name in %s: write an IP address: %w", address, err)
	}
	return fmt.Errorf("cannot listen on %s: %w", address, err)
}
