//go:build race

package hostile_test

// underRace is set in a program that the race detector watches.
const underRace = true
