package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"sync"
	"time"

	"github.com/eclipse/paho.golang/autopaho"
	"github.com/eclipse/paho.golang/paho"

	"muster/dispatcher/internal/quarantine"
	"muster/internal/protocol"
)

const (
	// mqttWorkers take messages in, each a share of the topics, so that one
	// terminal's messages stay in order while commits overlap.
	mqttWorkers = 16
	// mqttQueue bounds what one worker has waiting. A full queue stops the
	// reading, and the broker holds the rest.
	mqttQueue = 4096
	// mqttSession is how long the broker keeps what arrives while headquarters
	// is away: a trigger sent during a restart must not be lost.
	mqttSession = 24 * time.Hour
	// retryFirst and retryMost bound the wait before a failed handler, or a
	// failed connection, is tried again.
	retryFirst = 200 * time.Millisecond
	retryMost  = 15 * time.Second
	// takenOver is the reason code of a DISCONNECT (MQTT 5, 3.14.2.1) that says
	// that somebody else logged in with our client id. Whoever it is, the two
	// must not take the session from each other in a loop.
	takenOver      = 0x8e
	takenOverPause = time.Minute
)

// MQTTConfig says how to reach an external broker.
type MQTTConfig struct {
	URL      *url.URL // mqtt, mqtts, ws or wss
	User     string   // also the client id
	Password string
	TLS      *tls.Config // for mqtts and wss; nil: system roots
}

// MQTT is a Link over any MQTT 5 broker. It acknowledges a message only after
// its handler returned nil, and tries a failed handler again in place, so that
// the broker's order and its redelivery after a crash both hold.
type MQTT struct {
	// Ward is told of what makes headquarters panic when it is taken in, or when a
	// connection begins. It may be set before Start; what NewMQTT puts there tells
	// the log alone.
	Ward *quarantine.Ward

	cfg       MQTTConfig
	topics    protocol.Topics
	handle    Handler
	connected func()
	log       *slog.Logger

	seed   maphash.Seed
	queues [mqttWorkers]chan delivery
	ready  chan struct{} // closed once the first subscription stands
	once   sync.Once

	mu     sync.Mutex
	conn   *autopaho.ConnectionManager
	run    context.Context // ends with Stop
	cancel context.CancelFunc
	taken  time.Time // when the session was last taken over
	wg     sync.WaitGroup
}

// delivery is a message on its way to a worker.
type delivery struct {
	in  Inbound
	ack func()
}

// NewMQTT returns a link that is not yet started. connected is called, from
// its own goroutine, every time the subscriptions stand: the broker may have
// lost what was retained.
func NewMQTT(cfg MQTTConfig, topics protocol.Topics, handle Handler, connected func(), log *slog.Logger) *MQTT {
	m := &MQTT{cfg: cfg, topics: topics, handle: handle, connected: connected, log: log,
		seed: maphash.MakeSeed(), ready: make(chan struct{}), Ward: &quarantine.Ward{Logger: log, Now: time.Now}}
	for i := range m.queues {
		m.queues[i] = make(chan delivery, mqttQueue)
	}
	return m
}

// Start connects and returns once subscribed, or with ctx's error. The link
// then reconnects by itself until Stop.
func (m *MQTT) Start(ctx context.Context) error {
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	conn, err := autopaho.NewConnection(run, m.clientConfig(run))
	if err != nil {
		cancel()
		return fmt.Errorf("cannot connect to %s: %w", m.cfg.URL.Redacted(), err)
	}
	m.mu.Lock()
	m.conn, m.run, m.cancel = conn, run, cancel
	m.mu.Unlock()
	for i := range m.queues {
		m.wg.Go(func() { m.work(run, m.queues[i]) })
	}
	select {
	case <-m.ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("cannot connect to %s: %w", m.cfg.URL.Redacted(), ctx.Err())
	}
}

