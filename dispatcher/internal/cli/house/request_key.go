package house

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"muster/dispatcher/internal/cli/screen"
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
		Args:    screen.One("file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			public, err := writeKey(args[0])
			if err == nil {
				screen.Say(cmd.OutOrStdout(), "key: %q\n", base64.StdEncoding.EncodeToString(public))
			}
			return err
		},
	}
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
