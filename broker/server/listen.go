package server

import (
	"context"
	"fmt"
	"log/slog"

	"muster/broker/server/credential"
	"muster/broker/server/door"
	"muster/broker/server/guard"
)

func (s *Server) listen(ctx context.Context, name string, lc ListenerConfig) error {
	if lc.Address == "" {
		return nil
	}
	secure, err := credential.Load(lc.credentials())
	if err != nil {
		return fmt.Errorf("listeners.%s: %w", name, err)
	}
	if secure != nil {
		s.secure[name] = secure
	}
	base, err := s.opts.Listen(ctx, "tcp", lc.Address)
	if err != nil {
		return fmt.Errorf("listeners.%s.address: %w", name, err)
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
	return door.New(door.Options{
		UsersFile: c.UsersFile, Anonymous: c.Anonymous, Certificates: c.Listeners.checksCertificates(),
		Alone: opts.Intake == nil, Logger: opts.Logger,
	})
}

func (c ListenerConfig) credentials() credential.Files {
	return credential.Files{
		Cert: c.CertFile, Key: c.KeyFile, MinTLS: c.MinTLS, ClientCA: c.ClientCAFile, CRL: c.CRLFile,
	}
}

// CheckFiles reads the files that the configuration names, users and
// certificates, and returns what is wrong with the first bad one. It opens no
// socket.
func (c Config) CheckFiles() error {
	if _, err := c.door(Options{Logger: slog.New(slog.DiscardHandler)}); err != nil {
		return err
	}
	for _, name := range names() {
		lc := c.Listeners.all()[name]
		if lc.Address == "" {
			continue
		}
		if _, err := credential.Load(lc.credentials()); err != nil {
			return fmt.Errorf("listeners.%s: %w", name, err)
		}
	}
	return nil
}
