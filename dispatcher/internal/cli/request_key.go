package cli

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"muster/internal/trust"
)

// requestKeyCommand makes a key by which a user proves requests. It asks nobody.
func requestKeyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "request-key FILE",
		Short: "Make a private key that signs requests, and print its public part for the users file",
		Long: `Make a private key (Ed25519) in FILE, readable by its owner alone, and print the
line that belongs into the user's entry of headquarters' users file. A file that
exists is never written over.`,
		Example: "  dispatcher request-key wang.key\n  dispatcher run collect_log --stores all --key wang.key",
		Args:    one("file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			public, err := writeKey(args[0])
			if err == nil {
				say(cmd.OutOrStdout(), "key: %q\n", base64.StdEncoding.EncodeToString(public))
			}
			return err
		},
	}
}

// signedFor is how long a signed request may be on its way: beyond the time that
// an answer is waited for, and short of what headquarters allows.
const signedFor = 5 * time.Minute

// deadline is when a request that is signed becomes void, 0 for another.
func (a *access) deadline() int64 {
	if a.key == "" {
		return 0
	}
	return time.Now().Add(signedFor).UnixMilli()
}

func writeKey(path string) (ed25519.PublicKey, error) {
	_, err := os.Lstat(path)
	if err == nil {
		return nil, fmt.Errorf("%s exists; name a new file", path)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot look at %s: %w", path, err)
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("cannot make a key: %w", err)
	}
	text, err := trust.EncodeKey(private)
	if err != nil {
		return nil, err
	}
	return public, trust.WritePrivate(path, text)
}
