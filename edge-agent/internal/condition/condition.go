// Package condition measures how the terminal feels: load, battery, free disk,
// signal, temperature.
//
// What cannot be read stays nil; it is never guessed and never an error.
package condition

import (
	"muster/internal/machine"
	"muster/internal/protocol"
)

// Measure reads the terminal's condition; folder is where disk space counts.
// It takes well under a millisecond.
func Measure(folder string) protocol.Condition {
	c := measure()
	if room, err := machine.Disk(folder); err == nil {
		free := int64(room.Free >> 20)
		c.DiskFreeMB = &free
	}
	return c
}
