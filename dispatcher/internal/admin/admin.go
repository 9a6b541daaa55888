// Package admin is the line between the operator's commands on headquarters'
// own machine and the dispatcher that runs there: what must not go over the
// broker. It is HTTP on a loopback address, and who may read the data folder
// may use it.
//
// It decides nothing: the store records, the identity signs, and whether keys
// are rotated a second person says.
package admin

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"muster/dispatcher/internal/identity"
	"muster/dispatcher/internal/quarantine"
	"muster/dispatcher/internal/store"
	"muster/internal/logs"
	"muster/internal/machine"
	"muster/internal/trust"
)

// Register is where tokens and terminals' keys are recorded: the store.
type Register interface {
	AddEnrolment(ctx context.Context, e store.Enrolment) error
	RevokeTerminal(ctx context.Context, storeID, terminalID, by string, now time.Time) ([]store.TerminalKey, error)
	ListTerminalKeys(ctx context.Context) ([]store.TerminalKey, error)
	ListRevoked(ctx context.Context) ([]store.TerminalKey, error)
}

// Places is the list of stores.
type Places interface {
	ListPlaces(ctx context.Context) ([]store.Place, error)
}

// Authority is headquarters' identity.
type Authority interface {
	NewToken() (string, error)
	WriteCRL(revoked []identity.Revoked, now time.Time) error
	Keys() trust.Document
	Signer(now time.Time) *trust.Signer
}

// Config says what the line needs.
type Config struct {
	Address    string // loopback host:port; "127.0.0.1:0" when empty
	DataFolder string // where admin.json is written
	Register   Register
	Places     Places
	Authority  Authority // nil: headquarters has no identity, and says so
	// EnrolmentURL is what terminals are told, such as https://hq.example.com:8443.
	EnrolmentURL string
	// RequestRotation asks for the word of a second person on new signing keys;
	// now strikes the older ones out at once.
	RequestRotation func(ctx context.Context, actor string, now bool) (approvalID, contentHash string, err error)
	// Revoked is told of keys that were revoked, before the list of revoked
	// certificates is written. It may be nil.
	Revoked func(keys []store.TerminalKey)
	Version string // of the program, for who asks
	// Healthy says what keeps headquarters from working, nil when nothing does.
	Healthy func(ctx context.Context) error
	// Clock says what is to be known of the clock, "" when all is well. It may be
	// nil.
	Clock func() string
	// Troubles lists what needs a person and does not keep headquarters from
	// working. It may be nil.
	Troubles func() []string
	// Ready says why headquarters takes in nothing, nil when it does; Metrics is the
	// page of measurements. Either may be nil.
	Ready   func(ctx context.Context) error
	Metrics func(ctx context.Context) ([]byte, error)
	// Reload takes in jobs, stores, users and limits anew, all or nothing. It may be
	// nil.
	Reload func(ctx context.Context) (Reloaded, error)
	// Listen opens the line; nil: on the network of this machine.
	Listen func(ctx context.Context, network, address string) (net.Listener, error)
	Now    func() time.Time
	Logger *slog.Logger
	// Ward is told of a request that makes headquarters panic; it may be nil.
	Ward *quarantine.Ward
}

// file is where a running dispatcher says how to reach it.
const file = "admin.json"

// notice is the content of the file.
type notice struct {
	URL   string `json:"url"`
	Token string `json:"token"`
}

const (
	// headerTimeout and readTimeout bound a request; both ends are one machine.
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	// writeTimeout bounds the work too: a commit that waits for the disk.
	writeTimeout = 60 * time.Second
	// maxBodyBytes bounds a request.
	maxBodyBytes = 64 << 10
)

// Server is the dispatcher's end. Call New.
type Server struct {
	Config
	token    string
	server   *http.Server
	listener net.Listener
	served   chan struct{}
	stopping sync.Once
	sparing  logs.Sparing
	quit     chan struct{} // closed by Stop
	// announcing is the work that writes the notice later.
	announcing sync.WaitGroup
	revoking   sync.Mutex // so that a longer list is never overwritten by an older one
}

