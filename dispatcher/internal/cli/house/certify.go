package house

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"muster/dispatcher/internal/cli/screen"
	"muster/dispatcher/internal/identity"
	"muster/internal/protocol"
	"muster/internal/trust"
)

// renewBefore is how long a certificate must still be good to be kept.
const renewBefore = 30 * 24 * time.Hour

// certification is what to certify with, and where the files go.
type certification struct {
	identity, out string // folders
	lifetime      time.Duration
	keep          bool
}

// certifyCommand makes certificates with which users log in instead of a
// password. It needs the identity folder, not the running dispatcher.
func certifyCommand() *cobra.Command {
	var c certification
	cmd := &cobra.Command{
		Use:   "certify USER... --identity FOLDER --out FOLDER",
		Short: "Make a key and a certificate with which a user logs in",
		Long: `Make a key and a certificate for each user, signed by headquarters' own authority, in
FOLDER/USER.key and FOLDER/USER.crt beside the authority's ca.crt. The user's entry
in the users file must say "certificate: true"; taking that out ends the right.
With --keep, whoever has a certificate for 30 more days keeps it.`,
		Example: "  dispatcher certify wang --identity identity --out .\n" +
			"  mosquitto_sub -h hq.example.com -p 8883 --cafile ca.crt --cert wang.crt --key wang.key -u wang -V 5 -t 'muster/v1/runs/#'",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, user := range args {
				if err := c.check(user); err != nil {
					return err
				}
			}
			id, err := identity.Open(c.identity, time.Now())
			if err != nil {
				return err
			}
			for _, user := range args {
				until, err := c.certify(id, user, time.Now())
				if err != nil {
					return err
				}
				screen.Say(cmd.OutOrStdout(), "%s logs in with %s and %s until %s\n", user, c.path(user, ".crt"), c.path(user, ".key"), screen.Moment(protocol.At(until)))
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.identity, "identity", "identity", "headquarters' identity folder")
	f.StringVar(&c.out, "out", ".", "folder for the files")
	f.DurationVar(&c.lifetime, "lifetime", 0, "of the certificate (default 90 days)")
	f.BoolVar(&c.keep, "keep", false, "leave a certificate that is good for 30 more days, and replace any other")
	return cmd
}

func (c certification) path(user, ending string) string { return filepath.Join(c.out, user+ending) }

// check finds what is wrong before anything is made.
func (c certification) check(user string) error {
	if !protocol.ValidID(user) {
		return fmt.Errorf("user %q must be 1 to 63 of A-Z a-z 0-9 . _ - and start with a letter or digit", user)
	}
	if c.lifetime < 0 {
		return fmt.Errorf("--lifetime %s must be more than 0", c.lifetime)
	}
	if _, err := os.Lstat(c.path(user, ".key")); !c.keep && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s exists already: name another folder, or use --keep", c.path(user, ".key"))
	}
	return nil
}

func (c certification) certify(id *identity.Identity, user string, now time.Time) (until time.Time, err error) {
	if until := c.kept(id, user); c.keep && until.Sub(now) > renewBefore {
		return until, nil
	}
	cert, key, until, err := id.CertifyUser(user, c.lifetime, now)
	if err != nil {
		return until, err
	}
	for _, file := range []struct {
		path string
		text []byte
	}{{filepath.Join(c.out, identity.FileAuthority), id.Authority()}, {c.path(user, ".crt"), cert}, {c.path(user, ".key"), key}} {
		if err := trust.WritePrivate(file.path, file.text); err != nil {
			return until, err
		}
	}
	return until, nil
}

// kept is until when the user's certificate is good, with its key and by this
// authority; the zero time when it is not.
func (c certification) kept(id *identity.Identity, user string) time.Time {
	pair, err := tls.LoadX509KeyPair(c.path(user, ".crt"), c.path(user, ".key"))
	if err != nil || pair.Leaf.CheckSignatureFrom(id.Certificate()) != nil {
		return time.Time{}
	}
	return pair.Leaf.NotAfter
}
