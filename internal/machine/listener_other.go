//go:build !linux

package machine

// Listener is 0: this system does not tell who listens on a port.
func Listener(int) (pid int, name string) { return 0, "" }
