// Package link keeps one MQTT 5 connection of this terminal to the broker:
// dial, subscribe, hand messages over, dial again.
//
// It guarantees nothing: what is sent may be lost, and the agent sends again
// until headquarters answers. It keeps no session and no queue across
// connections, and knows no message's content.
package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/eclipse/paho.golang/paho"

	"muster/internal/protocol"
	"muster/internal/trust"
)

// Handler takes in what the link brings. Calls come one after another; each
// returns in milliseconds.
type Handler interface {
	// Up says that messages flow, both ways.
	Up()
	// Down says that the connection of the last Up is gone.
	Down()
	// Message hands over one message. It is acknowledged to the broker after
	// Message returns. Payload may be kept. The signature is what came with it,
	// unchecked.
	Message(topic string, payload []byte, signature trust.Signature)
	// Presence gives the payload that says this terminal is online or not,
	// since this connection began. It is called for each connection before Up, so
	// that its number counts connections.
	Presence(sessionID string, online bool) []byte
}

// Config is how to reach the broker.
type Config struct {
	Broker   *url.URL // mqtt, mqtts, ws or wss
	TLS      *tls.Config
	Store    string
	Terminal string
	User     string
	Password string
	Topics   protocol.Topics
	Logger   *slog.Logger
	// Dial reaches an address; nil: over the network of this machine.
	Dial Dial
	// Signer gives the key that signs what the terminal says now; nil: identity
	// off, nothing is signed, and headquarters' list of keys is not asked for.
	Signer func() *trust.Signer
}

// Link is one connection that is made again for ever. Send is safe for
// concurrent use.
type Link struct {
	cfg     Config
	handler Handler

	mu    sync.Mutex
	queue chan outgoing // nil while down
}

type outgoing struct {
	topic   string
	payload []byte
	retain  bool
}

const (
	// keepAlive is how long a dead connection may go unseen (one and a half
	// times it, in fact): short against a lease, cheap on a metered link.
	keepAlive = 30 * time.Second
	// connectTimeout bounds dialling, and again the handshake with the broker.
	connectTimeout = 10 * time.Second
	// queueLength bounds messages that wait for a slow link. A terminal says a
	// handful of things a task; what finds no room is sent again later.
	queueLength = 256
	// settled is how long a connection must live for the next failure to count
	// as the first.
	settled = 10 * time.Second
	// takenOver and takenOverMost bound the wait after another client took this
	// identity, twice as long each time, so that two cloned terminals do not throw
	// each other out all day: twice a minute at first, twelve times an hour soon.
	takenOver     = 30 * time.Second
	takenOverMost = 5 * time.Minute
	// unrivalled is how long a connection must live for the other client to be
	// taken to be gone: more than twice the longest wait of both.
	unrivalled = 30 * time.Minute
	// lastWords lets acknowledgements and the offline presence leave before the
	// connection is closed.
	lastWords = 100 * time.Millisecond
	// parting bounds what a link takes to end, over whatever connection: within
	// the 5 s that a service manager is promised, killed work included.
	parting = time.Second
)

// New returns a link that is not yet connected.
func New(cfg Config, handler Handler) *Link {
	if cfg.Dial == nil {
		cfg.Dial = new(net.Dialer).DialContext
	}
	return &Link{cfg: cfg, handler: handler}
}

// Run connects, and connects again whenever the connection is lost, until ctx
// ends; then it says goodbye and returns.
func (l *Link) Run(ctx context.Context) {
	failures, rivals := 0, 0
	wait := rand.N(250 * time.Millisecond) // many terminals start with the power
	for {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		up, err := l.connect(ctx)
		if ctx.Err() != nil {
			return
		}
		failures = failuresBefore(failures, up, time.Now())
		wait = backOff(failures)
		var gone *goneError
		if !up.IsZero() && time.Since(up) >= unrivalled {
			rivals = 0
		}
		if errors.As(err, &gone) && gone.takenOver {
			wait += rivalWait(rivals)
			rivals++
			l.cfg.Logger.Error("another machine connects with the identity of this terminal; stop one of the two, "+
				"and enrol anew the one that stays", "store_id", l.cfg.Store, "terminal_id", l.cfg.Terminal, "times", rivals)
		}
		failures++
		l.cfg.Logger.Warn("link is down", "broker", l.cfg.Broker.Redacted(), "error", err, "retry_in", wait)
	}
}

// failuresBefore returns how many failures in a row stand before the one at now,
// which ended a connection that was up since up. A zero up means that it was
// never up: the time that a silent broker was waited for does not count.
func failuresBefore(failures int, up, now time.Time) int {
	if !up.IsZero() && now.Sub(up) >= settled {
		return 0
	}
	return failures
}

// backOff returns the wait after the given number of earlier failures: 1 s
// doubled up to 30 s, of which half to one and a half times is taken, so that
// a thousand terminals do not come back in step.
func backOff(failures int) time.Duration {
	const first, most = time.Second, 30 * time.Second
	full := min(most, first<<min(failures, 10))
	return full/2 + rand.N(full)
}

// rivalWait returns the least wait after another client took the identity, when it
// did so many times before.
func rivalWait(before int) time.Duration {
	return min(takenOverMost, takenOver<<min(before, 10))
}

// Send hands a message of this terminal to the connection and reports whether
// there was one with room. True means handed over, not delivered. It never
// blocks.
func (l *Link) Send(kind protocol.Kind, payload []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queue == nil {
		return false
	}
	select {
	case l.queue <- outgoing{topic: l.topic(kind), payload: payload}:
		return true
	default:
		return false
	}
}

