package mesh_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"muster/tests/chaos/sim/mesh"
)

const address = "127.0.0.1:1883"

// ends are a far host that listens and a near one, joined by a connection.
type ends struct {
	mesh       *mesh.Mesh
	here, away *mesh.Host
	near, far  net.Conn
	listener   net.Listener
}

// bubble runs a test over one connection in virtual time.
func bubble(t *testing.T, line mesh.Line, test func(t *testing.T, e ends)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := mesh.New(1)
		e := ends{mesh: m, here: m.Host(), away: m.Host()}
		var err error
		if e.listener, err = e.away.Listen(t.Context(), "tcp", address); err != nil {
			t.Fatal(err)
		}
		if e.near, err = e.here.Dial(t.Context(), "tcp", address); err != nil {
			t.Fatal(err)
		}
		if e.far, err = e.listener.Accept(); err != nil {
			t.Fatal(err)
		}
		e.here.Shape(line)
		test(t, e)
		for _, c := range []io.Closer{e.near, e.far, e.listener} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func write(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if n, err := c.Write([]byte(text)); n != len(text) || err != nil {
		t.Fatalf("wrote %d of %q: %v", n, text, err)
	}
}

// read takes exactly the text, and tells how long it waited.
func read(t *testing.T, c net.Conn, want string) time.Duration {
	t.Helper()
	began, got := time.Now(), make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("read %q, %v; want %q", got, err, want)
	}
	return time.Since(began)
}

func TestBytesArriveInOrderAfterTheirTime(t *testing.T) {
	t.Parallel()
	bubble(t, mesh.Line{Latency: 50 * time.Millisecond, Jitter: 500 * time.Millisecond}, func(t *testing.T, e ends) {
		var all sync.WaitGroup
		all.Go(func() {
			for i := range 100 {
				write(t, e.near, string(rune('a'+i%26)))
			}
		})
		want := ""
		for i := range 100 {
			want += string(rune('a' + i%26))
		}
		if took := read(t, e.far, want); took < 50*time.Millisecond || took > 600*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		all.Wait()
	})
}

func TestASlowLineTakesItsTime(t *testing.T) {
	t.Parallel()
	bubble(t, mesh.Line{BytesPerSecond: 1000}, func(t *testing.T, e ends) {
		for range 3 {
			write(t, e.near, string(make([]byte, 1000)))
		}
		if took := read(t, e.far, string(make([]byte, 3000))); took != 3*time.Second {
			t.Errorf("3,000 bytes at 1,000 a second took %v", took)
		}
	})
}

func TestAHeldLineBringsEverythingLater(t *testing.T) {
	t.Parallel()
	bubble(t, mesh.Line{}, func(t *testing.T, e ends) {
		e.here.Shape(mesh.Line{HeldUntil: time.Now().Add(time.Minute)})
		write(t, e.near, "up")
		write(t, e.far, "down")
		if took := read(t, e.far, "up"); took != time.Minute {
			t.Errorf("it took %v up", took)
		}
		if took := read(t, e.near, "down"); took != 0 {
			t.Errorf("it took %v more down", took)
		}
		e.here.Shape(mesh.Line{HeldUntil: time.Now().Add(time.Minute)})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := e.here.Dial(ctx, "tcp", address); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dialled over a held line: %v", err)
		}
	})
}

func TestACutIsSeenAtBothEnds(t *testing.T) {
	t.Parallel()
	bubble(t, mesh.Line{}, func(t *testing.T, e ends) {
		var all sync.WaitGroup
		for _, c := range []net.Conn{e.near, e.far} {
			all.Go(func() { // it waits when the line is cut
				if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("read: %v", err)
				}
				if _, err := c.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("write: %v", err)
				}
			})
		}
		synctest.Wait()
		e.here.Cut()
		all.Wait()
	})
}

