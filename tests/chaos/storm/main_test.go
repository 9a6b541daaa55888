// Package storm_test cuts every terminal of a chain off at once, with a run in
// flight, and lets all of them come back in the same moment: once because
// headquarters was killed, once because the network was gone.
//
// The terminals are simulated, each over a TCP connection of its own to the
// built dispatcher. They write one history together, and the checker judges it.
package storm_test

import (
	"os"
	"testing"

	"muster/tests/programs"
)

// bin is the folder of the programs.
var bin string

func TestMain(m *testing.M) {
	os.Exit(programs.BuildAndRun(m, func(folder string) { bin = folder }))
}
