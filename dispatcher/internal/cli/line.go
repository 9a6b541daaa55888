package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/eclipse/paho.golang/autopaho"
	"github.com/eclipse/paho.golang/paho"
	"github.com/eclipse/paho.golang/paho/session/state"

	"muster/dispatcher/internal/cli/screen"
	"muster/internal/files"
	"muster/internal/protocol"
	"muster/internal/trust"
)

const (
	// maxReplyBytes bounds an answer: a task record with its result fits.
	maxReplyBytes = 2 * protocol.MaxPayloadBytes
	// askAgain is how long to wait before a request is sent once more. It
	// carries a request id or changes nothing, so a second one does no harm.
	askAgain = 5 * time.Second
	// reconnect is the pause between attempts to connect.
	reconnect = 500 * time.Millisecond
	// notAuthorized and badPassword are CONNACK reason codes that no further
	// attempt will change (MQTT 5, 3.2.2.2).
	notAuthorized = 0x87
	badPassword   = 0x86
	// banned is one that no attempt will change for minutes.
	banned = 0x8a
)

// message is what came in.
type message struct {
	topic   string
	payload []byte
}

// line is a connection to the broker that comes back by itself, with its
// subscriptions.
type line struct {
	topics protocol.Topics
	user   string
	signer *trust.Signer // nil: requests are not signed
	conn   *autopaho.ConnectionManager
	inbox  chan message
	ctx    context.Context // ends with the line, and says why
	end    context.CancelCauseFunc

	mu      sync.Mutex
	filters []string
	last    error // of the last attempt to connect
}

// open starts to connect; whether that succeeds shows with the first request.
func open(ctx context.Context, a *access) (*line, error) {
	if !protocol.ValidID(a.user) {
		return nil, fmt.Errorf("--user %q must be 1 to 63 of A-Z a-z 0-9 . _ - and start with a letter or digit", a.user)
	}
	topics, err := protocol.NewTopics(a.root)
	if err != nil {
		return nil, err
	}
	address, err := url.Parse(a.broker)
	if err != nil || address.Host == "" {
		return nil, fmt.Errorf("--broker %q must be an address such as mqtt://127.0.0.1:1883", a.broker)
	}
	password, err := a.password()
	if err != nil {
		return nil, err
	}
	secure, err := a.tls()
	if err != nil {
		return nil, err
	}
	signer, err := a.signer()
	if err != nil {
		return nil, err
	}
	l := &line{topics: topics, user: a.user, signer: signer, inbox: make(chan message, 256)}
	l.ctx, l.end = context.WithCancelCause(ctx)
	cfg := l.config(newID())
	cfg.ServerUrls, cfg.TlsCfg = []*url.URL{address}, secure
	cfg.ConnectUsername, cfg.ConnectPassword = a.user, []byte(password)
	if l.conn, err = autopaho.NewConnection(l.ctx, cfg); err != nil {
		return nil, fmt.Errorf("cannot connect to %s: %w", address.Redacted(), err)
	}
	return l, nil
}

// tls is how to prove the broker, and with --cert oneself.
func (a *access) tls() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if a.cert != "" || a.certKey != "" {
		own, err := a.certificate()
		if err != nil {
			return nil, err
		}
		cfg.Certificates = []tls.Certificate{own}
	}
	if a.caFile == "" {
		return cfg, nil
	}
	pem, err := files.Read(a.caFile)
	if err != nil {
		return nil, fmt.Errorf("cannot read the certificates to trust: %w", err)
	}
	cfg.RootCAs = x509.NewCertPool()
	if !cfg.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", a.caFile)
	}
	return cfg, nil
}

func (a *access) certificate() (tls.Certificate, error) {
	if a.cert == "" || a.certKey == "" {
		return tls.Certificate{}, fmt.Errorf("--cert and --cert-key go together: give both")
	}
	key, err := trust.ReadPrivate(a.certKey)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("cannot use --cert-key: %w", err)
	}
	cert, err := files.Read(a.cert)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("cannot read --cert: %w", err)
	}
	own, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("cannot use --cert %s with --cert-key %s: %w", a.cert, a.certKey, err)
	}
	return own, nil
}

func (l *line) config(clientID string) autopaho.ClientConfig {
	return autopaho.ClientConfig{
		KeepAlive:                     30,
		CleanStartOnInitialConnection: true,
		ReconnectBackoff:              autopaho.NewConstantBackoff(reconnect),
		OnConnectionUp: func(conn *autopaho.ConnectionManager, _ *paho.Connack) {
			go l.subscribeAgain(conn)
		},
		OnConnectError: l.connectFailed,
		ClientConfig: paho.ClientConfig{
			ClientID: clientID,
			Session:  state.NewInMemory(),
			OnPublishReceived: []func(paho.PublishReceived) (bool, error){
				func(pr paho.PublishReceived) (bool, error) {
					select {
					case l.inbox <- message{pr.Packet.Topic, pr.Packet.Payload}:
					case <-l.ctx.Done():
					}
					return true, nil
				},
			},
		},
	}
}

