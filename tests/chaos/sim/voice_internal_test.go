package sim

import (
	"net"
	"testing"
	"time"
)

// A life that goes on after its kill puts answers on a disk that its next life does not have:
// nobody may take them as said.
func TestTheDeadSayNothing(t *testing.T) {
	mouth, ear := net.Pipe()
	l := &life{}
	heard := make(chan string, 2)
	go func() {
		for v, p := (voice{ear, l}), make([]byte, 16); ; {
			n, err := v.Read(p)
			if err != nil {
				close(heard)
				return
			}
			heard <- string(p[:n])
		}
	}()
	say := func(what string) {
		t.Helper()
		if err := mouth.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := mouth.Write([]byte(what)); err != nil {
			t.Fatal(err) // the dead are listened to: they must not block
		}
	}
	say("before")
	if got := <-heard; got != "before" {
		t.Fatalf("heard %q", got)
	}
	l.mu.Lock()
	l.dead = true
	l.mu.Unlock()
	say("after")
	say("long after")
	if err := mouth.Close(); err != nil {
		t.Fatal(err)
	}
	if got, more := <-heard; more {
		t.Errorf("%q was heard of the dead", got)
	}
}
