// Package enrol is the door through which a terminal gets its certificate: once
// with a token that an operator made, later with the certificate that it holds.
//
// It hands out nothing that the store has not recorded first, and it never
// writes a token anywhere.
package enrol

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"muster/dispatcher/internal/identity"
	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/store"
	"muster/internal/machine"
	"muster/internal/trust"
)

// Keys is where tokens and terminals' keys are recorded: the store.
type Keys interface {
	Enrol(ctx context.Context, tokenSHA256 string, key store.TerminalKey, now time.Time) (store.TerminalKey, error)
	RenewKey(ctx context.Context, oldKeyID string, key store.TerminalKey, now time.Time) error
	GetTerminalKey(ctx context.Context, keyID string) (store.TerminalKey, error)
}

// Config says what the door needs. Zero limits mean their defaults; Ward may be
// nil.
type Config struct {
	Address  string // host:port
	Keys     Keys
	Identity *identity.Identity
	Lifetime time.Duration // of certificates; identity.DefaultLifetime
	Now      func() time.Time
	Steady   func() time.Time // never steps, for limits; nil: time.Now
	Logger   *slog.Logger
	Ward     *quarantine.Ward // is told of a request that makes headquarters panic
	// Listen opens the door; nil: on the network of this machine.
	Listen func(ctx context.Context, network, address string) (net.Listener, error)

	// PerSecond and Burst bound the requests of one address: 5 and 20. A whole
	// store renews at once behind one address, and nobody guesses 256 bits.
	PerSecond rate.Limit
	Burst     int
	// MaxRequests bounds the requests that are worked on at once: 32. Four
	// times as many connections are held, a quarter of them from one address;
	// more are closed.
	MaxRequests int
}

const (
	// maxBodyBytes bounds a request: a certificate request takes 500 bytes.
	maxBodyBytes = 64 << 10
	// maxHeaderBytes bounds a request's header.
	maxHeaderBytes = 8 << 10
	// headerTimeout bounds the handshake, and after it the header: a slow line
	// needs a second for each.
	headerTimeout = 5 * time.Second
	// readTimeout and writeTimeout bound a whole request and its answer.
	readTimeout  = 10 * time.Second
	writeTimeout = 15 * time.Second
	// renewEvery and renewBurst bound the certificates of one terminal, which are
	// all kept: it needs one in two months, and a few when answers get lost.
	renewEvery = 10 * time.Minute
	renewBurst = 6
	// idleTimeout bounds the wait for a second request, which seldom comes.
	idleTimeout = 10 * time.Second
)

// Server is the door. Call New.
type Server struct {
	Config
	limits   *limits[netip.Prefix]
	renewals *limits[trust.Holder]
	working  chan struct{} // holds one for each request in work
	server   *http.Server
	listener net.Listener
	served   chan struct{} // closed when the listener ended
	stopping sync.Once
}

// New returns a door that is not open yet.
func New(cfg Config) *Server {
	if cfg.Listen == nil {
		cfg.Listen = new(net.ListenConfig).Listen
	}
	if cfg.Steady == nil {
		cfg.Steady = time.Now
	}
	if cfg.PerSecond <= 0 {
		cfg.PerSecond = 5
	}
	if cfg.Burst <= 0 {
		cfg.Burst = 20
	}
	if cfg.MaxRequests <= 0 {
		cfg.MaxRequests = 32
	}
	s := &Server{Config: cfg, limits: newLimits[netip.Prefix](cfg.PerSecond, cfg.Burst), renewals: newLimits[trust.Holder](rate.Every(renewEvery), renewBurst),
		working: make(chan struct{}, cfg.MaxRequests), served: make(chan struct{})}
	var protocols http.Protocols
	protocols.SetHTTP1(true) // one request a connection; more would only be more to guard
	s.server = &http.Server{
		Handler:           s.handler(),
		TLSConfig:         cfg.Identity.TLSConfig(),
		Protocols:         &protocols,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
	}
	return s
}

// Start opens the door and returns once terminals can come.
func (s *Server) Start(ctx context.Context) error {
	var err error
	if s.listener, err = s.Listen(ctx, "tcp", s.Address); err != nil {
		return fmt.Errorf("cannot take enrolments: enrolment.address: %w", machine.Unlistenable(s.Address, err))
	}
	go func() {
		defer close(s.served)
		err := s.server.ServeTLS(newDoor(s.listener, 4*s.MaxRequests), "", "")
		if !errors.Is(err, http.ErrServerClosed) {
			s.Logger.Error("enrolment ended", "error", err)
		}
	}()
	return nil
}

// Addr is where the door is, nil before Start.
func (s *Server) Addr() net.Addr {
	if s.listener == nil {
		return nil
	}
	return s.listener.Addr()
}

// Stop closes the door after the requests in work, or when ctx ends. Calling it
// again, or before Start, is harmless.
func (s *Server) Stop(ctx context.Context) (err error) {
	if s.listener == nil {
		return nil
	}
	s.stopping.Do(func() {
		if err = s.server.Shutdown(ctx); err != nil {
			err = errors.Join(fmt.Errorf("cannot finish enrolments: %w", err), s.server.Close())
		}
		<-s.served
	})
	return err
}
