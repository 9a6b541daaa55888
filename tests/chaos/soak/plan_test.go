package main

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

// lasts are the faults that last, with their ends.
var lasts = map[fault]fault{backUp: restoreBackup, fillDisk: emptyDisk, jumpClock: jumpBack}

func TestAPlanHasItsAmountsAndNothingThatLastsOverlaps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		d                            time.Duration
		disks, restores, jumps, cuts int
	}{{leastDuration, 1, 1, 1, 1}, {3 * time.Minute, 1, 1, 1, 1}, {10 * time.Minute, 1, 1, 3, 1}, {30 * time.Minute, 3, 2, 10, 5}, {time.Hour, 6, 4, 20, 11}} {
		for seed := range uint64(200) {
			p := newPlan(c.d, 20, seed)
			if got := [...]int{p.amount(fillDisk), p.amount(restoreBackup), p.amount(jumpClock), p.amount(storm)}; got != [...]int{c.disks, c.restores, c.jumps, c.cuts} {
				t.Fatalf("%v, seed %d: %v", c.d, seed, got)
			}
			if !reflect.DeepEqual(p, newPlan(c.d, 20, seed)) {
				t.Fatalf("%v, seed %d: another plan the second time", c.d, seed)
			}
			if p.amount(killHeadquarters) == 0 || p.amount(killHeadquarters)+p.amount(killAgent) < int(p.attack/(killFrom+killSpread))-1 {
				t.Errorf("%v, seed %d: %d and %d kills", c.d, seed, p.amount(killHeadquarters), p.amount(killAgent))
			}
			var open fault
			for _, one := range p.deeds {
				end, begins := lasts[one.what]
				switch {
				case one.at < 0 || one.at > p.attack:
					t.Fatalf("%v, seed %d: %s at %v of %v", c.d, seed, one.what, one.at, p.attack)
				case begins && open != "":
					t.Fatalf("%v, seed %d: %s at %v, before %s", c.d, seed, one.what, one.at, open)
				case begins:
					open = end
				case one.what == open:
					open = ""
				case one.what == killHeadquarters && open == jumpBack:
					t.Fatalf("%v, seed %d: headquarters is killed at %v while its clock is set", c.d, seed, one.at)
				case one.what == jumpClock && one.by.Abs() < time.Second:
					t.Fatalf("%v, seed %d: a jump by %v", c.d, seed, one.by)
				}
			}
			if !slices.IsSortedFunc(p.deeds, func(a, b deed) int { return int(a.at - b.at) }) {
				t.Fatalf("%v, seed %d: not in order", c.d, seed)
			}
		}
	}
}
