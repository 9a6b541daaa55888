package link_test

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"muster/broker/server"
	"muster/edge-agent/internal/hqtest"
	"muster/edge-agent/internal/identity"
	"muster/edge-agent/internal/link"
	"muster/internal/protocol"
	"muster/internal/trust"
)

// gate stands before the broker: it may speak TLS, and it can cut.
type gate struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
	shown chan *x509.Certificate // of each client, with TLS
}

func newGate(t *testing.T, broker string, config *tls.Config) *gate {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{Listener: listener, shown: make(chan *x509.Certificate, 100)}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { g.serve(conn, broker, config) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		g.cut()
		all.Wait()
	})
	return g
}

func (g *gate) serve(conn net.Conn, broker string, config *tls.Config) {
	defer conn.Close()
	if config != nil {
		over := tls.Server(conn, config)
		if err := over.Handshake(); err != nil {
			return
		}
		g.shown <- over.ConnectionState().PeerCertificates[0]
		conn = over
	}
	onward, err := net.Dial("tcp", broker)
	if err != nil {
		return
	}
	g.mu.Lock()
	g.conns = append(g.conns, conn, onward)
	g.mu.Unlock()
	go func() {
		defer conn.Close()
		_, _ = io.Copy(conn, onward) // ends with either
	}()
	defer onward.Close()
	_, _ = io.Copy(onward, conn)
}

// cut ends every connection without a word.
func (g *gate) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, conn := range g.conns {
		_ = conn.Close()
	}
	g.conns = nil
}

func signing(t *testing.T) (ed25519.PublicKey, func(*link.Config)) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer := trust.NewSigner(private)
	return public, func(c *link.Config) { c.Signer = func() *trust.Signer { return signer } }
}

func TestEverythingThatIsSaidIsSignedPresenceAndWillToo(t *testing.T) {
	t.Parallel()
	b := newBench(t, tcp("127.0.0.1:0"))
	presence := b.topics.Terminal("007", "pos-1", protocol.KindPresence)
	heard := b.listen(presence)
	gate := newGate(t, b.broker.Addr("tcp").String(), nil)
	public, sign := signing(t)
	r := &recorder{events: make(chan string, 1000)}
	l, _ := b.run(r, &url.URL{Scheme: "mqtt", Host: gate.Addr().String()}, sign)
	r.wait(t, "up")
	check := func(topic, payload string, s trust.Signature) {
		t.Helper()
		if err := s.Verify(public, topic, []byte(payload)); err != nil || s.KeyID != trust.KeyID(public) {
			t.Errorf("%s %s is signed by %q: %v", topic, payload, s.KeyID, err)
		}
	}
	born := next(t, heard)
	check(presence, string(born.Payload), read(born))
	l.Send(protocol.KindClaim, []byte(`{"taskId":"t1"}`))
	m := b.next()
	check(b.topics.Terminal("007", "pos-1", protocol.KindClaim), string(m.Payload), m.Signature)
	gate.cut()
	will := next(t, heard)
	if !strings.Contains(string(will.Payload), "false") {
		t.Errorf("will %s", will.Payload)
	}
	check(presence, string(will.Payload), read(will))
}

func TestSignaturesReachTheHandlerAndTheListOfKeysComesFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t, tcp("127.0.0.1:0"))
	address := &url.URL{Scheme: "mqtt", Host: b.broker.Addr("tcp").String()}
	b.publish(b.topics.Offer("007", "t1"), "offer", true)
	b.publish(b.topics.Trust(), "list", true)
	_, sign := signing(t)
	r := &recorder{events: make(chan string, 1000)}
	_, stop := b.run(r, address, sign)
	var seen []string
	for len(seen) < 2 {
		select {
		case event := <-r.events:
			if event != "up" {
				seen = append(seen, event)
			}
		case <-time.After(patience):
			t.Fatalf("got %v alone", seen)
		}
	}
	if seen[0] != b.topics.Trust()+" list" || seen[1] != b.topics.Offer("007", "t1")+" offer" {
		t.Errorf("got %v, want the list of keys first", seen)
	}
	orders := b.topics.Terminal("007", "pos-1", protocol.KindOrders)
	err := b.broker.Publish(t.Context(), server.Outgoing{Topic: orders, Payload: []byte("{}"),
		Signature: trust.Signature{KeyID: "k", Value: "v"}})
	if err != nil {
		t.Fatal(err)
	}
	r.wait(t, orders+" {} kid=k sig=v")
	stop()

	off := &recorder{events: make(chan string, 1000)}
	b.run(off, address)
	off.wait(t, b.topics.Offer("007", "t1")+" offer")
	b.publish(orders, "last", false)
	for {
		event := <-off.events
		if strings.HasPrefix(event, b.topics.Trust()) {
			t.Error("without identity the list of keys was asked for")
		}
		if event == orders+" last" {
			return
		}
	}
}

