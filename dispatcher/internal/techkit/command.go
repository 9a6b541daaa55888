package techkit

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"muster/broker/server/users"
	"muster/dispatcher/config"
	"muster/dispatcher/internal/cli/screen"
	"muster/dispatcher/internal/example"
	"muster/dispatcher/internal/identity"
	"muster/dispatcher/internal/job"
	"muster/dispatcher/internal/store"
	"muster/internal/files"
	"muster/internal/protocol"
	"muster/internal/settings"
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
The sheet has what the user's role may ask for, and names stores and jobs that are the user's.
A kit with a key or a password is a secret: hand it over as one.`,
		Example: "  dispatcher tech-kit tech1 -c /srv/muster/dispatcher.yaml --host hq.example.com",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			kit, err := o.kit(cmd.Context(), args[0], time.Now())
			if err != nil {
				return err
			}
			for _, warning := range kit.Warnings {
				screen.Say(cmd.ErrOrStderr(), "warning: %s\n", warning)
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
	f.StringVar(&o.host, "host", "", "name or address, and :port if it is another, under which the laptop reaches the broker (default: the first name of its certificate that is not this machine's own)")
	f.StringVarP(&o.out, "out", "o", "", "the file (default muster-USER.zip); it must not exist")
	f.StringVar(&o.passwordFile, "password-file", "", "file that holds the user's password, which is checked and packed too")
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

func (o order) kit(ctx context.Context, user string, now time.Time) (*Kit, error) {
	if !protocol.ValidID(user) {
		return nil, fmt.Errorf("user %q must be 1 to 63 of A-Z a-z 0-9 . _ - and start with a letter or digit", user)
	}
	cfg, err := config.Load(o.config)
	if err != nil {
		return nil, err
	}
	kit := &Kit{User: user, Root: cfg.TopicRoot}
	at := where(cfg)
	if at.ca != "" {
		if kit.CA, err = os.ReadFile(at.ca); err != nil {
			return nil, fmt.Errorf("cannot read the authority's certificate: %w", err)
		}
	}
	if err := kit.reach(o.host, at); err != nil {
		return nil, err
	}
	if o.passwordFile != "" {
		if kit.Password, err = files.ReadSecret(o.passwordFile); err != nil {
			return nil, fmt.Errorf("cannot read the password: %w", err)
		}
	}
	if err := kit.login(ctx, cfg, now); err != nil {
		return nil, err
	}
	return kit, kit.rights(cfg)
}

// rights looks up what the user may ask for, and examples of it. Of a list that cannot be
// read there are none.
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
	if !k.Asks() {
		return nil
	}
	var jobs []job.Spec
	var places []store.Place
	registry, list, err := cfg.ReadLists()
	if err == nil {
		jobs = registry.List()
		places, err = list.Places()
	}
	if err != nil {
		k.warn("the cheat sheets have fewer examples, for the lists of jobs and stores cannot be read: %v", err)
	}
	k.Examples = example.For(person, jobs, places)
	return nil
}

func (k *Kit) warn(format string, args ...any) {
	k.Warnings = append(k.Warnings, fmt.Sprintf(format, args...))
}

// place is where the broker listens, the file with its certificate, if it shows one that
// is known here, and that of the authority that vouches for it.
type place struct{ address, cert, ca string }

func where(cfg config.Config) place {
	if cfg.Transport == config.TransportMQTT {
		at := place{ca: cfg.MQTT.CAFile}
		if u, err := url.Parse(cfg.MQTT.URL); err == nil {
			at.address = u.Host
		}
		return at
	}
	if tls := cfg.Broker.Listeners.TLS; tls.Address != "" {
		return place{tls.Address, tls.CertFile, cmp.Or(tls.ClientCAFile, tls.CertFile)}
	}
	return place{address: cfg.Broker.Listeners.TCP.Address}
}

// reach fills in where the laptop connects: as asked, else under the first name of the
// broker's certificate that means another machine than the laptop, else where the broker
// listens.
func (k *Kit) reach(asked string, at place) error {
	host, port, err := net.SplitHostPort(at.address)
	if err != nil {
		return fmt.Errorf("cannot tell where the broker is (%q); use --host NAME:PORT", at.address)
	}
	if asked == "" {
		if host, err = named(host, at.cert); err != nil {
			return fmt.Errorf("cannot tell under which name the laptop reaches the broker; use --host: %w", err)
		}
		if settings.Loopback(host) {
			k.warn("%s is this machine itself, so that the kit works here alone: for a laptop pack it with --host NAME", host)
		}
	} else {
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

// named is under which host a client finds the broker that listens on one and shows the
// certificate, if it has any.
func named(listens, certFile string) (string, error) {
	names, err := namesOf(certFile)
	if err != nil {
		return "", err
	}
	for _, name := range names {
		if !settings.Loopback(name) && !strings.HasPrefix(name, "*") {
			return name, nil
		}
	}
	if ip := net.ParseIP(listens); listens != "" && (ip == nil || !ip.IsUnspecified()) {
		return listens, nil
	}
	if len(names) == 0 {
		return "", errors.New("it listens on every address, and has no certificate with a name")
	}
	return names[0], nil
}

// namesOf are the names of a certificate, and then its addresses; none without a file.
func namesOf(certFile string) (names []string, err error) {
	if certFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(certFile)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s holds no certificate", certFile)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", certFile, err)
	}
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	return slices.Concat(cert.DNSNames, names), nil
}

// login looks the user up, holds a password against the users file, and makes a key and
// a certificate for who logs in with one.
func (k *Kit) login(ctx context.Context, cfg config.Config, now time.Time) error {
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
	switch {
	case k.Password != "" && cfg.Transport == config.TransportMQTT:
		return nil // whose password it is the broker knows, which is not ours
	case k.Password != "":
		return k.proven(ctx, book, file)
	case !entry.Certificate:
		return nil
	}
	id, err := identity.Open(cfg.Identity.Folder, now)
	if err != nil {
		return err
	}
	k.Cert, k.Key, _, err = id.CertifyUser(k.User, 0, now)
	return err
}

// proven refuses a password with which the broker lets nobody in.
func (k *Kit) proven(ctx context.Context, book *users.Book, file string) error {
	if !book.HasPassword(k.User) {
		return fmt.Errorf("%s has no password of %s, who logs in with a certificate: leave --password-file out", file, k.User)
	}
	_, err := users.NewVerifier(book, nil).Verify(ctx, users.Attempt{Name: k.User, Password: []byte(k.Password)})
	if errors.Is(err, users.ErrWrong) {
		return fmt.Errorf("the password of --password-file is not that of %s in %s: name the right file, or put the output of hash-password there", k.User, file)
	}
	return err
}
