package house

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"muster/broker/server/users"
	"muster/dispatcher/internal/cli/screen"
	"muster/dispatcher/internal/identity"
	"muster/internal/protocol"
	"muster/internal/trust"
)

// The ports that a new headquarters listens on.
const (
	brokerPort    = "8883" // MQTT over TLS
	enrolmentPort = "8443"
)

// installation is a new headquarters, as --json prints it.
type installation struct {
	Folder       string   `json:"folder"`
	Config       string   `json:"config"`
	Hosts        []string `json:"hosts"`
	Operator     string   `json:"operator"`
	Password     string   `json:"password,omitempty"` // none: a certificate
	Broker       string   `json:"broker"`
	EnrolmentURL string   `json:"enrolmentUrl"`
	Authority    string   `json:"authority"` // SHA-256 of its SubjectPublicKeyInfo
}

// blueprint is what to make.
type blueprint struct {
	folder      string
	hosts       []string
	operator    string
	certificate bool // the operator has no password
}

func initCommand() *cobra.Command {
	var p blueprint
	var asJSON, keep bool
	cmd := &cobra.Command{
		Use:   "init FOLDER --host NAME",
		Short: "Make a folder from which headquarters can serve: identity, first operator, configuration",
		Long: "Make a private certificate authority, the certificate of the broker, the first signing key, a user with a\n" +
			"random password that is shown once, and a configuration with TLS alone. An existing folder must be empty;\n" +
			"with --keep, one that init finished before is left as it is.",
		Example: "  dispatcher init /srv/muster --host hq.example.com --host 192.0.2.10 --operator chen",
		Args:    screen.One("folder"),
		RunE: func(cmd *cobra.Command, args []string) error {
			p.folder = args[0]
			if keep && finished(p.folder) {
				if !asJSON {
					screen.Say(cmd.OutOrStdout(), "%s is kept as it is\n", p.folder)
				}
				return nil
			}
			made, err := p.install(time.Now())
			if err != nil {
				return err
			}
			if asJSON {
				return screen.JSON(cmd.OutOrStdout(), made)
			}
			showInstallation(cmd.OutOrStdout(), made)
			return nil
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&p.hosts, "host", nil, "name or address under which terminals reach headquarters (more than one: repeat it; the first is the one that is told)")
	f.StringVar(&p.operator, "operator", "operator", "user name of the first operator")
	f.BoolVar(&p.certificate, "certificate", false, "the operator logs in with a certificate (dispatcher certify) and has no password")
	f.BoolVar(&keep, "keep", false, "do nothing when init has made the folder already")
	f.BoolVar(&asJSON, "json", false, "print what was made as JSON")
	_ = cmd.MarkFlagRequired("host") // it is one of ours
	return cmd
}

// madeLast is the file with which a folder is finished: without it, it serves
// nobody.
const madeLast = "dispatcher.yaml"

func finished(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, madeLast))
	return err == nil
}

// install makes the folder, the configuration last.
func (p blueprint) install(now time.Time) (installation, error) {
	if !protocol.ValidID(p.operator) {
		return installation{}, fmt.Errorf("--operator %q must be 1 to 63 of A-Z a-z 0-9 . _ - and start with a letter or digit", p.operator)
	}
	if err := checkNew(p.folder); err != nil {
		return installation{}, err
	}
	place := filepath.Join(p.folder, "identity")
	if err := identity.Create(place, reachable(p.hosts), now); err != nil {
		return installation{}, err
	}
	id, err := identity.Open(place, now)
	if err != nil {
		return installation{}, err
	}
	made := installation{Folder: p.folder, Config: filepath.Join(p.folder, madeLast), Hosts: p.hosts, Operator: p.operator,
		Broker: "mqtts://" + net.JoinHostPort(p.hosts[0], brokerPort), EnrolmentURL: "https://" + net.JoinHostPort(p.hosts[0], enrolmentPort), Authority: id.AuthorityHash()}
	proof := "certificate: true"
	if !p.certificate {
		made.Password = rand.Text()
		hash, err := users.HashPassword([]byte(made.Password))
		if err != nil {
			return installation{}, err
		}
		proof = fmt.Sprintf("password: %q", hash)
	}
	for _, f := range []struct{ name, text string }{
		{"users.yaml", fmt.Sprintf(usersText, p.operator, proof)},
		{"stores.csv", "store_id,name,time_zone,labels\n"},
		{madeLast, fmt.Sprintf(configText, net.JoinHostPort("0.0.0.0", brokerPort), net.JoinHostPort("0.0.0.0", enrolmentPort), made.EnrolmentURL)},
	} {
		if err := trust.WritePrivate(filepath.Join(p.folder, f.name), []byte(f.text)); err != nil {
			return installation{}, err
		}
	}
	return made, nil
}