// New returns a line that nobody can use yet. It refuses an address that is not
// loopback.
func New(cfg Config) (*Server, error) {
	if cfg.Address == "" {
		cfg.Address = "127.0.0.1:0"
	}
	if cfg.Listen == nil {
		cfg.Listen = new(net.ListenConfig).Listen
	}
	if err := checkLoopback(cfg.Address); err != nil {
		return nil, err
	}
	secret := make([]byte, 32)
	if _, err := rand.Read(secret); err != nil {
		return nil, fmt.Errorf("cannot draw a token for the admin line: %w", err)
	}
	s := &Server{Config: cfg, token: hex.EncodeToString(secret), served: make(chan struct{}), quit: make(chan struct{})}
	s.server = &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		MaxHeaderBytes:    8 << 10,
		ErrorLog:          slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
	}
	return s, nil
}

func checkLoopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("admin address %q is not host:port", address)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("admin address %q is not a loopback address; write one such as 127.0.0.1:0", address)
	}
	return nil
}

// Start opens the line, says in the data folder where it is, and brings the
// list of revoked certificates up to what the store says, which a crash may
// have kept from it.
func (s *Server) Start(ctx context.Context) error {
	if err := s.publishRevoked(ctx); err != nil {
		s.Logger.Error("cannot bring the list of revoked certificates up to date", "error", err)
	}
	var err error
	if s.listener, err = s.Listen(ctx, "tcp", s.Address); err != nil {
		return fmt.Errorf("cannot open the admin line: admin.address: %w", machine.Unlistenable(s.Address, err))
	}
	go func() {
		defer close(s.served)
		if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			s.Logger.Error("the admin line ended", "error", err)
		}
	}()
	text, err := json.Marshal(notice{URL: "http://" + s.listener.Addr().String(), Token: s.token})
	if err != nil {
		return errors.Join(fmt.Errorf("cannot say where the admin line is: %w", err), s.Stop(ctx))
	}
	if err := s.announce(text); err != nil {
		// Headquarters works without it, as on a full disk.
		s.Logger.Error("cannot say where the admin line is; it is tried again", "file", s.file(), "error", err)
		s.announcing.Go(func() { s.keepAnnouncing(text) })
	}
	return nil
}

func (s *Server) announce(text []byte) error {
	return trust.WritePrivate(s.file(), append(slices.Clone(text), '\n'))
}

// announceAgain is how often a notice that could not be written is tried again.
const announceAgain = time.Second

func (s *Server) keepAnnouncing(text []byte) {
	tick := time.NewTicker(announceAgain)
	defer tick.Stop()
	for {
		select {
		case <-s.quit:
			return
		case <-tick.C:
		}
		if s.announce(text) == nil {
			s.Logger.Info("it is said where the admin line is", "file", s.file())
			return
		}
	}
}

// Addr is where the line is, nil before Start.
func (s *Server) Addr() net.Addr {
	if s.listener == nil {
		return nil
	}
	return s.listener.Addr()
}

// Stop ends the line after the requests in work, or when ctx ends, and removes
// its notice. Calling it again, or before Start, is harmless.
func (s *Server) Stop(ctx context.Context) (err error) {
	if s.listener == nil {
		return nil
	}
	s.stopping.Do(func() {
		close(s.quit)
		s.announcing.Wait()
		err = s.removeNotice()
		if stopErr := s.server.Shutdown(ctx); stopErr != nil {
			err = errors.Join(err, fmt.Errorf("cannot finish the admin line: %w", stopErr), s.server.Close())
		}
		<-s.served
	})
	return err
}

// removeNotice leaves the notice of another process alone.
func (s *Server) removeNotice() error {
	found, err := readNotice(s.file())
	if err != nil || found.Token != s.token {
		return nil //nolint:nilerr // what is gone or another's needs no removal
	}
	if err := os.Remove(s.file()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the notice of the admin line: %w", err)
	}
	return nil
}

func (s *Server) file() string { return filepath.Join(s.DataFolder, file) }
