package attack_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"muster/internal/trust"
	"muster/tests/programs"
)

// login is how a client of these tests introduces itself.
type login struct {
	user, clientID, password string // clientID "": user
	certificate              *tls.Certificate
	will                     *paho.WillMessage
	keepAlive                uint16 // 0: 30
}

// client is any MQTT 5 client, honest or not.
type client struct {
	t       *testing.T
	paho    *paho.Client
	connack *paho.Connack
	gone    chan struct{} // closed when the server ended the connection

	mu       sync.Mutex
	messages []*paho.Publish
	asked    int
}

// count numbers the requests of a connection.
func (c *client) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	return c.asked
}

// dial connects over TLS. The error holds the server's refusal; connack then
// has its reason.
func (s *site) dial(who login) (*client, error) {
	s.t.Helper()
	secure := &tls.Config{RootCAs: s.authority, MinVersion: tls.VersionTLS13}
	if who.certificate != nil {
		secure.Certificates = []tls.Certificate{*who.certificate}
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), programs.Patience)
	defer cancel()
	conn, err := (&tls.Dialer{Config: secure}).DialContext(ctx, "tcp", s.broker)
	if err != nil {
		return nil, err
	}
	c := &client{t: s.t, gone: make(chan struct{})}
	ended := sync.OnceFunc(func() { close(c.gone) })
	c.paho = paho.NewClient(paho.ClientConfig{
		Conn:               packets.NewThreadSafeConn(conn),
		OnClientError:      func(error) { ended() },
		OnServerDisconnect: func(*paho.Disconnect) { ended() },
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){func(p paho.PublishReceived) (bool, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.messages = append(c.messages, p.Packet)
			return true, nil
		}},
	})
	packet := &paho.Connect{ClientID: who.clientID, CleanStart: true, KeepAlive: 30, WillMessage: who.will,
		Username: who.user, UsernameFlag: who.user != "", Password: []byte(who.password), PasswordFlag: who.password != ""}
	if who.clientID == "" {
		packet.ClientID = who.user
	}
	if who.keepAlive > 0 {
		packet.KeepAlive = who.keepAlive
	}
	c.connack, err = c.paho.Connect(ctx, packet)
	if err != nil {
		_ = conn.Close()
		return c, err
	}
	s.t.Cleanup(func() { _ = c.paho.Disconnect(&paho.Disconnect{}) })
	return c, nil
}

// enter is dial for who must be let in.
func (s *site) enter(who login) *client {
	s.t.Helper()
	c, err := s.dial(who)
	if err != nil {
		s.t.Fatalf("%s is not let in: %v", who.user, err)
	}
	return c
}

// refused fails the test unless the server turns the login away.
func (s *site) refused(what string, who login) {
	s.t.Helper()
	if c, err := s.dial(who); err == nil {
		s.t.Errorf("%s was let in", what)
		_ = c.paho.Disconnect(&paho.Disconnect{})
	}
}

// subscribe returns the reason code that the server gives for a filter.
func (c *client) subscribe(filter string) byte {
	c.t.Helper()
	code := c.trySubscribe(filter)
	if code == noAnswer {
		c.t.Fatalf("no answer to SUBSCRIBE %s", filter)
	}
	return code
}

// noAnswer is no reason code of a SUBACK: the connection ended over it.
const noAnswer = 0xff

// trySubscribe is subscribe for a connection that may end over it.
func (c *client) trySubscribe(filter string) byte {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), programs.Patience)
	defer cancel()
	ack, _ := c.paho.Subscribe(ctx, &paho.Subscribe{Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: 1}}})
	if ack == nil || len(ack.Reasons) != 1 {
		return noAnswer
	}
	return ack.Reasons[0]
}

// message is what a client publishes.
type message struct {
	topic     string
	payload   string
	retain    bool
	signature trust.Signature
	answerTo  string
}

// publish sends at QoS 1 and returns the reason code, or the error of a
// connection that ended over it.
func (c *client) publish(m message) (byte, error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), programs.Patience)
	defer cancel()
	p := &paho.Publish{QoS: 1, Topic: m.topic, Payload: []byte(m.payload), Retain: m.retain, Properties: &paho.PublishProperties{ResponseTopic: m.answerTo}}
	if !m.signature.IsZero() {
		p.Properties.User.Add("kid", m.signature.KeyID)
		p.Properties.User.Add("sig", m.signature.Value)
	}
	ack, err := c.paho.Publish(ctx, p)
	if ack == nil {
		return 0, fmt.Errorf("no PUBACK: %w", err)
	}
	return ack.ReasonCode, nil
}

// received counts the messages that match.
func (c *client) received(match func(*paho.Publish) bool) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.messages {
		if match(m) {
			n++
		}
	}
	return n
}

// take waits for a message on a topic and returns the first.
func (c *client) take(topic string) *paho.Publish {
	c.t.Helper()
	var found *paho.Publish
	programs.Eventually(c.t, "a message on "+topic, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, m := range c.messages {
			if m.Topic == topic {
				found = m
				return true
			}
		}
		return false
	})
	return found
}

// ended waits until the server ends the connection and returns how long it took.
func (c *client) ended(within time.Duration) (time.Duration, error) {
	began := time.Now()
	select {
	case <-c.gone:
		return time.Since(began), nil
	case <-time.After(within):
		return within, errors.New("the connection still stands")
	}
}

// wire opens a raw TCP connection to a listener.
func wire(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// seqs numbers what these tests say in a terminal's name.
var seqs atomic.Int64

// nextSeq lies above what the terminal's own agent said.
func nextSeq() int64 { return time.Now().UnixMicro() + 1e9 + seqs.Add(1) }

// digest is the SHA-256 of a text in hex.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