// Stop disconnects and waits until the handlers have returned, connected too.
func (m *MQTT) Stop(ctx context.Context) error {
	m.mu.Lock()
	conn, cancel := m.conn, m.cancel
	m.mu.Unlock()
	if conn == nil {
		return nil
	}
	err := conn.Disconnect(ctx)
	m.mu.Lock()
	cancel()
	m.mu.Unlock()
	m.wg.Wait()
	if err != nil {
		return fmt.Errorf("cannot disconnect from %s: %w", m.cfg.URL.Redacted(), err)
	}
	return nil
}

// publishPatience bounds one publish: a broker that takes longer is down.
const publishPatience = 10 * time.Second

// Publish sends out and returns once the broker has acknowledged it, or not within ten
// seconds, or the link stops.
func (m *MQTT) Publish(ctx context.Context, out Outbound) error {
	m.mu.Lock()
	conn, run := m.conn, m.run
	m.mu.Unlock()
	if conn == nil {
		return errors.New("the link to the broker is not started")
	}
	ctx, cancel := context.WithTimeout(ctx, publishPatience)
	defer cancel()
	defer context.AfterFunc(run, cancel)()
	props := &paho.PublishProperties{CorrelationData: out.CorrelationData, ContentType: "application/json", User: userProperties(out.Signature)}
	if out.Expiry > 0 {
		seconds := uint32(max(1, out.Expiry/time.Second))
		props.MessageExpiry = &seconds
	}
	_, err := conn.Publish(ctx, &paho.Publish{
		QoS: 1, Topic: out.Topic, Payload: out.Payload, Retain: out.Retain, Properties: props,
	})
	if err != nil {
		return fmt.Errorf("the broker did not take it: %w", err)
	}
	return nil
}

func (m *MQTT) clientConfig(run context.Context) autopaho.ClientConfig {
	return autopaho.ClientConfig{
		ServerUrls:            []*url.URL{m.cfg.URL},
		TlsCfg:                m.cfg.TLS,
		KeepAlive:             30,
		SessionExpiryInterval: uint32(mqttSession / time.Second),
		ReconnectBackoff:      m.reconnectDelay,
		ConnectUsername:       m.cfg.User,
		ConnectPassword:       []byte(m.cfg.Password),
		ConnectPacketBuilder: func(c *paho.Connect, _ *url.URL) (*paho.Connect, error) {
			c.Properties.RequestProblemInfo = true
			c.Properties.RequestResponseInfo = true // our broker else keeps response topics from us
			return c, nil
		},
		OnConnectionUp: func(conn *autopaho.ConnectionManager, _ *paho.Connack) {
			m.spawn(run, func() { m.subscribe(run, conn) })
		},
		OnConnectionDown: func() bool {
			m.log.Warn("connection to the broker lost", "url", m.cfg.URL.Redacted())
			return true
		},
		OnConnectError: func(err error) {
			m.log.Warn("cannot connect to the broker", "url", m.cfg.URL.Redacted(), "error", err)
		},
		ClientConfig: paho.ClientConfig{
			ClientID:                   m.cfg.User,
			EnableManualAcknowledgment: true,
			OnServerDisconnect:         m.disconnected,
			OnPublishReceived: []func(paho.PublishReceived) (bool, error){
				func(pr paho.PublishReceived) (bool, error) { return true, m.enqueue(run, pr) },
			},
		},
	}
}

// disconnected takes the broker's word why it ended the connection.
func (m *MQTT) disconnected(d *paho.Disconnect) {
	if d.ReasonCode != takenOver {
		m.log.Warn("the broker ended the connection", "url", m.cfg.URL.Redacted(), "reason_code", d.ReasonCode)
		return
	}
	m.mu.Lock()
	m.taken = time.Now()
	m.mu.Unlock()
	m.log.Error("somebody else logged in at the broker as this dispatcher; is a second one running? only one may",
		"url", m.cfg.URL.Redacted(), "user", m.cfg.User, "pause", takenOverPause)
}

// reconnectDelay is the pause before an attempt to connect, counted from 0.
func (m *MQTT) reconnectDelay(attempt int) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if attempt == 0 && !m.taken.IsZero() && time.Since(m.taken) < takenOverPause {
		return takenOverPause
	}
	return backoffDelay(attempt)
}

