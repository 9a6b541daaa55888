package settings

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"muster/internal/usage"
)

// Stray is a variable of the environment that has the house's prefix and means
// nothing to the program: misspelt, most likely.
type Stray struct {
	Name    string
	Nearest string // the key's variable that was meant, "" when none is like it
}

// String is what a person is told of it.
func (s Stray) String() string {
	if s.Nearest == "" {
		return fmt.Sprintf("the environment has %s, which is no key", s.Name)
	}
	return fmt.Sprintf("the environment has %s, which is no key; did you mean %s?", s.Name, s.Nearest)
}

// Strays are in the order of their names.
type Strays []Stray

// String is what a person is told of them, in one line.
func (s Strays) String() string {
	said := make([]string, len(s))
	for i, stray := range s {
		said[i] = stray.String()
	}
	return strings.Join(said, "; ")
}

// UnknownEnv lists the variables of the house's prefix that are neither a key of
// the configuration nor among known.
func UnknownEnv(environ []string, config any, known ...string) Strays {
	for _, key := range Keys(config) {
		known = append(known, key.Env)
	}
	var unknown Strays
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, EnvPrefix) && !slices.Contains(known, name) {
			unknown = append(unknown, Stray{name, nearestEnv(name, known)})
		}
	}
	slices.SortFunc(unknown, func(a, b Stray) int { return strings.Compare(a.Name, b.Name) })
	return unknown
}

// nearestEnv compares what follows the prefix, which is alike in all of them.
func nearestEnv(name string, known []string) string {
	words := make([]string, len(known))
	for i, k := range known {
		words[i] = strings.TrimPrefix(k, EnvPrefix)
	}
	if nearest := usage.Nearest(strings.TrimPrefix(name, EnvPrefix), words); nearest != "" {
		return EnvPrefix + nearest
	}
	return ""
}

// Names is never nil.
func (s Strays) Names() []string {
	names := make([]string, len(s))
	for i, stray := range s {
		names[i] = stray.Name
	}
	return names
}

// Warn says each in the log of a program that starts.
func (s Strays) Warn(log *slog.Logger) {
	for _, stray := range s {
		log.Warn("a variable of the environment is no key, and counts for nothing", "variable", stray.Name, "did_you_mean", stray.Nearest)
	}
}
