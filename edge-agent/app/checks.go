package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"muster/edge-agent/internal/identity"
	"muster/edge-agent/internal/journal"
	"muster/edge-agent/internal/link"
	"muster/internal/doctor"
	"muster/internal/settings"
)

// agentFiles is how many files and connections an agent may have open: programs
// that it starts and log files that it reads, with room.
const agentFiles = 256

// Checks are what doctor looks at. path is the configuration's, and trouble says
// why it could not be read, when nothing else can be looked at.
func Checks(cfg *Config, path string, trouble error, unknown settings.Strays) []doctor.Check {
	if path == "" {
		path = "the built-in configuration"
	}
	checks := []doctor.Check{doctor.Configuration("edge-agent", path, trouble, unknown)}
	if trouble != nil {
		return append(checks, doctor.EverythingElse())
	}
	checks = append(checks,
		doctor.Folder("work folder", cfg.WorkFolder, "make it writable for the user that the agent runs as"),
		doctor.Disk("disk of the work folder", cfg.WorkFolder),
		doctor.Check{Name: "lock of the work folder", Look: func(context.Context) doctor.Finding { return lookAtLock(cfg) }},
		doctor.OpenFiles(agentFiles),
		doctor.Clock(),
		doctor.Check{Name: "identity", Look: func(context.Context) doctor.Finding { return lookAtIdentity(cfg) }},
	)
	for _, e := range cfg.Executors {
		checks = append(checks, doctor.Check{Name: fmt.Sprintf("executor of %s version %d", e.Type, e.Version), Look: func(context.Context) doctor.Finding {
			return lookAtProgram(e.Command[0], e.Folder)
		}})
	}
	return append(checks,
		doctor.Check{Name: "logs to collect", Look: func(context.Context) doctor.Finding { return lookAtGlobs(cfg) }},
		doctor.Check{Name: "broker", Look: func(ctx context.Context) doctor.Finding { return lookAtBroker(ctx, cfg) }})
}

// lookAtLock tells whether an agent runs.
func lookAtLock(cfg *Config) doctor.Finding {
	held, err := journal.Held(cfg.WorkFolder)
	switch {
	case err != nil:
		return doctor.Skipped("%v", err)
	case held != "":
		return doctor.Good("an agent runs: %s", held)
	}
	return doctor.Good("no agent runs")
}

// enrolAgain mends an identity that cannot be used.
const enrolAgain = "enrol this terminal again: edge-agent enroll --force with a new token of headquarters"

func lookAtIdentity(cfg *Config) doctor.Finding {
	switch {
	case cfg.Identity.Folder == "":
		return doctor.Warning("dispatcher enroll at headquarters, then edge-agent enroll here", "identity.folder is empty: nothing is signed or checked")
	case enrolsItself(cfg):
		return doctor.Good("none yet: the agent enrols by itself at %s with the token in %s", cfg.Identity.Headquarters, cfg.Identity.TokenFile)
	}
	id, err := openIdentity(cfg, time.Now())
	if errors.Is(err, identity.ErrEnded) {
		return doctor.Bad("set this machine's clock if it is wrong; else "+enrolAgain, "%v", err)
	}
	if err != nil {
		return doctor.Bad(enrolAgain, "%v", err)
	}
	if behind := id.Behind(time.Now()); behind > slowClock {
		return doctor.Warning("set this machine's clock", "the clock of this machine is %s behind what headquarters has signed", behind.Round(time.Second))
	}
	leaf := id.Certificate().Leaf
	return doctor.Ends("the certificate in "+cfg.Identity.Folder, leaf.NotBefore, leaf.NotAfter,
		"let the agent reach "+id.EnrolmentURL()+", where it renews it by itself")
}

func lookAtProgram(name, folder string) doctor.Finding {
	if folder != "" && !filepath.IsAbs(name) && filepath.Base(name) != name {
		name = filepath.Join(folder, name)
	}
	found, err := exec.LookPath(name)
	if err != nil {
		return doctor.Bad("install it, or write its whole path into the command", "%v", err)
	}
	return doctor.Good("%s", found)
}

func lookAtGlobs(cfg *Config) doctor.Finding {
	if len(cfg.Collect.Logs)+len(cfg.Collect.ConfigFiles) == 0 {
		return doctor.Warning("write globs under collect.logs and collect.config_files", "none are named: collect_log will find nothing")
	}
	files := 0
	for _, glob := range append(append([]string{}, cfg.Collect.Logs...), cfg.Collect.ConfigFiles...) {
		names, err := doublestar.FilepathGlob(glob)
		if err != nil {
			return doctor.Bad("mend the glob", "%s: %v", glob, err)
		}
		if len(names) == 0 {
			return doctor.Warning("mend the glob, or see whether the user of the agent may read there", "nothing is found by %s", glob)
		}
		files += len(names)
	}
	return doctor.Good("found %s", doctor.Count(files, "file"))
}

// lookAtBroker reaches the broker, checks who it is, and whether it takes the
// certificate. It does not log in as the terminal: that would push an agent that runs
// off its connection.
func lookAtBroker(ctx context.Context, cfg *Config) doctor.Finding {
	broker, err := cfg.BrokerURL()
	if err != nil {
		return doctor.Bad("write broker.url", "%v", err)
	}
	port := broker.Port()
	if port == "" {
		port = link.Schemes()[broker.Scheme]
	}
	address := net.JoinHostPort(broker.Hostname(), port)
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return doctor.Bad("see whether the line is up, the name right and headquarters' port open", "%s is not reached: %v", cfg.Broker.URL, err)
	}
	defer conn.Close()
	if broker.Scheme != "mqtts" && broker.Scheme != "wss" {
		return doctor.Good("%s is reached, without TLS", cfg.Broker.URL)
	}
	secure, err := cfg.TLS()
	if err != nil {
		return doctor.Bad("mend broker.ca_file", "%v", err)
	}
	secure.ServerName = broker.Hostname()
	if cfg.Identity.Folder != "" {
		if enrolsItself(cfg) {
			return doctor.Skipped("it is reached; this terminal is not enrolled yet, and cannot tell who it is")
		}
		id, err := openIdentity(cfg, time.Now())
		if err != nil {
			return doctor.Skipped("it is reached; without an identity it cannot be proven: %v", err)
		}
		id.Prove(secure, broker.Hostname())
	}
	hand := tls.Client(conn, secure)
	if err := hand.HandshakeContext(ctx); err != nil {
		return doctor.Bad("see whether broker.url names headquarters, ca_file its authority, and the clock is right", "%s is reached, but not proven: %v", cfg.Broker.URL, err)
	}
	if cfg.Identity.Folder == "" || broker.Scheme == "wss" { // a web socket greets in another way
		return doctor.Good("%s is reached and proven", cfg.Broker.URL)
	}
	refusal, err := link.Ask(ctx, hand)
	switch {
	case err != nil:
		return doctor.Bad("see the log of the broker at headquarters", "%s is reached and proven, but %v", cfg.Broker.URL, err)
	case refusal != "":
		return doctor.Bad("ask headquarters; after a revocation "+enrolAgain, "%s is reached and proven, but turns this terminal away: %s", cfg.Broker.URL, refusal)
	}
	return doctor.Good("%s is reached and proven, and takes the certificate", cfg.Broker.URL)
}
