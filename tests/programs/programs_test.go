package programs_test

import (
	"testing"

	"muster/tests/programs"
)

func TestNoTwoAreGivenOneFreeAddress(t *testing.T) {
	t.Parallel()
	given := map[string]bool{}
	for range 600 { // of 22,000: a pair is nearly sure
		address := programs.FreeAddr(t)
		if given[address] {
			t.Fatalf("%s is given twice", address)
		}
		given[address] = true
	}
}
