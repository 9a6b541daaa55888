package techkit

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"muster/broker/server/users"
	"muster/dispatcher/config"
	"muster/dispatcher/internal/identity"
	"muster/internal/files"
	"muster/internal/protocol"
	"muster/internal/trust"
)

// order is a kit that is asked for on the command line.
type order struct {
	config, host, out, passwordFile string
}

// Command is `dispatcher tech-kit`.
func Command() *cobra.Command {
	var o order
	cmd := &cobra.Command{
		Use:   "tech-kit USER",
		Short: "Pack what a technician's laptop needs: options, certificate, cheat sheet, scripts",
		Long: `Pack a zip for a user of the users file: option files for mosquitto_pub, mosquitto_sub and
mosquitto_rr, the authority's certificate, a cheat sheet in English and Chinese, and scripts
for bash and PowerShell that ask and watch. Whose entry says "certificate: true" gets a key and a
certificate too; others write their password into the option files, or get it by --password-file.
A kit with a key or a password is a secret: hand it over as one.`,
		Example: "  dispatcher tech-kit tech1 -c /srv/muster/dispatcher.yaml --host hq.example.com",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			kit, err := o.kit(args[0], time.Now())
			if err != nil {
				return err
			}
			path := cmp.Or(o.out, "muster-"+kit.User+".zip")
			if err := save(path, kit); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "packed %s for %s at %s\n", path, kit.User, net.JoinHostPort(kit.Host, kit.Port))
			return err
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.config, "config", "c", "", "headquarters' configuration file (default: the embedded one, on loopback)")
	f.StringVar(&o.host, "host", "", "name or address, and :port if it is another, under which the laptop reaches the broker (default: the first of its certificate)")
	f.StringVarP(&o.out, "out", "o", "", "the file (default muster-USER.zip); it must not exist")
	f.StringVar(&o.passwordFile, "password-file", "", "file that holds the user's password, to be packed too")
	return cmd
}

// save writes the kit for its owner alone, and overwrites nothing.
func save(path string, kit *Kit) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s exists already: name another file by --out, or remove it", path)
	}
	var packed bytes.Buffer
	if err := kit.Write(&packed, time.Now()); err != nil {
		return err
	}
	return trust.WritePrivate(path, packed.Bytes())
}

func (o order) kit(user string, now time.Time) (*Kit, error) {
	if !protocol.ValidID(user) {
		return nil, fmt.Errorf("user %q must be 1 to 63 of A-Z a-z 0-9 . _ - and start with a letter or digit", user)
	}
	cfg, err := config.Load(o.config)
	if err != nil {
		return nil, err
	}
	kit := &Kit{User: user, Root: cfg.TopicRoot}
	place, ca := where(cfg)
	if ca != "" {
		if kit.CA, err = os.ReadFile(ca); err != nil {
			return nil, fmt.Errorf("cannot read the authority's certificate: %w", err)
		}
	}
	if err := kit.reach(o.host, place, cfg.Broker.Listeners.TLS.CertFile); err != nil {
		return nil, err
	}
	if o.passwordFile != "" {
		if kit.Password, err = files.ReadSecret(o.passwordFile); err != nil {
			return nil, fmt.Errorf("cannot read the password: %w", err)
		}
	}
	if err := kit.login(cfg, now); err != nil {
		return nil, err
	}
	return kit, kit.rights(cfg)
}

// rights looks up what the user may ask for.
func (k *Kit) rights(cfg config.Config) error {
	known, err := cfg.ReadPeople()
	if err != nil {
		return err
	}
	person, err := known.Who(k.User)
	if err != nil {
		return err
	}
	k.Verbs = person.Verbs()
	return nil
}

// where is the broker's address, and the file of the authority that vouches for it.
func where(cfg config.Config) (place, ca string) {
	if cfg.Transport == config.TransportMQTT {
		if u, err := url.Parse(cfg.MQTT.URL); err == nil {
			place = u.Host
		}
		return place, cfg.MQTT.CAFile
	}
	if tls := cfg.Broker.Listeners.TLS; tls.Address != "" {
		return tls.Address, cmp.Or(tls.ClientCAFile, tls.CertFile)
	}
	return cfg.Broker.Listeners.TCP.Address, ""
}

// reach fills in where the laptop connects: as asked, else where the broker listens,
// under the first name of its certificate when that is every address.
func (k *Kit) reach(asked, place, certFile string) error {
	host, port, err := net.SplitHostPort(place)
	if err != nil {
		return fmt.Errorf("cannot tell where the broker is (%q); use --host NAME:PORT", place)
	}
	if ip := net.ParseIP(host); (host == "" || ip != nil && ip.IsUnspecified()) && asked == "" {
		if host, err = named(certFile); err != nil {
			return fmt.Errorf("cannot tell under which name the laptop reaches the broker; use --host: %w", err)
		}
	}
	if asked != "" {
		host = asked
		if h, p, err := net.SplitHostPort(asked); err == nil {
			host, port = h, p
		}
	}
	if strings.ContainsAny(host, " \t\r\n") || host == "" {
		return fmt.Errorf("--host %q is no name", asked)
	}
	k.Host, k.Port = host, port
	return nil
}

// named is the first name, or else address, of a certificate.
func named(certFile string) (string, error) {
	text, err := os.ReadFile(certFile)
	if err != nil {
		return "", err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return "", fmt.Errorf("%s holds no certificate", certFile)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	switch {
	case err != nil:
		return "", fmt.Errorf("cannot read %s: %w", certFile, err)
	case len(cert.DNSNames) > 0 && cert.DNSNames[0] != "localhost":
		return cert.DNSNames[0], nil
	case len(cert.IPAddresses) > 0:
		return cert.IPAddresses[0].String(), nil
	}
	return "", fmt.Errorf("%s names no machine", certFile)
}

// login looks the user up, and makes a key and a certificate for who logs in with one.
func (k *Kit) login(cfg config.Config, now time.Time) error {
	file := cfg.Broker.UsersFile
	if cfg.Transport == config.TransportMQTT {
		file = cfg.MQTT.UsersFile
	}
	if file == "" {
		k.Login = k.Password != "" || cfg.Transport == config.TransportMQTT
		return nil // nobody is asked for a proof, or by a broker that is not ours
	}
	book, err := users.Load(file)
	if err != nil {
		return err
	}
	entry, ok := book.Get(k.User)
	if !ok {
		return fmt.Errorf("%s has no user %s: add an entry with the role technician first", file, k.User)
	}
	k.Login = true
	if !entry.Certificate || k.Password != "" {
		return nil
	}
	id, err := identity.Open(cfg.Identity.Folder, now)
	if err != nil {
		return err
	}
	k.Cert, k.Key, _, err = id.CertifyUser(k.User, 0, now)
	return err
}
