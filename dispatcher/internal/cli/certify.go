package cli

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"muster/dispatcher/internal/identity"
	"muster/internal/protocol"
	"muster/internal/trust"
)

// certifyCommand makes a certificate with which a user logs in instead of a
// password. It needs the identity folder, not the running dispatcher.
func certifyCommand() *cobra.Command {
	var folder, out string
	var lifetime time.Duration
	cmd := &cobra.Command{
		Use:   "certify USER --identity FOLDER --out FOLDER",
		Short: "Make a key and a certificate with which a user logs in",
		Long: `Make a key and a certificate for a user, signed by headquarters' own authority, in
FOLDER/USER.key and FOLDER/USER.crt beside the authority's ca.crt. The user's entry
in the users file must say "certificate: true"; taking that out ends the right.`,
		Example: "  dispatcher certify wang --identity identity --out .\n" +
			"  mosquitto_sub -h hq.example.com -p 8883 --cafile ca.crt --cert wang.crt --key wang.key -u wang -V 5 -t 'muster/v1/runs/#'",
		Args: one("user"),
		RunE: func(cmd *cobra.Command, args []string) error {
			until, err := certify(folder, out, args[0], lifetime, time.Now())
			if err != nil {
				return err
			}
			say(cmd.OutOrStdout(), "%s logs in with %s and %s until %s\n", args[0], filepath.Join(out, args[0]+".crt"),
				filepath.Join(out, args[0]+".key"), until.Format(time.RFC3339))
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&folder, "identity", "identity", "headquarters' identity folder")
	f.StringVar(&out, "out", ".", "folder for the files")
	f.DurationVar(&lifetime, "lifetime", 0, "of the certificate (default 90 days)")
	return cmd
}

func certify(folder, out, user string, lifetime time.Duration, now time.Time) (until time.Time, err error) {
	if !protocol.ValidID(user) {
		return until, fmt.Errorf("user %q must be 1 to 63 of A-Z a-z 0-9 . _ - and start with a letter or digit", user)
	}
	if lifetime < 0 {
		return until, fmt.Errorf("--lifetime %s must be more than 0", lifetime)
	}
	keyFile := filepath.Join(out, user+".key")
	if _, err := os.Lstat(keyFile); !errors.Is(err, fs.ErrNotExist) {
		return until, fmt.Errorf("%s exists already: name another folder", keyFile)
	}
	id, err := identity.Open(folder, now)
	if err != nil {
		return until, err
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return until, fmt.Errorf("cannot make a key: %w", err)
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, private)
	if err != nil {
		return until, fmt.Errorf("cannot make a certificate request: %w", err)
	}
	request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request})
	cert, draft, err := id.Issue(request, trust.Holder{User: user}, lifetime, now)
	if err != nil {
		return until, err
	}
	key, err := trust.EncodeKey(private)
	if err != nil {
		return until, err
	}
	for _, file := range []struct {
		path string
		text []byte
	}{{filepath.Join(out, "ca.crt"), id.Authority()}, {filepath.Join(out, user+".crt"), cert}, {keyFile, key}} {
		if err := trust.WritePrivate(file.path, file.text); err != nil {
			return until, err
		}
	}
	return draft.NotAfter, nil
}
