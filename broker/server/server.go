// Package server is the MQTT 5 broker: the MQTT library inside our own
// listeners, access rules, users and limits. The dispatcher embeds it; the
// program broker runs it alone.
//
// Embedded, messages for headquarters go to Options.Intake before they are
// acknowledged and to nobody else. Alone, they are delivered to whoever holds
// the role dispatcher. The broker decides nothing about runs and tasks, and
// keeps nothing on disk: it may lose everything at any moment.
package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/listeners"
	"github.com/mochi-mqtt/server/v2/packets"

	"muster/broker/server/access"
	"muster/broker/server/ban"
	"muster/broker/server/credential"
	"muster/broker/server/door"
	"muster/broker/server/guard"
	"muster/broker/server/quiet"
	"muster/broker/server/retain"
	"muster/broker/server/route"
	"muster/broker/server/seat"
	"muster/internal/logs"
	"muster/internal/trust"
)

// Message is a message for headquarters. Payload and CorrelationData must not
// be changed; they may be kept.
type Message struct {
	Topic           string
	Payload         []byte
	Retained        bool // was sent with the retain flag; it is not stored
	ResponseTopic   string
	CorrelationData []byte
	Signature       trust.Signature // of the user properties; zero when there is none
	ClientID        string
	User            string // the authenticated name; a terminal's is "{store}/{terminal}"
	Role            string
}

// Session says that a terminal's connection began or ended.
type Session struct {
	StoreID    string
	TerminalID string
	SessionID  string // names one connection
	Online     bool
	At         time.Time
}

// Outgoing is a message of headquarters. An empty payload with Retain withdraws
// what was retained. Expiry 0 means never; it is rounded up to seconds.
type Outgoing struct {
	Topic           string
	Payload         []byte
	Retain          bool
	Expiry          time.Duration
	CorrelationData []byte
	Signature       trust.Signature // travels as user properties; zero: none
	Soon            bool            // may leave some milliseconds later, with others to the same client
}

// Options are what the embedding program supplies. All may be left zero.
type Options struct {
	Logger *slog.Logger
	// Intake takes a message of stores/+/terminals/+/{claim,progress,ready,
	// result,hello} or req/+/+ in, before it is acknowledged. After nil the
	// message is acknowledged, and neither delivered nor retained; after an
	// error or a panic it is never acknowledged. It is called from each
	// client's own goroutine and its context ends when the broker stops.
	Intake func(ctx context.Context, m Message) error
	// Session is called when a terminal's session begins or ends, in order for
	// each terminal. A connection that replaces an older one of the same
	// terminal is reported as online only. While it runs, that terminal waits.
	Session func(Session)
	// Banned is called when a client's ban begins, from the goroutine of its
	// connection. It must not wait.
	Banned func(Ban)
	// ManagedPresence means that headquarters publishes presence: what a
	// terminal publishes about its own is acknowledged and ignored, and its
	// presence will is accepted and dropped.
	ManagedPresence bool
	// Served makes retained messages when they are asked for, instead of the broker
	// keeping them; nil: it keeps all.
	Served Served
	// OwnFiles is how many files the program opens beside connections. They are
	// kept free of connections where the system allows few files.
	OwnFiles int
	// Now is the time by which certificates are good; nil: this machine's clock.
	Now func() time.Time
	// Listen opens the listeners; nil: on the network of this machine.
	Listen func(ctx context.Context, network, address string) (net.Listener, error)
	// Interop is for the interoperability tests alone.
	Interop *Interop
}

// Server is a broker. Its methods are safe for concurrent use.
type Server struct {
	cfg    Config
	opts   Options
	log    *slog.Logger
	rules  *access.Rules
	judge  Access // rules, unless Options.Interop says otherwise
	door   door.Door
	secure map[string]*credential.Set // by listener; those without TLS are missing
	caps   *guard.Caps
	// connects bans client ids that connect again and again.
	connects *ban.List
	seats    *seat.Table[*peer]
	broker   *mqtt.Server
	// retained replaces the library's own store, which capabilities turn off.
	retained retain.Store[extras]
	readers  route.Table // in place of the library's own too
	wills    wills
	tour     guard.Tour   // of what may wait for company
	spare    logs.Sparing // what is said of what clients cause again and again

	ctx    context.Context // ends when Stop begins
	cancel context.CancelFunc

	mu      sync.Mutex
	open    []listener
	addrs   map[string]net.Addr
	started bool
	watcher sync.WaitGroup
	stopped chan struct{}
	once    sync.Once
	serial  atomic.Uint64
}

type listener interface {
	listeners.Listener
	Wait()
}

