package users

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"
)

// ErrGuessable says that a password is the first that an intruder tries.
var ErrGuessable = errors.New("the password is one that everybody guesses: choose another")

// searchBudget bounds the search for guessable passwords at the start, in
// KiB x passes: 128 hashes of the least cost, some 1.5 s on two processors.
const searchBudget = 128 * minMemoryKiB * minPasses

// searchGuesses is how many guesses each user costs at the start, beside those
// at the name: with three users some 0.3 s in all, which a restart in the middle
// of a run can bear.
const searchGuesses = 5

// guesses are passwords that head the lists of what intruders try, the most
// used first, in lower case. The search at the start tries the first of them; a
// login is held against all.
func guesses() []string {
	return []string{
		"password", "12345678", "123456", "changeme", "admin123", "123456789", "password1", "qwerty123",
		"1234567890", "admin", "change-me", "88888888", "11111111", "00000000", "password123", "iloveyou", "qwertyuiop",
		"1q2w3e4r", "1qaz2wsx", "abc12345", "abcd1234", "a1234567", "a123456789", "letmein1", "welcome1",
		"sunshine", "princess", "football", "baseball", "superman", "trustno1", "passw0rd", "p@ssw0rd", "p@ssword",
		"administrator", "raspberry", "mosquitto", "technician", "operator", "dispatcher", "terminal", "muster", "secret",
	}
}

// guessable reports whether a password is one of the guesses, or the name it
// belongs to, in any case.
func guessable(name string, password []byte) bool {
	text := string(password)
	store, terminal, _ := strings.Cut(name, "/")
	for _, guess := range append(guesses(), name, store, terminal) {
		if guess != "" && strings.EqualFold(guess, text) {
			return true
		}
	}
	return false
}

// spellings are the likely ones of a name as its own password.
func spellings(name string) []string {
	lower := strings.ToLower(name)
	first, size := utf8.DecodeRuneInString(lower)
	all := []string{name, lower, strings.ToUpper(name), string(unicode.ToUpper(first)) + lower[size:]}
	var out []string
	seen := map[string]bool{}
	for _, s := range all {
		if !seen[s] {
			out = append(out, s)
		}
		seen[s] = true
	}
	return out
}

// trials are the guesses at users' passwords that the start makes. A hash cannot
// be read, so each guess costs one: first every user's own name in the file's
// order, then guess by guess over all of them, until the budget is spent. What
// lies beyond is refused when somebody logs in with it, which costs nothing.
func (b *Book) trials() (work []trial) {
	left := searchBudget
	plan := func(e Entry, guess string) {
		hash := b.entries[e.Name].hash
		left -= int(hash.memoryKiB) * int(hash.passes)
		if hash.passes > 0 && left >= 0 {
			work = append(work, trial{e.Name, guess, hash})
		}
	}
	for _, e := range b.list {
		for _, guess := range spellings(e.Name) {
			plan(e, guess)
		}
	}
	for _, guess := range guesses()[:searchGuesses] {
		for _, e := range b.list {
			plan(e, guess)
		}
	}
	return work
}

type trial struct {
	name, guess string
	hash        Hash
}

// try makes the trials on every processor, and stops at the first that fits.
func try(work []trial) (name string, found bool) {
	var wg sync.WaitGroup
	var next atomic.Int64
	var hit atomic.Pointer[trial]
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for hit.Load() == nil {
				n := int(next.Add(1)) - 1
				if n >= len(work) {
					return
				}
				if work[n].hash.Matches([]byte(work[n].guess)) {
					hit.Store(&work[n])
				}
			}
		})
	}
	wg.Wait()
	if t := hit.Load(); t != nil {
		return t.name, true
	}
	return "", false
}

// CheckPasswords returns an error that names file, line and user when a user's
// password is found to be guessable. It takes up to some 1.5 s.
func (b *Book) CheckPasswords() error {
	name, found := try(b.trials())
	if !found {
		return nil
	}
	for i, e := range b.list {
		if e.Name == name {
			return b.where.Errorf(fmt.Sprintf("$.users[%d].password", i), "%s: %v (hash-password hashes it)", name, ErrGuessable)
		}
	}
	return ErrGuessable
}
