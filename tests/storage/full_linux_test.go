package storage_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/eclipse/paho.golang/packets"
	"golang.org/x/sys/unix"

	"muster/internal/protocol"
	"muster/tests/chaos/site"
	"muster/tests/disk"
	"muster/tests/programs"
)

// wire stands between an agent and its tap and counts the results that the agent
// sends, and those that headquarters' broker acknowledges (PUBACK).
type wire struct {
	t *testing.T

	mu    sync.Mutex
	sent  int
	acked int
}

// front is the Front of a site.
func (w *wire) front(_, addr string) string {
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = listen.Close() })
	go func() {
		for {
			near, err := listen.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", addr)
			if err != nil {
				_ = near.Close()
				continue
			}
			results := map[uint16]bool{} // of this connection, by packet id
			go w.follow(near, far, results)
			go w.follow(far, near, results)
		}
	}()
	return listen.Addr().String()
}

func (w *wire) follow(from, to net.Conn, results map[uint16]bool) {
	defer from.Close()
	defer to.Close()
	for passed := io.TeeReader(from, to); ; {
		pk, err := packets.ReadPacket(passed)
		if err != nil {
			return
		}
		w.mu.Lock()
		switch content := pk.Content.(type) {
		case *packets.Publish:
			if strings.HasSuffix(content.Topic, "/result") {
				w.sent++
				results[content.PacketID] = true
			}
		case *packets.Puback:
			if results[content.PacketID] {
				w.acked++
			}
		}
		w.mu.Unlock()
	}
}

func (w *wire) counts() (sent, acked int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent, w.acked
}

// noRoom is a way in which headquarters' data folder takes no more: what begins it
// returns what ends it.
type noRoom struct {
	begin func(t *testing.T, s *stand) (end func())
	kills bool // headquarters, and start it meanwhile
}

var noRooms = map[string]noRoom{
	// The ballast is spent, so that a start finds not a byte.
	"full disk": {kills: true, begin: func(t *testing.T, s *stand) func() {
		t.Helper()
		if err := os.Remove(filepath.Join(s.Data(), "muster.db.ballast")); err != nil {
			t.Fatal(err)
		}
		disk.Fill(t, s.Data())
		return func() { disk.Free(t, s.Data()) }
	}},
	"limit of the file size": {begin: func(t *testing.T, s *stand) func() {
		t.Helper()
		limit(t, s.HQ.PID(), uint64(sizeOf(t, filepath.Join(s.Data(), "muster.db-wal"))))
		return func() { limit(t, s.HQ.PID(), unix.RLIM_INFINITY) }
	}},
}

// limit bounds how large a file of the process may grow.
func limit(t *testing.T, pid int, bytes uint64) {
	t.Helper()
	var old unix.Rlimit
	err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &old)
	if err == nil {
		err = unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: old.Max}, nil)
	}
	if err != nil {
		programs.Lack(t, "a process cannot be limited: %v", err)
	}
}

// TestAnswersThatFindNoRoomAreKeptAndTakenInOnce: an answer that comes while
// headquarters cannot write has no acknowledgement and no receipt, its agent keeps
// it and sends it again, and it is in the report once there is room, once. Killed
// meanwhile, headquarters starts, with an attempt that runs, and says what it lacks.
func TestAnswersThatFindNoRoomAreKeptAndTakenInOnce(t *testing.T) {
	t.Parallel()
	for name, c := range noRooms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answersThatFindNoRoom(t, c)
		})
	}
}

func answersThatFindNoRoom(t *testing.T, c noRoom) {
	wire := &wire{t: t}
	s, eye := newStand(t, site.Config{
		Work: site.AwaitGate, Front: wire.front, Claims: site.Executed(),
		// Each kill makes the agent wait longer before it connects again.
		Policy: "attempts: 2, run_timeout: 2m, lease: 10m, barrier: 2m, makeup: 1h, retry_first: 100ms, retry_max: 1s",
	})
	disk.Small(t, s.Data(), 40)
	s.Serve()
	s.Agent("A")
	run := s.ask(600)
	s.Executed("A", 1)
	alarms := s.Alarms()
	end := c.begin(t, s)
	s.Open("A")
	s.wantSent(wire, 1)
	alarms.Await("disk_full", false)
	s.wantNoRoom()
	s.Tap("A").Cut() // rather than wait for half a minute
	s.wantSent(wire, 2)
	kills := 0
	switch {
	case c.kills && programs.Full():
		kills = 4
	case c.kills:
		kills = 1
	}
	for range kills {
		sent, _ := wire.counts()
		s.Fault(eye, true)
		s.HQ.Kill()
		disk.Fill(t, s.Data())
		s.Serve()
		s.Fault(eye, false)
		s.wantSent(wire, sent+1)
		s.wantNoRoom()
	}
	if kept := s.kept(); kept != 1 {
		t.Errorf("the agent keeps %d answers", kept)
	}
	if _, acked := wire.counts(); acked != 0 {
		t.Errorf("%d results were acknowledged without room for them", acked)
	}
	alarms = s.Alarms()
	end()
	alarms.Await("disk_full", true)
	s.Tap("A").Cut()
	s.wantSuccess("answered without room", run)
	programs.Eventually(t, "the receipt", func() bool { return s.kept() == 0 })
	if health := s.health(); health != "" {
		t.Errorf("with room health says %q", health)
	}
	if n := s.Executions("A"); n != 1 {
		t.Errorf("%d executions, want 1", n)
	}
	s.wantSuccess("asked for when there was room", s.ask(60))
	s.Judge(eye)
}

// wantSent waits until the agent has sent so many results.
func (s *stand) wantSent(w *wire, n int) {
	s.t.Helper()
	programs.Eventually(s.t, "a result on its way", func() bool { sent, _ := w.counts(); return sent >= n })
}

// kept is how many answers the agent holds.
func (s *stand) kept() int {
	s.t.Helper()
	found, err := filepath.Glob(filepath.Join(s.Kept("A"), "outbox", "*.answer"))
	if err != nil {
		s.t.Fatal(err)
	}
	return len(found)
}

// wantNoRoom wants headquarters to say what it lacks.
func (s *stand) wantNoRoom() {
	s.t.Helper()
	if said, code := dispatcher(s.t, "health", "--data", s.Data()); code == 0 || !strings.Contains(said, "no room to store anything") {
		s.t.Errorf("health ends with %d: %s", code, said)
	}
	s.n++
	if reply := s.Ask(s.person, protocol.VerbRun, fmt.Sprintf(`{"requestId":"refused%d","job":"probe","stores":["A"],"barrierSeconds":60}`, s.n)); reply.OK || reply.Code != protocol.CodeInternal {
		s.t.Errorf("an order without room: %+v", reply)
	}
}
