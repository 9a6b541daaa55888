package server

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"muster/broker/server/credential"
	"muster/broker/server/door"
	"muster/broker/server/guard"
	"muster/internal/machine"
)

func (s *Server) listen(ctx context.Context, name string, lc ListenerConfig) error {
	if lc.Address == "" {
		return nil
	}
	secure, err := lc.load(name)
	if err != nil {
		return err
	}
	if secure != nil {
		s.secure[name] = secure
		s.tellEnds(name, secure)
	}
	base, err := s.opts.Listen(ctx, "tcp", lc.Address)
	if err != nil {
		return &FieldError{"listeners." + name + ".address", machine.Unlistenable(lc.Address, err)}
	}
	config := secure.TLS()
	if config != nil {
		config.Time = s.opts.Now
	}
	opts := guard.Options{
		Limits: s.connLimits(), Caps: s.caps, TLS: config,
		Logger: s.log.With("listener", name), Goodbye: s.goodbye,
		Handle: func(c *guard.Conn) { s.handle(c, name, secure) },
	}
	var l listener
	if name == "ws" {
		l = guard.NewWebSocket(name, base, opts)
	} else {
		l = guard.NewListener(name, base, opts)
	}
	s.open = append(s.open, l)
	s.addrs[name] = base.Addr()
	return s.broker.AddListener(l)
}

func (s *Server) connLimits() guard.Limits {
	l := s.cfg.Limits
	return guard.Limits{
		ConnectDeadline: l.ConnectDeadline,
		WriteDeadline:   l.WriteDeadline,
		MaxControlBytes: 16 << 10, // id, will, name and password, or filters; far more than any real one
		MaxPacketBytes:  s.maxPacketBytes(),
		WriteBuffer:     l.WriteBufferBytes,
	}
}

// maxPacketBytes leaves a payload room for its topic and properties.
func (s *Server) maxPacketBytes() int { return s.cfg.Limits.MaxPayloadBytes + 16<<10 }

// door is who lets clients in: by name and password, by certificate, or anybody.
func (c Config) door(opts Options) (door.Door, error) {
	d, err := door.New(door.Options{
		UsersFile: c.UsersFile, Anonymous: c.Anonymous, Certificates: c.Listeners.checksCertificates(),
		Alone: opts.Intake == nil, Logger: opts.Logger,
	})
	if err != nil {
		return nil, &FieldError{"users_file", err}
	}
	return d, nil
}

// load reads the files of a listener; nil for one without TLS. The error is a
// *FieldError.
func (c ListenerConfig) load(name string) (*credential.Set, error) {
	secure, err := credential.Load(c.credentials())
	var bad *credential.FileError
	if errors.As(err, &bad) {
		return nil, &FieldError{"listeners." + name + "." + bad.Key, bad.Fault}
	}
	return secure, err
}

// tellEnds says in the log that a listener's certificate is not, or not long, good.
// That ends nothing: it is read again when it is replaced, and the clock may be wrong.
func (s *Server) tellEnds(name string, secure *credential.Set) {
	if fault := secure.Ends(s.opts.Now()); fault != "" {
		s.log.Error("clients will refuse this listener: give it a new certificate, or set this machine's clock right; a new one needs no restart",
			"listener", name, "reason", fault)
	}
}

func (c ListenerConfig) credentials() credential.Files {
	return credential.Files{
		Cert: c.CertFile, Key: c.KeyFile, MinTLS: c.MinTLS, ClientCA: c.ClientCAFile, CRL: c.CRLFile,
	}
}

// CheckFiles reads the files that the configuration names, users and
// certificates, and returns a *FieldError about the first bad one. It opens no
// socket. A certificate that has ended, or is not good yet, is not looked at: see Ended.
func (c Config) CheckFiles() error {
	if _, _, err := c.CheckUsers(); err != nil {
		return err
	}
	for _, name := range ListenerNames() {
		if err := c.CheckListener(name); err != nil {
			return err
		}
	}
	return nil
}

// CheckUsers reads the users file and tells how many users and terminals may log in
// by it; nobody and nil when anybody may. The error is a *FieldError.
func (c Config) CheckUsers() (users, terminals int, err error) {
	d, err := c.door(Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil || d.Book() == nil {
		return 0, 0, err
	}
	users, terminals = d.Book().Count()
	return users, terminals, nil
}

// CheckListener reads the certificates that a listener names, unless it is off. The
// error is a *FieldError.
func (c Config) CheckListener(name string) error {
	lc := c.Listeners.Named(name)
	if lc.Address == "" {
		return nil
	}
	_, err := lc.load(name)
	return err
}

// Ended says of each listener's certificate that is not good at now why, by the key
// of its file. What cannot be read is left out.
func (c Config) Ended(now time.Time) (ended []*FieldError) {
	for _, name := range ListenerNames() {
		lc := c.Listeners.Named(name)
		secure, err := lc.load(name)
		if err != nil || lc.Address == "" || secure == nil {
			continue
		}
		if fault := secure.Ends(now); fault != "" {
			ended = append(ended, &FieldError{"listeners." + name + ".cert_file", errors.New(fault)})
		}
	}
	return ended
}

// caps bounds connections by the limits, and by what the system lets this program open
// beside its own files: who has none left keeps no deadline.
func (l Limits) caps(ownFiles int) *guard.Caps {
	most, setting := l.MaxConnections, "limits.max_connections"
	if files, err := machine.OpenFiles(); err == nil && ownFiles > 0 {
		if left := max(files-min(files, uint64(ownFiles)), files/2); left < uint64(most) {
			most, setting = int(left), "open files: LimitNOFILE= of the systemd unit, ulimits.nofile of compose, or ulimit -n"
		}
	}
	return guard.NewCaps(most, setting, l.MaxConnectionsPerAddress)
}
