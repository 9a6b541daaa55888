// Package checks holds what dispatcher doctor looks at, and says what mends each. It
// changes nothing.
package checks

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"muster/dispatcher/config"
	"muster/dispatcher/internal/admin"
	"muster/dispatcher/internal/identity"
	"muster/dispatcher/internal/store"
	"muster/internal/doctor"
	"muster/internal/settings"
)

// deepest is the size of a database that doctor still reads whole.
const deepest = 2 << 30

// Of lists what doctor looks at at a headquarters. path is the configuration's, and trouble says why
// it could not be read, when nothing else can be looked at.
func Of(cfg config.Config, path string, trouble error, unknown settings.Strays) []doctor.Check {
	if path == "" {
		path = "the embedded configuration"
	}
	checks := []doctor.Check{doctor.Configuration("dispatcher", path, trouble, unknown)}
	if trouble != nil {
		return append(checks, doctor.EverythingElse())
	}
	at := site{cfg: cfg}
	at.client, at.notRunning = admin.Dial(cfg.DataFolder)
	if at.notRunning == nil {
		_, at.notRunning = at.client.Health(context.Background())
	}
	const mend = "make it writable for the user that headquarters runs as"
	checks = append(checks,
		doctor.Check{Name: "jobs, schemas and stores", Look: at.lookAtJobs},
		doctor.Check{Name: "users, certificates and identity files", Look: at.lookAtFiles},
		doctor.Check{Name: "headquarters", Look: at.lookAtHeadquarters},
		doctor.Folder("data folder", cfg.DataFolder, mend),
		doctor.Disk("disk of the data folder", cfg.DataFolder),
		doctor.Check{Name: "database", Look: at.lookAtDatabase},
		doctor.Folder("reports folder", cfg.ReportsFolder, mend+"; see whether its share is mounted"),
		doctor.Disk("disk of the reports folder", cfg.ReportsFolder),
		doctor.OpenFiles(uint64(cfg.Broker.Filled().Limits.MaxConnections+config.OwnFiles)),
		doctor.Clock(),
	)
	return append(checks, at.lines()...)
}

// site is a headquarters that doctor looks at.
type site struct {
	cfg        config.Config
	client     *admin.Client
	notRunning error // nil: it runs
}

func (s site) runs() bool { return s.notRunning == nil }

func (s site) lookAtJobs(context.Context) doctor.Finding {
	jobs, stores, err := s.cfg.CheckLists()
	if err != nil {
		return doctor.Bad("mend the file; a headquarters that runs keeps what it has until then", "%v", err)
	}
	return doctor.Good("jobs %d, stores %d", jobs, stores)
}

func (s site) lookAtFiles(context.Context) doctor.Finding {
	if err := s.cfg.CheckFiles(); err != nil {
		return doctor.Bad("mend the file that is named", "%v", err)
	}
	return doctor.Guarded(s.cfg.UsersFile(), doctor.Good("all can be read"))
}

func (s site) lookAtHeadquarters(ctx context.Context) doctor.Finding {
	if errors.Is(s.notRunning, admin.ErrNotRunning) {
		return doctor.Good("does not run")
	}
	if s.notRunning != nil {
		return doctor.Bad("see its log", "runs, and does not work: %v", s.notRunning)
	}
	health, err := s.client.Health(ctx)
	switch {
	case err != nil:
		return doctor.Bad("see its log", "runs, and does not work: %v", err)
	case health.Clock != "":
		return doctor.Warning("set the clock right, or start headquarters again if it is right", "%s", health.Clock)
	case len(health.Troubles) > 0:
		return doctor.Warning("see the guide about each", "needs a person: %s", health.Troubles[0])
	}
	return doctor.Good("runs, version %s", health.Version)
}

// lookAtDatabase reads the whole file, beside a headquarters that runs too.
func (s site) lookAtDatabase(ctx context.Context) doctor.Finding {
	file := s.cfg.Database()
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return doctor.Warning("it is made at the first start; if it was there before, look whether its disk is mounted", "%s is not there", file)
	}
	if err != nil {
		return doctor.Bad("make it readable for who runs doctor", "%v", err)
	}
	if info.Size() > deepest {
		return doctor.Skipped("it has %d MiB, which takes long to read: dispatcher backup reads all of it", info.Size()>>20)
	}
	found, err := store.InspectBackup(ctx, file)
	const mend = "stop headquarters, and restore the last backup: dispatcher restore"
	if ctx.Err() != nil {
		return doctor.Skipped("it could not be read within the time for one check: dispatcher backup reads all of it")
	}
	if err != nil {
		return doctor.Bad(mend, "%v", err)
	}
	if found.Audit.Wrong > 0 {
		return doctor.Warning("dispatcher audit verify says what was changed", "%s is whole, its audit does not hold", file)
	}
	return doctor.Good("%s is whole, %d MiB", file, found.Bytes>>20)
}

