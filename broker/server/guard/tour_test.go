package guard_test

import (
	"bytes"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"muster/broker/server/guard"
)

// arrival is what came to the far end at once, and when.
type arrival struct {
	said  string
	after time.Duration
}

// TestWhatMayWaitLeavesTogether: when much is going on, within milliseconds what was written soon is there,
// in one piece; whatever is in a hurry takes it along at once, behind it.
func TestWhatMayWaitLeavesTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c, tour, begin := guard.NewConn(near, limits()), &guard.Tour{}, time.Now()
		arrivals := make(chan arrival, 16)
		go func() {
			defer close(arrivals)
			for buf := make([]byte, 1<<10); ; {
				n, err := far.Read(buf)
				if err != nil {
					return
				}
				arrivals <- arrival{string(buf[:n]), time.Since(begin)}
			}
		}()
		soon := func(text string) {
			if n, err := c.WriteSoon([]byte(text), tour); n != len(text) || err != nil {
				t.Errorf("%d of %q, %v", n, text, err)
			}
		}
		for range 7 { // there is little to do
			soon("zero")
			if a := <-arrivals; a != (arrival{"zero", 0}) {
				t.Errorf("it waited: %v", a)
			}
		}
		soon("one ")
		soon("two")
		synctest.Wait()
		if len(arrivals) > 0 {
			t.Errorf("it did not wait: %v", <-arrivals)
		}
		if a := <-arrivals; a.said != "one two" || a.after < 2*time.Millisecond || a.after > 4*time.Millisecond {
			t.Errorf("got %v", a)
		}
		begin = time.Now()
		soon("three ")
		if n, err := c.Write([]byte("four")); n != len("four") || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if a := <-arrivals; a != (arrival{"three four", 0}) {
			t.Errorf("got %v", a)
		}
		synctest.Wait()
		soon("five")
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if a := <-arrivals; a != (arrival{"five", 0}) {
			t.Errorf("closing loses what waits: %v", a)
		}
		<-c.Done()
		if _, err := c.WriteSoon([]byte("six"), tour); err == nil {
			t.Error("a connection that is over takes more")
		}
		for a := range arrivals {
			t.Errorf("got %v more", a)
		}
	})
}

// TestOrderStaysWithWhatMayWait, whatever its size, and however it is written.
func TestOrderStaysWithWhatMayWait(t *testing.T) {
	t.Parallel()
	c, far := pair(t, limits())
	tour, want := &guard.Tour{}, []byte{}
	for i := range 400 {
		part := bytes.Repeat([]byte{byte(i)}, i*i%3_000)
		want = append(want, part...)
		write := c.Write
		if i%3 > 0 {
			write = func(p []byte) (int, error) { return c.WriteSoon(p, tour) }
		}
		if n, err := write(part); n != len(part) || err != nil {
			t.Fatalf("%d of %d, %v", n, len(part), err)
		}
	}
	got := make(chan []byte)
	go func() { all, _ := io.ReadAll(far); got <- all }()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if all := <-got; !bytes.Equal(all, want) {
		t.Errorf("%d bytes of %d came, or in another order", len(all), len(want))
	}
}