func checkNew(folder string) error {
	entries, err := os.ReadDir(folder)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("cannot look into %s: %w", folder, err)
	case finished(folder):
		return fmt.Errorf("%s is a headquarters already, and init overwrites nothing: name a new folder, or leave this one with --keep", folder)
	case len(entries) > 0:
		return fmt.Errorf("%s is not empty, it holds %s: init makes a new headquarters and overwrites nothing; name a new folder, or remove this one if an init in it was cut off", folder, entries[0].Name())
	}
	return nil
}

// reachable adds the machine itself, from where its operator asks.
func reachable(hosts []string) []string {
	all := slices.Clone(hosts)
	for _, host := range []string{"localhost", "127.0.0.1"} {
		if !slices.Contains(all, host) {
			all = append(all, host)
		}
	}
	return all
}

const usersText = `# Who may log in at the broker, and as what. Terminals do not stand here: they
# log in with the certificates that they enrol for.
# Roles: technician, operator, developer, approver, auditor. Whose entry says
# certificate: true logs in with what dispatcher certify makes. A password stands
# here only as its argon2id hash: broker hash-password < file-with-the-password
# A rotation of keys, and whatever else needs a second person, is approved by a
# user with the role approver: add one.
users:
  - name: "%s"
    role: operator
    %s
`

const configText = `# Headquarters, made by dispatcher init. Keys that do not stand here have their
# defaults. Paths are relative to this file.
data_folder: data                   # the database; one dispatcher at a time
reports_folder: reports
stores_file: stores.csv             # your stores: store_id,name,time_zone,labels

identity:
  folder: identity                  # certificates and signing keys; back it up

transport: embedded
broker:
  anonymous: false
  users_file: users.yaml
  listeners:
    tcp:
      address: ""                   # nothing without TLS
    tls:
      address: %s
      cert_file: identity/broker.crt
      key_file: identity/broker.key
      client_ca_file: identity/ca.crt
      crl_file: identity/crl.pem

enrolment:                          # where terminals get their certificates
  address: %s
  url: %s
`

func showInstallation(w io.Writer, made installation) {
	screen.Say(w, "made %s: identity, users.yaml, stores.csv, dispatcher.yaml\n\n", made.Folder)
	login := " --password-file FILE"
	if made.Password == "" {
		screen.Say(w, "operator  %s\n          (logs in with a certificate: dispatcher certify %s --identity %s)\n\nnext:\n", made.Operator, made.Operator, filepath.Join(made.Folder, "identity"))
		login = fmt.Sprintf(" --cert %s.crt --cert-key %s.key", made.Operator, made.Operator)
	} else {
		screen.Say(w, "operator  %s\npassword  %s\n", made.Operator, made.Password)
		screen.Say(w, "          (shown this once: only its hash is kept)\n\nnext:\n")
	}
	screen.Say(w, "  1. write your stores into %s\n", filepath.Join(made.Folder, "stores.csv"))
	screen.Say(w, "  2. dispatcher serve -c %s\n", made.Config)
	screen.Say(w, "  3. dispatcher enroll STORE TERMINAL -c %s\n", made.Config)
	screen.Say(w, "  4. dispatcher jobs --broker %s --ca-file %s --user %s%s\n", made.Broker, filepath.Join(made.Folder, "identity", identity.FileAuthority), made.Operator, login)
}