func TestHalfOpenIsSeenAtOneEnd(t *testing.T) {
	t.Parallel()
	for _, here := range []bool{true, false} {
		bubble(t, mesh.Line{}, func(t *testing.T, e ends) {
			write(t, e.near, "lost")
			write(t, e.far, "lost")
			e.here.HalfOpen(here)
			knows, deaf := e.near, e.far
			if !here {
				knows, deaf = e.far, e.near
			}
			if _, err := knows.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("who knows reads: %v", err)
			}
			write(t, deaf, "vanishes")
			if err := deaf.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
			if _, err := deaf.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("who does not know reads: %v", err)
			}
		})
	}
}

func TestABlackHoleTellsNobody(t *testing.T) {
	t.Parallel()
	bubble(t, mesh.Line{}, func(t *testing.T, e ends) {
		e.here.BlackHole()
		for _, c := range []net.Conn{e.near, e.far} {
			write(t, c, "vanishes")
			if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("read: %v", err)
			}
		}
		if err := e.near.Close(); err != nil {
			t.Fatal(err)
		}
		if err := e.far.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := e.far.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the end came through: %v", err)
		}
	})
}

func TestAFrozenHostReachesNobody(t *testing.T) {
	t.Parallel()
	for _, told := range []bool{true, false} {
		bubble(t, mesh.Line{}, func(t *testing.T, e ends) {
			write(t, e.far, "not sent any more?")
			e.away.Freeze(told)
			if _, err := e.far.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("the frozen one writes: %v", err)
			}
			if err := e.near.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			want := os.ErrDeadlineExceeded
			if told {
				want = syscall.ECONNRESET
			}
			if n, err := e.near.Read(make([]byte, 1)); n != 0 || !errors.Is(err, want) {
				t.Errorf("told %t: read %d, %v", told, n, err)
			}
			if _, err := e.listener.Accept(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("it listens on: %v", err)
			}
			if _, err := e.here.Dial(t.Context(), "tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("it is reached: %v", err)
			}
			if _, err := e.away.Dial(t.Context(), "tcp", address); err == nil {
				t.Error("it reaches somebody")
			}
			next := e.mesh.Host()
			l, err := next.Listen(t.Context(), "tcp", address)
			if err != nil {
				t.Fatalf("nobody takes its place: %v", err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestWhatWasWrittenArrivesBeforeTheEnd(t *testing.T) {
	t.Parallel()
	bubble(t, mesh.Line{Latency: time.Second}, func(t *testing.T, e ends) {
		write(t, e.near, "last words")
		if err := e.near.Close(); err != nil {
			t.Fatal(err)
		}
		read(t, e.far, "last words")
		if _, err := e.far.Read(make([]byte, 1)); err != io.EOF { //nolint:errorlint // exactly this
			t.Errorf("after the end: %v", err)
		}
		if _, err := e.near.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("write after close: %v", err)
		}
		if _, err := e.far.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("write to who has closed: %v", err)
		}
	})
}

func TestWritesOfManyStandWhole(t *testing.T) {
	t.Parallel()
	bubble(t, mesh.Line{}, func(t *testing.T, e ends) {
		locker, ok := e.near.(sync.Locker)
		if !ok {
			t.Fatal("the connection has no lock for paho")
		}
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for range 50 {
					locker.Lock()
					write(t, e.near, string(bytes.Repeat([]byte{byte('a' + i)}, 3)))
					write(t, e.near, string(bytes.Repeat([]byte{byte('A' + i)}, 3)))
					locker.Unlock()
				}
			})
		}
		for range 400 {
			var six [6]byte
			if _, err := io.ReadFull(e.far, six[:]); err != nil {
				t.Fatal(err)
			}
			if low := six[0]; low != six[1] || low != six[2] || six[3] != low-'a'+'A' || six[3] != six[5] {
				t.Fatalf("read %q", six)
			}
		}
		all.Wait()
	})
}

func TestAFullLineKeepsTheWriterWaiting(t *testing.T) {
	t.Parallel()
	bubble(t, mesh.Line{}, func(t *testing.T, e ends) {
		e.here.Shape(mesh.Line{HeldUntil: time.Now().Add(time.Hour)})
		if err := e.near.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for range 5 {
			if _, err := e.near.Write(make([]byte, 1<<20)); err != nil {
				if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Minute {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
				return
			}
		}
		t.Error("5 MiB found room on a line that is held")
	})
}
