package doctor

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"muster/internal/files"
	"muster/internal/machine"
	"muster/internal/settings"
)

// Configuration is the first check of a program: trouble says why its configuration
// cannot be used, and unknown are variables of the environment that are no keys.
func Configuration(program, path string, trouble error, unknown settings.Strays) Check {
	return Check{"configuration", func(context.Context) Finding {
		switch {
		case trouble != nil:
			return Bad("edit it; "+program+" check-config looks again", "%v", trouble)
		case len(unknown) > 0:
			return Warning("correct the name, or unset it; check-config --print-effective shows the keys", "%s is valid; %v", path, unknown)
		}
		return Good("%s is valid", path)
	}}
}

// EverythingElse stands for all that cannot be looked at without a configuration.
func EverythingElse() Check {
	return Check{"everything else", func(context.Context) Finding {
		return Skipped("needs a configuration that is valid")
	}}
}

// Listener checks an address that a broker listens on: it is free, or a broker of
// this program answers there. ask asks it; nil: it is only seen who listens.
func Listener(name, address, program string, ask func(ctx context.Context, address string) error) Check {
	return Check{name, func(ctx context.Context) Finding {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if err == nil {
			_ = l.Close()
			return Good("%s is free: no %s runs on it", address, program)
		}
		taken := machine.Unlistenable(address, err)
		const mend = "end what listens there, or choose another address"
		host, port, splits := net.SplitHostPort(address)
		number, isNumber := strconv.Atoi(port)
		if splits != nil || isNumber != nil {
			return Bad(mend, "%v", taken)
		}
		pid, who := machine.Listener(number)
		if pid > 0 && who != ownName() {
			return Bad(mend, "%v", taken)
		}
		by := "is taken"
		if pid > 0 {
			by = fmt.Sprintf("is held by %s (process %d)", who, pid)
		}
		if ask == nil {
			return Good("%s %s", address, by)
		}
		began := time.Now()
		if err := ask(ctx, net.JoinHostPort(Reachable(host), port)); err != nil {
			return Bad(mend+"; if it is this program, see its log", "%s %s: %v", address, by, err)
		}
		return Good("%s %s, and a broker answers within %s", address, by, time.Since(began).Round(time.Millisecond))
	}}
}

// ownName is this program's as the system lists processes: cut to 15 bytes (comm,
// proc_pid_comm(5)).
func ownName() string {
	own, err := os.Executable()
	if err != nil {
		return ""
	}
	name := filepath.Base(own)
	return name[:min(len(name), 15)]
}

// Reachable is the host at which this machine reaches what listens on a host.
func Reachable(host string) string {
	if settings.Everywhere(host) {
		return "localhost"
	}
	return host
}

// OwnTLS believes the authority of a broker's own certificate, under its own name.
func OwnTLS(file string) (*tls.Config, error) {
	text, err := files.Read(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the broker's certificate: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	leaf, err := FirstCertificate(text)
	if err != nil {
		return nil, fmt.Errorf("cannot use %s: %w", file, err)
	}
	name := leaf.Subject.CommonName
	switch {
	case len(leaf.DNSNames) > 0:
		name = leaf.DNSNames[0]
	case len(leaf.IPAddresses) > 0:
		name = leaf.IPAddresses[0].String()
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, ServerName: name}, nil
}

// RoundTrip connects, and says CONNECT of MQTT 5 (section 3.1) without name or
// password; the answer must be a CONNACK, whatever its code: a refusal too proves
// that a broker lives, and pushes nobody off a connection.
func RoundTrip(ctx context.Context, address string, secure *tls.Config) (time.Duration, error) {
	began := time.Now()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return 0, fmt.Errorf("it is not reached: %w", err)
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return 0, fmt.Errorf("cannot ask it: %w", err)
		}
	}
	if secure != nil {
		hand := tls.Client(conn, secure)
		if err := hand.HandshakeContext(ctx); err != nil {
			return 0, fmt.Errorf("it is reached, but not proven: %w", err)
		}
		conn = hand
	}
	const cleanStart, keepAlive, noProperties, id = 2, 10, 0, "doctor"
	body := append([]byte{0, 4, 'M', 'Q', 'T', 'T', 5, cleanStart, 0, keepAlive, noProperties, 0, byte(len(id))}, id...)
	if _, err := conn.Write(append([]byte{0x10, byte(len(body))}, body...)); err != nil {
		return 0, fmt.Errorf("cannot ask it: %w", err)
	}
	first, err := bufio.NewReader(conn).ReadByte()
	if err != nil {
		return 0, fmt.Errorf("it does not answer: %w", err)
	}
	const connack = 0x20
	if first != connack {
		return 0, fmt.Errorf("it answers with no CONNACK: what listens at %s is no MQTT broker", address)
	}
	return time.Since(began).Round(time.Millisecond), nil
}