func TestTheNextConnectionShowsTheRenewedCertificate(t *testing.T) {
	t.Parallel()
	b := newBench(t, tcp("127.0.0.1:0"))
	hq := hqtest.New(t)
	folder := hq.Enrolled("007", "pos-1")
	id, err := identity.Open(folder, "007", "pos-1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	gate := newGate(t, b.broker.Addr("tcp").String(), &tls.Config{MinVersion: tls.VersionTLS13,
		Certificates: []tls.Certificate{hq.Server(time.Now().Add(-time.Hour), time.Now().Add(time.Hour))},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: hq.Pool()})
	r := &recorder{events: make(chan string, 1000)}
	b.run(r, &url.URL{Scheme: "mqtts", Host: gate.Addr().String()}, func(c *link.Config) { c.TLS, c.Signer = proving(id), id.Signer })
	r.wait(t, "up")
	first := <-gate.shown
	if holder, err := trust.HolderOf(first); err != nil || holder != id.Holder() {
		t.Errorf("shown %+v, %v", holder, err)
	}
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	if err := id.Replace(private, hq.Issue(public, id.Holder(), now.Add(-time.Minute), now.Add(time.Hour)), now); err != nil {
		t.Fatal(err)
	}
	gate.cut()
	r.wait(t, "down")
	r.wait(t, "up")
	if second := <-gate.shown; !public.Equal(second.PublicKey) {
		t.Error("the old certificate was shown again")
	}
}

func proving(id *identity.Identity) *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	id.Prove(config, "127.0.0.1")
	return config
}

func TestABrokerOfAnotherAuthorityIsNotSpokenTo(t *testing.T) {
	t.Parallel()
	b := newBench(t, tcp("127.0.0.1:0"))
	hq, other := hqtest.New(t), hqtest.New(t)
	id, err := identity.Open(hq.Enrolled("007", "pos-1"), "007", "pos-1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	gate := newGate(t, b.broker.Addr("tcp").String(), &tls.Config{MinVersion: tls.VersionTLS13,
		Certificates: []tls.Certificate{other.Server(time.Now().Add(-time.Hour), time.Now().Add(time.Hour))}})
	conn, err := tls.Dial("tcp", gate.Addr().String(), proving(id))
	if err == nil {
		_ = conn.Close()
		t.Error("another authority's broker was trusted")
	}
}

// listen subscribes as a technician and gives whole messages.
func (b *bench) listen(topic string) <-chan *paho.Publish {
	b.t.Helper()
	seen := make(chan *paho.Publish, 100)
	b.subscribe(topic, func(p *paho.Publish) { seen <- p })
	return seen
}

func next(t *testing.T, seen <-chan *paho.Publish) *paho.Publish {
	t.Helper()
	select {
	case p := <-seen:
		return p
	case <-time.After(patience):
		t.Fatal("nothing came")
		return nil
	}
}

func read(p *paho.Publish) trust.Signature {
	return trust.Signature{KeyID: p.Properties.User.Get("kid"), Value: p.Properties.User.Get("sig")}
}

func TestARefusedCertificateSaysWhatToDo(t *testing.T) {
	t.Parallel()
	hq := hqtest.New(t)
	files := hq.Files(hq.Server(time.Now().Add(-time.Hour), time.Now().Add(time.Hour)), t.TempDir())
	b := newBench(t, server.Listeners{TLS: server.ListenerConfig{Address: "127.0.0.1:0",
		CertFile: files.Certificate, KeyFile: files.Key, ClientCAFile: files.Authority}})
	id, err := identity.Open(hq.Enrolled("007", "pos-2"), "007", "pos-2", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 100)
	b.run(&recorder{events: make(chan string, 10)}, &url.URL{Scheme: "mqtts", Host: b.broker.Addr("tls").String()},
		func(c *link.Config) {
			c.TLS, c.Signer = proving(id), id.Signer
			c.Logger = slog.New(slog.NewTextHandler(lineWriter(lines), nil))
		})
	select {
	case line := <-lines:
		if !strings.Contains(line, "run: edge-agent enroll --force") {
			t.Errorf("told %s", line)
		}
	case <-time.After(patience):
		t.Error("nothing was told")
	}
}

type lineWriter chan string

func (w lineWriter) Write(p []byte) (int, error) {
	select {
	case w <- string(p):
	default: // the first one is looked at
	}
	return len(p), nil
}
