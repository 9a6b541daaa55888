package checker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Verdict is what is broken, and how much was judged.
type Verdict struct {
	Findings []Finding
	Weights  Weights
}

// Weights count how often each part of a rule had something to judge, by the rule
// and the part, as "I6 uploads". A rule that never has is kept by anybody.
type Weights map[string]int

// weigh notes that the rule which is being applied has judged n more of a part.
func (b *book) weigh(part string, n int) { b.weights[string(b.rule)+" "+part] += n }

// Add takes in what was judged elsewhere.
func (w Weights) Add(more Weights) {
	for part, n := range more {
		w[part] += n
	}
}

// Without are those of the parts that nothing was judged of.
func (w Weights) Without(parts []string) []string {
	return slices.DeleteFunc(slices.Clone(parts), func(part string) bool { return w[part] > 0 })
}

// String names each part with how much it judged.
func (w Weights) String() string {
	var all []string
	for _, part := range slices.Sorted(maps.Keys(w)) {
		all = append(all, fmt.Sprintf("%s %d", part, w[part]))
	}
	return strings.Join(all, ", ")
}