func (l *line) connectFailed(err error) {
	l.mu.Lock()
	l.last = err
	l.mu.Unlock()
	var refused *autopaho.ConnackError
	if !errors.As(err, &refused) {
		return
	}
	switch refused.ReasonCode {
	case notAuthorized, badPassword:
		l.end(&screen.Exit{Code: screen.ExitRefused, Text: fmt.Sprintf("the broker refuses user %s: check --user, and --password-file or MUSTER_PASSWORD (or --cert)", l.user)})
	case banned:
		why := cmp.Or(screen.Plain(refused.Reason), "wait some minutes")
		l.end(&screen.Exit{Code: screen.ExitRefused, Text: fmt.Sprintf("the broker has locked user %s out for now: %s; then check --password-file or MUSTER_PASSWORD (or --cert)", l.user, why)})
	}
}

func (l *line) subscribeAgain(conn *autopaho.ConnectionManager) {
	l.mu.Lock()
	filters := slices.Clone(l.filters)
	l.mu.Unlock()
	if len(filters) > 0 {
		_, _ = conn.Subscribe(l.ctx, subscription(filters)) // a lost connection subscribes again with the next one
	}
}

func subscription(filters []string) *paho.Subscribe {
	s := &paho.Subscribe{}
	for _, filter := range filters {
		s.Subscriptions = append(s.Subscriptions, paho.SubscribeOptions{Topic: filter, QoS: 1})
	}
	return s
}

// subscribe adds filters, now and with every connection to come.
func (l *line) subscribe(ctx context.Context, filters ...string) error {
	if err := l.conn.AwaitConnection(ctx); err != nil {
		return l.unanswered(ctx)
	}
	l.mu.Lock()
	l.filters = append(l.filters, filters...)
	l.mu.Unlock()
	for {
		_, err := l.conn.Subscribe(ctx, subscription(filters))
		if err == nil {
			return nil
		}
		if ctx.Err() == nil && errors.Is(err, autopaho.ConnectionDownError) && l.conn.AwaitConnection(ctx) == nil {
			continue
		}
		if ctx.Err() != nil {
			return l.unanswered(ctx)
		}
		return &screen.Exit{Code: screen.ExitRefused, Text: fmt.Sprintf("the broker refuses to let %s read %s: %v", l.user, filters[0], err)}
	}
}

// ask sends a request until its reply comes or ctx ends.
func (l *line) ask(ctx context.Context, verb protocol.Verb, payload []byte) ([]byte, error) {
	box := l.topics.Replies(l.user) + newID()
	if err := l.subscribe(ctx, box); err != nil {
		return nil, err
	}
	return l.exchange(ctx, box, verb, payload)
}

// exchange is ask over a response topic that is subscribed already.
func (l *line) exchange(ctx context.Context, box string, verb protocol.Verb, payload []byte) ([]byte, error) {
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			again.Reset(askAgain)
			// A failure needs no word of its own: no reply will come, and it
			// is sent again.
			_, _ = l.conn.Publish(ctx, l.request(box, verb, payload))
		case m := <-l.inbox:
			if m.topic == box {
				return m.payload, nil
			}
		case <-ctx.Done():
			return nil, l.unanswered(ctx)
		case <-l.ctx.Done():
			return nil, l.unanswered(l.ctx)
		}
	}
}

func (l *line) request(box string, verb protocol.Verb, payload []byte) *paho.Publish {
	topic := l.topics.Request(l.user, verb)
	properties := &paho.PublishProperties{ResponseTopic: box, ContentType: "application/json"}
	if l.signer != nil {
		s := l.signer.Sign(topic, payload)
		properties.User.Add("kid", s.KeyID)
		properties.User.Add("sig", s.Value)
	}
	return &paho.Publish{QoS: 1, Topic: topic, Payload: payload, Properties: properties}
}

// unanswered says why nothing came.
func (l *line) unanswered(ctx context.Context) error {
	var told *screen.Exit
	if errors.As(context.Cause(l.ctx), &told) {
		return told
	}
	l.mu.Lock()
	last := l.last
	l.mu.Unlock()
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return &screen.Exit{Code: screen.ExitNoAnswer, Text: "interrupted"}
	case last != nil:
		hint := ""
		var untrusted *tls.CertificateVerificationError
		if errors.As(last, &untrusted) {
			hint = "; --ca-file names the certificate to trust"
		}
		return &screen.Exit{Code: screen.ExitNoAnswer, Text: fmt.Sprintf("no answer: the broker cannot be reached: %v%s", last, hint)}
	}
	return &screen.Exit{Code: screen.ExitNoAnswer, Text: "no answer from headquarters: is it running, and may you ask it?"}
}

// close disconnects; what was sent has been answered or given up.
func (l *line) close() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), time.Second)
	defer cancel()
	_ = l.conn.Disconnect(ctx)
	l.end(nil)
}
