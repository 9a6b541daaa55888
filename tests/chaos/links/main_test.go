// Package links_test puts real agents behind bad links and judges what came of
// it: slow, cut, silent, half open and torn to pieces, and brokers that forget
// everything.
//
// The taps stand before the links, next to their agents. So what is in a history
// as got has left the bad link, and what is in it as sent has not yet entered
// it.
package links_test

import (
	"os"
	"path/filepath"
	"testing"

	"muster/tests/programs"
)

// bin is the folder of the programs.
var bin string

func TestMain(m *testing.M) {
	programs.SideBySide(4)
	os.Exit(programs.BuildAndRun(m, func(folder string) { bin = folder },
		programs.Programs{Packages: []string{"github.com/Shopify/toxiproxy/v2/cmd/server"}, Module: "scripts/toxiproxy", Into: "toxiproxy"}))
}

func program(name string) string { return filepath.Join(bin, name) }
