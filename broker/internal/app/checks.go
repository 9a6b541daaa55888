package app

import (
	"context"
	"crypto/tls"

	"muster/broker/server"
	"muster/internal/doctor"
)

// ownFiles is how many files the broker itself may have open beside connections.
const ownFiles = 64

// checks are what doctor looks at. path is the configuration's, and trouble says why
// it could not be read, when nothing else can be looked at. The broker keeps nothing
// on a disk, so there is none to look at.
func checks(cfg Config, path string, trouble error) []doctor.Check {
	all := []doctor.Check{doctor.Configuration("broker", path, trouble, unknownVariables())}
	if trouble != nil {
		return append(all, doctor.EverythingElse())
	}
	all = append(all, doctor.Check{Name: "users", Look: func(context.Context) doctor.Finding { return lookAtUsers(cfg) }})
	for _, name := range server.ListenerNames() {
		l := cfg.Broker.Listeners.Named(name)
		if l.Address == "" {
			continue
		}
		if l.CertFile != "" {
			const anew = "put a new certificate and its key there; a broker that runs reads them by itself"
			all = append(all,
				doctor.Check{Name: "files of listener " + name, Look: func(context.Context) doctor.Finding { return lookAtFiles(cfg, name) }},
				doctor.Certificate("certificate of listener "+name, l.CertFile, anew, anew))
		}
		if l.ClientCAFile != "" {
			const anew = "put the certificate of the authority there that signs those of the terminals, and start again"
			all = append(all, doctor.Certificate("authority of listener "+name, l.ClientCAFile, anew, anew))
		}
		all = append(all, doctor.Listener("listener "+name, l.Address, "broker", asks(name, l)))
	}
	return append(all,
		doctor.OpenFiles(uint64(cfg.Broker.Filled().Limits.MaxConnections+ownFiles)),
		doctor.Clock())
}

// asks is how a listener is asked whether a broker is behind it; nil: it is not,
// since WebSocket clients greet in another way.
func asks(name string, l server.ListenerConfig) func(ctx context.Context, address string) error {
	if name == "ws" {
		return nil
	}
	return func(ctx context.Context, address string) error {
		var secure *tls.Config
		if l.CertFile != "" {
			var err error
			if secure, err = doctor.OwnTLS(l.CertFile); err != nil {
				return err
			}
		}
		_, err := doctor.RoundTrip(ctx, address, secure)
		return err
	}
}

func lookAtUsers(cfg Config) doctor.Finding {
	if cfg.Broker.Anonymous {
		return doctor.Warning("name a users_file, and set anonymous: false", "anybody on this machine gets in under any name")
	}
	users, terminals, err := cfg.Broker.CheckUsers()
	if err != nil {
		return doctor.Bad("mend the file; a broker that runs keeps what it has until then", "%v", err)
	}
	known := doctor.Good("%s names %s and %s", cfg.Broker.UsersFile, doctor.Count(users, "user"), doctor.Count(terminals, "terminal"))
	if users+terminals == 0 {
		known = doctor.Warning("write users into it: broker hash-password makes the hash of a password", "%s names nobody, so nobody gets in by name", cfg.Broker.UsersFile)
	}
	return doctor.Guarded(cfg.Broker.UsersFile, known)
}

func lookAtFiles(cfg Config, name string) doctor.Finding {
	if err := cfg.Broker.CheckListener(name); err != nil {
		return doctor.Bad("mend the file that is named", "%v", cfg.located(err))
	}
	return doctor.Good("all can be used")
}
