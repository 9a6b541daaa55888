// Package usage reads a command line by the flags it is given, and words what is wrong
// with it: what is unknown, what was probably meant, and where help is.
//
// It knows no program, prints nothing and ends nothing.
package usage

import (
	"fmt"
	"strings"
)

// Unknown is the error about a word that a command line should not have. kind is
// what it would have been, such as "command"; known are the words that may stand
// there; help is the command line that shows them.
func Unknown(kind, word string, known []string, help string) error {
	if nearest := Nearest(word, known); nearest != "" {
		return fmt.Errorf("unknown %s %q; did you mean %q? %s", kind, word, nearest, Help(help))
	}
	return fmt.Errorf("unknown %s %q; %s", kind, word, Help(help))
}

// Help says which command line shows help.
func Help(commandLine string) string { return commandLine + " shows what there is" }

// Nearest is the known word that a misspelt one is most like, "" when none is like
// it: a third of its letters, and one at least, may be wrong.
func Nearest(word string, known []string) string {
	nearest, least := "", max(1, len([]rune(word))/3)+1
	for _, candidate := range known {
		if d := distance(strings.ToLower(word), strings.ToLower(candidate)); d < least {
			nearest, least = candidate, d
		}
	}
	if nearest != "" {
		return nearest
	}
	for _, candidate := range known { // "check" for "check-config"
		if len(word) > 2 && strings.HasPrefix(candidate, word) {
			return candidate
		}
	}
	return ""
}

// distance is how many letters have to be put in, left out, replaced, or swapped
// with their neighbour, to make one word of the other (optimal string alignment).
func distance(from, to string) int {
	a, b := []rune(from), []rune(to)
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			other := 1
			if a[i-1] == b[j-1] {
				other = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+other)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