// lines are the checks of ports, certificates and the broker.
func (s site) lines() []doctor.Check {
	var checks []doctor.Check
	if folder := s.cfg.Identity.Folder; folder != "" {
		const again = "restore it from a backup of the identity folder: no start makes another"
		checks = append(checks,
			doctor.Certificate("certificate of the authority", filepath.Join(folder, identity.FileAuthority), again, "make a new headquarters with dispatcher init, and enrol every terminal"),
			doctor.Certificate("certificate of the broker", filepath.Join(folder, identity.FileServer), again, "start headquarters, which renews it"))
	}
	if file := s.cfg.MQTT.CertFile; file != "" && s.cfg.Transport == config.TransportMQTT {
		const certify = "dispatcher certify makes a new one"
		checks = append(checks, doctor.Certificate("certificate to log in with", file, certify, certify))
	}
	if s.cfg.Transport == config.TransportEmbedded {
		l := s.cfg.Broker.Listeners
		for _, one := range []struct{ name, address string }{{"tcp", l.TCP.Address}, {"tls", l.TLS.Address}, {"ws", l.WS.Address}} {
			if one.address != "" {
				checks = append(checks, doctor.Port("port of the broker, "+one.name, one.address, s.runs()))
			}
		}
	}
	if s.cfg.Enrolment.Address != "" {
		checks = append(checks, doctor.Port("port of the enrolment", s.cfg.Enrolment.Address, s.runs()))
	}
	return append(checks, doctor.Check{Name: "broker", Look: s.lookAtBroker})
}

// lookAtBroker says CONNECT, as nobody, and waits for the answer: a refusal proves
// that the broker lives, and pushes nobody off a connection.
func (s site) lookAtBroker(ctx context.Context) doctor.Finding {
	const mend = "see the log of the broker, and the network on the way"
	if s.cfg.Transport == config.TransportMQTT {
		took, err := s.roundTripOut(ctx)
		if err != nil {
			return doctor.Bad(mend, "%s: %v", s.cfg.MQTT.URL, err)
		}
		return doctor.Good("%s answers within %s", s.cfg.MQTT.URL, took)
	}
	if !s.runs() {
		return doctor.Skipped("it is part of headquarters, which does not run")
	}
	listener, secure := s.cfg.Broker.Listeners.TCP.Address, (*tls.Config)(nil)
	if listener == "" {
		listener = s.cfg.Broker.Listeners.TLS.Address
		var err error
		if secure, err = doctor.OwnTLS(s.cfg.Broker.Listeners.TLS.CertFile); err != nil {
			return doctor.Bad("mend cert_file", "%v", err)
		}
	}
	host, port, err := net.SplitHostPort(listener)
	if err != nil || port == "0" {
		return doctor.Skipped("it listens on any port")
	}
	took, err := doctor.RoundTrip(ctx, net.JoinHostPort(doctor.Reachable(host), port), secure)
	if err != nil {
		return doctor.Bad(mend, "%v", err)
	}
	return doctor.Good("it answers within %s", took)
}

// roundTripOut asks the external broker.
func (s site) roundTripOut(ctx context.Context) (time.Duration, error) {
	login, err := s.cfg.MQTT.Login()
	if err != nil {
		return 0, err
	}
	usual := map[string]string{"mqtt": "1883", "mqtts": "8883"}
	port := login.URL.Port()
	if port == "" {
		port = usual[login.URL.Scheme]
	}
	if _, plain := usual[login.URL.Scheme]; !plain {
		return 0, fmt.Errorf("over %s only dispatcher health asks", login.URL.Scheme)
	}
	secure := login.TLS
	secure.ServerName = login.URL.Hostname()
	if login.URL.Scheme == "mqtt" {
		secure = nil
	}
	return doctor.RoundTrip(ctx, net.JoinHostPort(login.URL.Hostname(), port), secure)
}
