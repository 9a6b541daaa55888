package machine

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// ClockKept says whether something, such as an NTP client, keeps this machine's
// clock (adjtimex(2), STA_UNSYNC).
func ClockKept() (bool, error) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return false, fmt.Errorf("cannot ask for the state of the clock: %w", err)
	}
	return state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0, nil
}
