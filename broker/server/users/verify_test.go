package users_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/broker/server/users"
)

func attempt(name, password, address string) users.Attempt {
	return users.Attempt{Name: name, Password: []byte(password), Address: address}
}

func TestFailedLoginsLockNameAndAddress(t *testing.T) {
	book, err := load(t, "users:\n  - {name: alice, role: technician, password: \""+hash(t, "wonderland")+"\"}\n")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var locked []string
		v := users.NewVerifier(book, func(a users.Attempt) { locked = append(locked, a.Name+"@"+a.Address) })
		verify := func(name, password, address string) error {
			_, err := v.Verify(t.Context(), attempt(name, password, address))
			return err
		}
		if err := verify("alice", "wonderland", "10.0.0.1"); err != nil {
			t.Fatal(err)
		}
		for n := range 10 {
			if err := verify("alice", fmt.Sprint("guess", n), "10.0.0.1"); !errors.Is(err, users.ErrWrong) {
				t.Fatalf("guess %d: %v", n, err)
			}
		}
		// Even the right password, which is recognised without hashing: else a
		// guess would be free during the lock.
		for range 3 {
			if err := verify("alice", "wonderland", "10.0.0.1"); !errors.Is(err, users.ErrLocked) {
				t.Errorf("while locked: %v", err)
			}
		}
		if err := verify("alice", "wonderland", "10.0.0.2"); err != nil {
			t.Errorf("from another address: %v", err)
		}
		if err := verify("bob", "wonderland", "10.0.0.1"); !errors.Is(err, users.ErrWrong) {
			t.Errorf("another name: %v", err)
		}
		if len(locked) != 1 || locked[0] != "alice@10.0.0.1" {
			t.Errorf("told of %v", locked)
		}
		time.Sleep(5 * time.Minute)
		if err := verify("alice", "wonderland", "10.0.0.1"); err != nil {
			t.Errorf("after the lock: %v", err)
		}
	})
}

func TestLockedLoginCostsNoHash(t *testing.T) {
	book, err := load(t, "users: []\n")
	if err != nil {
		t.Fatal(err)
	}
	v := users.NewVerifier(book, nil)
	for range 10 {
		_, _ = v.Verify(t.Context(), attempt("alice", "guess", "127.0.0.1"))
	}
	release := v.OccupyAll() // nobody can hash
	defer release()
	if _, err := v.Verify(t.Context(), attempt("alice", "guess", "127.0.0.1")); !errors.Is(err, users.ErrLocked) {
		t.Errorf("got %v", err)
	}
}

func TestFullQueueAnswersAtOnce(t *testing.T) {
	book, err := load(t, "users:\n  - {name: alice, role: technician, password: \""+hash(t, "wonderland")+"\"}\n")
	if err != nil {
		t.Fatal(err)
	}
	v := users.NewVerifier(book, nil)
	if _, err := v.Verify(t.Context(), attempt("alice", "wonderland", "")); err != nil {
		t.Fatal(err)
	}
	release := v.FillQueue()
	if _, err := v.Verify(t.Context(), attempt("bob", "guess", "")); !errors.Is(err, users.ErrBusy) {
		t.Errorf("got %v", err)
	}
	if _, err := v.Verify(t.Context(), attempt("alice", "wonderland", "")); err != nil {
		t.Errorf("who is known waits for nobody: %v", err)
	}
	release()
	if _, err := v.Verify(t.Context(), attempt("bob", "guess", "")); !errors.Is(err, users.ErrWrong) {
		t.Errorf("afterwards: %v", err)
	}
}

// weak hashes what HashPassword refuses, as another tool would.
func weak(t *testing.T, password string) string {
	t.Helper()
	h, err := users.HashAny(password)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestGuessablePasswordIsFoundInTheFile(t *testing.T) {
	file := func(name, password string) string {
		return "users:\n  - name: olga\n    role: operator\n    certificate: true\n" +
			"  - name: " + name + "\n    role: operator\n    password: \"" + weak(t, password) + "\"\n"
	}
	for name, c := range map[string]struct {
		user, password string
		refused        bool
	}{
		"most used":  {"alice", "password", true},
		"digits":     {"alice", "12345678", true},
		"short":      {"alice", "123456", true},
		"own name":   {"Anastasia", "Anastasia", true},
		"lower case": {"Anastasia", "anastasia", true},
		"upper case": {"anastasia", "ANASTASIA", true},
		"title":      {"anastasia", "Anastasia", true},
		"of another": {"alice", "anastasia", false},
		"sound":      {"alice", "wonderland", false},
	} {
		t.Run(name, func(t *testing.T) {
			book, err := load(t, file(c.user, c.password))
			if err != nil {
				t.Fatal(err)
			}
			err = book.CheckPasswords()
			if (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), "users.yaml:7: users[1].password: "+c.user+": the password is one that everybody guesses") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestGuessablePasswordLetsNobodyIn(t *testing.T) {
	book, err := load(t, "users:\n  - {name: anastasia, role: operator, password: \""+weak(t, "aNaStAsIa")+"\"}\n"+
		"  - {name: bob, role: operator, password: \""+weak(t, "Trustno1")+"\"}\n"+
		"terminals:\n  - {store: store-0001, terminal: terminal-1, password: \""+weak(t, "terminal-1")+"\"}\n")
	if err != nil {
		t.Fatal(err)
	}
	v := users.NewVerifier(book, nil)
	for name, password := range map[string]string{"anastasia": "aNaStAsIa", "bob": "Trustno1", "store-0001/terminal-1": "terminal-1"} {
		if _, err := v.Verify(t.Context(), attempt(name, password, "")); !errors.Is(err, users.ErrGuessable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSearchAtTheStartIsBounded: a file of thousands of users, and hashes of the
// highest cost, must not keep headquarters from starting.
func TestSearchAtTheStartIsBounded(t *testing.T) {
	cheap := hash(t, "correct horse")
	for cost, most := range map[string]int{"m=19456,t=2": 128, "m=262144,t=16": 1} {
		var text strings.Builder
		text.WriteString("users:\n")
		for n := range 300 {
			fmt.Fprintf(&text, "  - {name: u%d, role: operator, password: \"%s\"}\n", n, strings.Replace(cheap, "m=19456,t=2", cost, 1))
		}
		book, err := load(t, text.String())
		if err != nil {
			t.Fatal(err)
		}
		if n := book.Trials(); n < 1 || n > most {
			t.Errorf("%s: %d hashes", cost, n)
		}
	}
}

func TestHashPasswordRefusesWhatEverybodyGuesses(t *testing.T) {
	for _, password := range []string{"password", "PassWord", "12345678", "changeme"} {
		if _, err := users.HashPassword([]byte(password)); !errors.Is(err, users.ErrGuessable) {
			t.Errorf("%s: %v", password, err)
		}
	}
}