// filters are what headquarters takes in. Retain as published lets the trigger
// see that a live command was sent with the retain flag.
func (m *MQTT) filters() []paho.SubscribeOptions {
	topics := []string{
		m.topics.Root() + "/req/+/+",
		m.topics.Root() + "/stores/+/terminals/+/" + string(protocol.KindPresence),
	}
	for _, kind := range protocol.FromTerminal() {
		topics = append(topics, m.topics.Root()+"/stores/+/terminals/+/"+string(kind))
	}
	options := make([]paho.SubscribeOptions, 0, len(topics))
	for _, topic := range topics {
		options = append(options, paho.SubscribeOptions{Topic: topic, QoS: 1, RetainAsPublished: true})
	}
	return options
}

// spawn does something beside that Stop waits for, and nothing once it is stopped.
func (m *MQTT) spawn(run context.Context, do func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if run.Err() == nil {
		m.wg.Go(do)
	}
}

func (m *MQTT) subscribe(run context.Context, conn *autopaho.ConnectionManager) {
	for attempt := 1; run.Err() == nil; attempt++ {
		_, err := conn.Subscribe(run, &paho.Subscribe{Subscriptions: m.filters()})
		switch {
		case err == nil:
			m.log.Info("connected to the broker", "url", m.cfg.URL.Redacted())
			m.once.Do(func() { close(m.ready) })
			_ = m.Ward.Do(quarantine.AlarmStep, "what is told that the broker was reached", func() error { m.connected(); return nil })
			return
		case errors.Is(err, autopaho.ConnectionDownError):
			return // the next connection subscribes
		}
		m.log.Warn("cannot subscribe at the broker", "url", m.cfg.URL.Redacted(), "error", err)
		pause(run, backoffDelay(attempt))
	}
}

func (m *MQTT) enqueue(run context.Context, pr paho.PublishReceived) error {
	d := delivery{
		in: Inbound{Topic: pr.Packet.Topic, Payload: pr.Packet.Payload, Retained: pr.Packet.Retain},
		ack: func() {
			if err := pr.Client.Ack(pr.Packet); err != nil {
				m.log.Debug("cannot acknowledge; the broker sends it again", "topic", pr.Packet.Topic, "error", err)
			}
		},
	}
	if p := pr.Packet.Properties; p != nil {
		d.in.ResponseTopic, d.in.CorrelationData, d.in.Signature = p.ResponseTopic, p.CorrelationData, signatureOf(p.User)
	}
	select {
	case m.queues[maphash.String(m.seed, pr.Packet.Topic)%mqttWorkers] <- d:
		return nil
	case <-run.Done():
		return run.Err()
	}
}

func (m *MQTT) work(run context.Context, queue <-chan delivery) {
	for {
		select {
		case d := <-queue:
			m.deliver(run, d)
		case <-run.Done():
			return
		}
	}
}

// deliver hands one message to the handler until it is taken. MQTT has no way
// to give a message back, and acknowledgements keep their order, so a failed
// one is tried again here. One that makes the handler panic would do so again: it is
// acknowledged and not taken in.
func (m *MQTT) deliver(run context.Context, d delivery) {
	for attempt := 1; run.Err() == nil; attempt++ {
		err := m.Ward.Do(quarantine.AlarmPanicked, d.in.Topic, func() error { return m.handle(run, d.in) })
		if err == nil || quarantine.Broke(err) {
			d.ack()
			return
		}
		m.log.Error("cannot take a message in; trying again", "topic", d.in.Topic, "attempt", attempt, "error", err)
		pause(run, backoffDelay(attempt))
	}
}

// backoffDelay doubles from retryFirst to retryMost with jitter of ±50 %. The
// first attempt is counted as 0 or 1 and never waits zero.
func backoffDelay(attempt int) time.Duration {
	delay := retryMost
	if attempt < 7 {
		delay = min(retryMost, retryFirst<<max(0, attempt-1))
	}
	return delay/2 + rand.N(delay)
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
