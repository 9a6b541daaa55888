package enrol

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxKnown bounds the parties that limits remembers. Beyond it those that are at
// rest are forgotten, which changes nothing for them; when none is, all others
// share one bucket.
const maxKnown = 20_000

// limits holds one token bucket a party: an address, or a terminal.
type limits[Party comparable] struct {
	rate  rate.Limit
	burst int

	mu      sync.Mutex
	buckets map[Party]*rate.Limiter
	others  *rate.Limiter
}

func newLimits[Party comparable](r rate.Limit, burst int) *limits[Party] {
	return &limits[Party]{rate: r, burst: burst, buckets: map[Party]*rate.Limiter{}, others: rate.NewLimiter(r, burst)}
}

// allow takes a token of the party at a time of a clock that does not step: one that
// was set back would leave an empty bucket empty until it is there again.
func (l *limits[Party]) allow(party Party, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bucket(party, now).AllowN(now, 1)
}

func (l *limits[Party]) bucket(party Party, now time.Time) *rate.Limiter {
	if bucket, ok := l.buckets[party]; ok {
		return bucket
	}
	if len(l.buckets) >= maxKnown {
		for other, bucket := range l.buckets {
			if bucket.TokensAt(now) >= float64(l.burst) {
				delete(l.buckets, other)
			}
		}
		if len(l.buckets) >= maxKnown {
			return l.others
		}
	}
	bucket := rate.NewLimiter(l.rate, l.burst)
	l.buckets[party] = bucket
	return bucket
}

// network is what counts as one address: a whole /64 in IPv6, where a machine may
// take any address of it. The zero value is for none that can be read.
func network(address string) netip.Prefix {
	from, err := netip.ParseAddrPort(address)
	if err != nil {
		return netip.Prefix{}
	}
	ip, bits := from.Addr().Unmap().WithZone(""), 32
	if ip.Is6() {
		bits = 64
	}
	prefix, err := ip.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return prefix
}

// door closes the connections over its limits as they come, so that a thousand
// silent ones hold nothing, and those of one address leave room for others.
type door struct {
	net.Listener
	most, mostEach int

	mu   sync.Mutex
	open int
	each map[netip.Prefix]int
}

func newDoor(l net.Listener, most int) *door {
	return &door{Listener: l, most: most, mostEach: most / 4, each: map[netip.Prefix]int{}}
}

// Accept returns the next connection within the limits.
func (d *door) Accept() (net.Conn, error) {
	for {
		conn, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := network(conn.RemoteAddr().String())
		if d.enter(from) {
			return &guest{Conn: conn, leave: sync.OnceFunc(func() { d.leave(from) })}, nil
		}
		_ = conn.Close()
	}
}

func (d *door) enter(from netip.Prefix) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open >= d.most || d.each[from] >= d.mostEach {
		return false
	}
	d.open++
	d.each[from]++
	return true
}

func (d *door) leave(from netip.Prefix) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open--
	if d.each[from]--; d.each[from] == 0 {
		delete(d.each, from)
	}
}

// guest gives its place back when it is closed.
type guest struct {
	net.Conn
	leave func()
}

// Close gives the place back once.
func (g *guest) Close() error {
	defer g.leave()
	return g.Conn.Close()
}