func (l *Link) topic(kind protocol.Kind) string {
	return l.cfg.Topics.Terminal(l.cfg.Store, l.cfg.Terminal, kind)
}

func (l *Link) open(queue chan outgoing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = queue
}

// goneError says how an established connection ended.
type goneError struct {
	reason    string
	takenOver bool
}

func (e *goneError) Error() string { return e.reason }

// reasonTakenOver is MQTT 5's "Session taken over" (section 3.14.2.1).
const reasonTakenOver = 0x8e

// connect makes one connection and serves it until it or ctx ends. up is when it
// stood, the zero time when it never did.
func (l *Link) connect(ctx context.Context) (up time.Time, err error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	dialCtx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := l.cfg.Dial.closing(ctx).broker(dialCtx, l.cfg.Broker, l.cfg.TLS)
	if err != nil {
		return up, fmt.Errorf("cannot reach the broker: %w", err)
	}
	gone := make(chan error, 1)
	lost := func(err error) {
		select {
		case gone <- err:
		default:
		}
	}
	alive := &pinger{}
	client := paho.NewClient(paho.ClientConfig{
		Conn:          conn,
		PingHandler:   alive,
		Session:       newWatchedSession(l.cfg.Logger),
		PacketTimeout: connectTimeout,
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){
			func(p paho.PublishReceived) (bool, error) {
				l.handler.Message(p.Packet.Topic, p.Packet.Payload, signatureOf(p.Packet.Properties))
				return true, nil
			}},
		OnClientError: lost,
		OnServerDisconnect: func(d *paho.Disconnect) {
			lost(&goneError{reason: fmt.Sprintf("the broker closed the connection: reason 0x%02x", d.ReasonCode),
				takenOver: d.ReasonCode == reasonTakenOver})
		},
	})
	packet, sessionID := l.connectPacket()
	ack, err := client.Connect(dialCtx, packet)
	if err != nil {
		return up, l.refusal(ack, err)
	}
	if err := l.subscribe(ctx, client); err != nil {
		return up, errors.Join(err, client.Disconnect(&paho.Disconnect{}))
	}
	l.cfg.Logger.Info("link is up", "broker", l.cfg.Broker.Redacted(), "session_id", sessionID)
	up = time.Now()
	return up, l.serve(ctx, &wire{client, alive}, sessionID, gone)
}

// reasonNotAuthorized is MQTT 5's "Not authorized" (section 3.2.2.2).
const reasonNotAuthorized = 0x87

func (l *Link) refusal(ack *paho.Connack, err error) error {
	if ack == nil {
		return fmt.Errorf("cannot connect: %w", err)
	}
	if ack.ReasonCode == reasonNotAuthorized && l.cfg.Signer != nil {
		return fmt.Errorf("cannot connect: the broker does not take this terminal's certificate: %w; "+
			"ask headquarters for a new token, run: edge-agent enroll --force, and start the agent again", err)
	}
	return fmt.Errorf("cannot connect: the broker refused with reason 0x%02x: %w", ack.ReasonCode, err)
}

// wire is one connection that stands.
type wire struct {
	*paho.Client
	alive *pinger
}

// serve sends what is queued until the connection or ctx ends.
func (l *Link) serve(ctx context.Context, client *wire, sessionID string, gone <-chan error) error {
	queue := make(chan outgoing, queueLength)
	queue <- outgoing{topic: l.topic(protocol.KindPresence), payload: l.handler.Presence(sessionID, true), retain: true}
	l.open(queue)
	l.handler.Up()
	defer l.handler.Down()
	defer l.open(nil)
	for {
		select {
		case <-ctx.Done():
			l.goodbye(client, queue, sessionID)
			return ctx.Err()
		case err := <-gone:
			return err
		case out := <-queue:
			// The connection's end shows on gone, not here.
			l.publish(ctx, client, out)
		}
	}
}

// goodbye sends what is still queued and leaves in good order, so that the
// broker publishes no will.
func (l *Link) goodbye(client *wire, queue chan outgoing, sessionID string) {
	l.open(nil)
	ctx, cancel := context.WithTimeout(context.Background(), parting)
	defer cancel()
	for len(queue) > 0 {
		l.publish(ctx, client, <-queue)
	}
	l.publish(ctx, client, outgoing{topic: l.topic(protocol.KindPresence), retain: true,
		payload: l.handler.Presence(sessionID, false)})
	timer := time.NewTimer(lastWords)
	defer timer.Stop()
	<-timer.C
	if err := client.Disconnect(&paho.Disconnect{}); err != nil {
		l.cfg.Logger.Debug("goodbye did not leave", "error", err)
	}
}

// publish writes one message without waiting for its acknowledgement, so that
// order is kept and one slow answer holds up nothing.
func (l *Link) publish(ctx context.Context, client *wire, out outgoing) {
	client.alive.Carries(len(out.payload))
	_, err := client.PublishWithOptions(ctx, &paho.Publish{
		QoS: 1, Topic: out.topic, Payload: out.payload, Retain: out.retain,
		Properties: &paho.PublishProperties{ContentType: "application/json", User: l.signed(out.topic, out.payload)},
	}, paho.PublishOptions{Method: paho.PublishMethod_AsyncSend})
	if err != nil {
		l.cfg.Logger.Debug("message did not leave", "topic", out.topic, "error", err)
	}
}
