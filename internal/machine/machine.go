// Package machine asks the operating system for its limits: room on a disk, open
// files, whether its clock is kept, and who listens on a port.
//
// It changes nothing, and says so where it cannot know.
package machine

import "errors"

// ErrUnknown says that this operating system does not tell.
var ErrUnknown = errors.New("this system does not tell")

// Room is the room on a disk, in bytes; Free is what an ordinary user may take.
type Room struct{ Free, Total uint64 }
