package hostile_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"time"
)

// attacker opens one hostile connection after another.
type attacker struct {
	r      *rand.Rand
	number int
	addr   string
	user   string

	connections, packets int
}

// patience bounds how long an attacker waits for the broker's answer.
const patience = 20 * time.Millisecond

func newAttacker(seed uint64, number int, addr string) *attacker {
	return &attacker{r: rand.New(rand.NewPCG(seed, uint64(number))), number: number, addr: addr}
}

func (a *attacker) work(ctx context.Context) {
	attacks := []func(net.Conn){a.noise, a.brokenConnect, a.session, a.session, a.session, a.half, a.flood, a.deaf, a.promise, a.takeover}
	for ctx.Err() == nil {
		a.user = fmt.Sprintf("mallory%d-%d", a.number, a.r.IntN(10_000)) // a name that comes too often is banned
		if a.r.IntN(2) == 0 {
			a.user = "X1/" + a.user
		}
		conn, err := a.dial(ctx)
		if err != nil {
			continue // over a cap, or out of ports: others must not feel it
		}
		a.connections++
		attacks[a.r.IntN(len(attacks))](conn)
		_ = conn.Close()
	}
}

// dial comes from a loopback address of its own; half of the connections end
// with a reset.
func (a *attacker) dial(ctx context.Context) (net.Conn, error) {
	dialer := net.Dialer{Timeout: time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(2+a.number))}}
	conn, err := dialer.DialContext(ctx, "tcp", a.addr)
	if tcp, ok := conn.(*net.TCPConn); ok && a.r.IntN(2) == 0 {
		_ = tcp.SetLinger(0) // then it closes as usual
	}
	return conn, err
}

func (a *attacker) version() byte { return []byte{5, 5, 4, 3}[a.r.IntN(4)] }

func (a *attacker) send(conn net.Conn, packet []byte) bool {
	a.packets++
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second)) // the write says it
	_, err := conn.Write(packet)
	return err == nil
}

// listen reads for a moment, or until the broker has had enough.
func (a *attacker) listen(conn net.Conn) {
	_ = conn.SetReadDeadline(time.Now().Add(time.Duration(a.r.Int64N(int64(patience)))))
	_, _ = io.Copy(io.Discard, conn) // whatever comes
}

func (a *attacker) login(conn net.Conn, version byte) bool {
	return a.send(conn, connect(version, a.user, a.r.IntN(2) == 0))
}

func (a *attacker) noise(conn net.Conn) {
	a.send(conn, random(a.r, 1+a.r.IntN(2_000)))
	a.listen(conn)
}

func (a *attacker) brokenConnect(conn net.Conn) {
	version := a.version()
	packet := connect(version, a.user, true)
	if a.r.IntN(2) == 0 {
		packet = connectWithWill(version, a.user, places(a.user)[a.r.IntN(len(places(a.user)))])
	}
	a.send(conn, mutate(a.r, packet))
	a.listen(conn)
}

// session logs in and sends packets of all kinds, some of them broken.
func (a *attacker) session(conn net.Conn) {
	version := a.version()
	if !a.login(conn, version) {
		return
	}
	for range 1 + a.r.IntN(40) {
		packet := a.packet(version)
		if a.r.IntN(8) == 0 {
			packet = mutate(a.r, packet)
		}
		if !a.send(conn, packet) {
			return
		}
	}
	a.listen(conn)
}

func (a *attacker) packet(version byte) []byte {
	all := places(a.user)
	topic, id := all[a.r.IntN(len(all))], uint16(a.r.IntN(12))
	switch a.r.IntN(9) {
	case 0, 1:
		return subscribe(version, id, topic, all[a.r.IntN(len(all))])
	case 2, 3, 4:
		return publish(version, byte(a.r.IntN(3)), id, topic, random(a.r, a.r.IntN(200)))
	case 5:
		return unsubscribe(version, id, topic)
	case 6:
		return acknowledge([]byte{0x40, 0x50, 0x62, 0x70}[a.r.IntN(4)], id)
	case 7:
		return frame(0xc0)
	}
	return frame([]byte{0xe0, 0xf0, 0x20, 0x90, 0xd0, 0x00}[a.r.IntN(6)], random(a.r, a.r.IntN(4)))
}

// half sends a part of a packet and says no more.
func (a *attacker) half(conn net.Conn) {
	packet := connect(5, a.user, true)
	if a.r.IntN(2) == 0 {
		a.send(conn, packet)
		packet = a.packet(5)
	}
	a.send(conn, packet[:a.r.IntN(len(packet))])
	a.listen(conn)
}

// flood asks headquarters as fast as it can and reads nothing.
func (a *attacker) flood(conn net.Conn) {
	if !a.login(conn, 5) {
		return
	}
	var burst []byte
	for i := range 200 {
		burst = append(burst, publish(5, 1, uint16(1+i), places(a.user)[0], random(a.r, 100))...)
	}
	for range 10 {
		if !a.send(conn, burst) {
			return
		}
	}
}

// deaf subscribes to what it floods itself with and never reads.
func (a *attacker) deaf(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(1 << 10) // the smallest the system allows
	}
	if !a.login(conn, 5) || !a.send(conn, subscribe(5, 1, places(a.user)[2], places(a.user)[7])) {
		return
	}
	a.flood(conn)
}

// promise announces far more bytes than come.
func (a *attacker) promise(conn net.Conn) {
	if a.r.IntN(2) == 0 && !a.login(conn, 5) {
		return
	}
	a.send(conn, []byte{0x30, 0xff, 0xff, 0xff, 0x7f, 1, 2, 3})
	a.listen(conn)
}

// takeover comes again under its own name while it is still there.
func (a *attacker) takeover(conn net.Conn) {
	for range 5 {
		again, err := a.dial(context.Background())
		if err != nil {
			return
		}
		a.connections++
		a.login(again, a.version())
		defer again.Close()
	}
	a.login(conn, 5)
	a.listen(conn)
}