// New checks the configuration, loads the users file and prepares a broker. It
// opens no socket. A wrong configuration, or users file, is a *FieldError.
func New(cfg Config, opts Options) (*Server, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(nil); err != nil {
		return nil, fmt.Errorf("cannot configure the broker: %w", err)
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Listen == nil {
		opts.Listen = new(net.ListenConfig).Listen
	}
	d, err := cfg.door(opts)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		cfg: cfg, opts: opts, log: opts.Logger,
		rules:    access.New(cfg.TopicRoot),
		door:     d,
		connects: ban.New(cfg.Limits.FlappingConnects+1, cfg.Limits.FlappingWindow, cfg.Limits.FlappingBan),
		secure:   map[string]*credential.Set{},
		caps:     cfg.Limits.caps(opts.OwnFiles),
		seats:    seat.New[*peer](),
		ctx:      ctx,
		cancel:   cancel,
		addrs:    map[string]net.Addr{},
		stopped:  make(chan struct{}),
	}
	s.judge = opts.access(s.rules)
	s.broker = mqtt.New(&mqtt.Options{
		Capabilities:            opts.bend(capabilities(cfg.Limits)),
		ClientNetReadBufferSize: 16, // the connection has one, which it shares
		// Each packet goes to the connection at once: that gathers writes itself,
		// and the library forgets what it gathers when a later packet is too large.
		ClientNetWriteBufferSize: 1,
		SysTopicResendInterval:   60,
		Logger:                   quiet.Logger(opts.Logger),
	})
	if err := s.broker.AddHook(&hook{s: s}, nil); err != nil {
		cancel()
		return nil, fmt.Errorf("cannot prepare the broker: %w", err)
	}
	return s, nil
}

// capabilities turn off what the design does without: topic aliases, the
// library's own store of retained messages, and its expiry after a day.
func capabilities(l Limits) *mqtt.Capabilities {
	c := mqtt.NewDefaultServerCapabilities()
	c.MaximumMessageExpiryInterval = 0
	c.MaximumClientWritesPending = 1 // nothing goes by the library's queue of a client
	c.MaximumSessionExpiryInterval = uint32(l.SessionExpiry / time.Second)
	c.TopicAliasMaximum = 0
	c.RetainAvailable = 0 // not announced to clients; see package retain
	c.Compatibilities.NoInheritedPropertiesOnAck = true
	return c
}

// Start opens the listeners and returns when they listen. On an error, a *FieldError
// when it is a listener's, nothing stays open and the server must be discarded.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started || s.ctx.Err() != nil {
		return fmt.Errorf("cannot start the broker: it was started or stopped before")
	}
	for _, name := range ListenerNames() {
		if err := s.listen(ctx, name, s.cfg.Listeners.Named(name)); err != nil {
			s.closeSockets()
			return fmt.Errorf("cannot start the broker: %w", err)
		}
	}
	if err := s.broker.Serve(); err != nil {
		s.closeSockets()
		return fmt.Errorf("cannot start the broker: %w", err)
	}
	s.started = true
	if len(s.secure) > 0 || !s.cfg.Anonymous {
		s.watcher.Go(s.watch)
	}
	for name, addr := range s.addrs {
		s.log.Info("broker listens", "listener", name, "address", addr.String())
		if s.cfg.Listeners.Named(name).open() {
			s.log.Warn("this listener serves other machines without TLS: passwords and messages can be read on the way",
				"listener", name, "address", addr.String())
		}
	}
	return nil
}

func (s *Server) closeSockets() {
	for _, l := range s.open {
		l.Close(func(string) {})
	}
}

// Stop says goodbye to the clients, closes every socket and waits until Intake
// and Session have returned, or until ctx ends. It tolerates being called twice
// or before Start.
func (s *Server) Stop(ctx context.Context) error {
	s.once.Do(func() {
		s.log.Info("broker stops", "connected", s.Connected())
		s.cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.started {
			close(s.stopped)
			return
		}
		go func() {
			defer close(s.stopped)
			_ = s.broker.Close() // always nil
			for _, l := range s.open {
				l.Wait()
			}
			s.watcher.Wait()
			s.wills.stop()
		}()
	})
	select {
	case <-s.stopped:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("cannot stop the broker in time: %w", ctx.Err())
	}
}

// Addr is where a listener ("tcp", "tls" or "ws") listens, nil when it does not.
func (s *Server) Addr(name string) net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addrs[name]
}

// Connected is how many clients have an established connection.
func (s *Server) Connected() int {
	return int(atomic.LoadInt64(&s.broker.Info.ClientsConnected))
}

// Publish hands a message of headquarters to the broker at QoS 1. Nil means
// handed over: a client that is away or has too much waiting does not get it.
// Payload must not be changed afterwards.
func (s *Server) Publish(ctx context.Context, out Outgoing) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("cannot publish to %s: %w", out.Topic, err)
	}
	pk := out.packet()
	_, err := recovered(func() error {
		if code := pk.PublishValidate(0); code != packets.CodeSuccess {
			return code
		}
		s.spread(pk, out.haste())
		return nil
	})
	if err != nil {
		return fmt.Errorf("cannot publish to %s: %w", out.Topic, err)
	}
	return nil
}

func (o Outgoing) haste() haste {
	if o.Soon {
		return soon
	}
	return atOnce
}

func (o Outgoing) packet() packets.Packet {
	return packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: 1, Retain: o.Retain},
		TopicName:   o.Topic,
		Payload:     o.Payload,
		PacketID:    1, // the library's check wants one; each client's is its own
		Properties: packets.Properties{
			CorrelationData:       o.CorrelationData,
			MessageExpiryInterval: uint32((o.Expiry + time.Second - 1) / time.Second),
			User:                  signed(o.Signature),
		},
	}
}
