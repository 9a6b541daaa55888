//go:build !linux

package machine

// ClockKept is ErrUnknown.
func ClockKept() (bool, error) { return false, ErrUnknown }
