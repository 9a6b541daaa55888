// Package house holds the commands that make, staff and change a headquarters:
// beside the dispatcher that runs on this machine, over its admin line, or on its
// folder alone. Nothing here goes over the broker.
package house

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"muster/dispatcher/internal/admin"
	"muster/dispatcher/internal/cli/folders"
	"muster/dispatcher/internal/cli/screen"
	"muster/internal/protocol"
	"muster/internal/trust"
)

// Commands returns the commands of this package, new ones on each call.
func Commands() []*cobra.Command {
	return []*cobra.Command{initCommand(), enrollCommand(), revokeCommand(), terminalsCommand(), keysCommand(), certifyCommand(), requestKeyCommand(),
		reloadCommand(), storesCommand(), usersCommand()}
}

// beside says where the dispatcher that runs on this machine keeps its data.
type beside struct {
	data   string
	config string
	asJSON bool
}

func (b *beside) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&b.data, "data", "", "data folder of the running headquarters (data_folder)")
	f.StringVarP(&b.config, "config", "c", "", "its configuration file, which names the data folder")
	f.BoolVar(&b.asJSON, "json", false, "print the answer as JSON")
	cmd.MarkFlagsMutuallyExclusive("data", "config")
}

// dial reaches the running dispatcher. With neither flag it is the one that
// serves the defaults from this folder.
func (b *beside) dial() (*admin.Client, error) {
	if b.data != "" {
		return admin.Dial(b.data)
	}
	own, err := folders.Of(b.config)
	if err != nil {
		return nil, err
	}
	return admin.Dial(own.Data)
}

// Refusal turns what headquarters said into an exit code and words.
func Refusal(cmd *cobra.Command, err error) error {
	var refused *protocol.Error
	switch {
	case errors.Is(err, admin.ErrNotRunning):
		return &screen.Exit{Code: screen.ExitNoAnswer, Text: err.Error()}
	case errors.As(err, &refused):
		screen.Refusal(cmd.ErrOrStderr(), protocol.Rejected(refused))
		return &screen.Exit{Code: screen.ExitRefused}
	}
	return err
}

// answer asks the running dispatcher and shows what it said.
func answer[T any](cmd *cobra.Command, b *beside, ask func(*admin.Client) (T, error), show func(io.Writer, T)) error {
	client, err := b.dial()
	if err != nil {
		return Refusal(cmd, err)
	}
	said, err := ask(client)
	switch {
	case err != nil:
		return Refusal(cmd, err)
	case b.asJSON:
		return screen.JSON(cmd.OutOrStdout(), said)
	}
	show(cmd.OutOrStdout(), said)
	return nil
}

func enrollCommand() *cobra.Command {
	var b beside
	var valid time.Duration
	var file string
	var keep bool
	cmd := &cobra.Command{
		Use:   "enroll STORE TERMINAL",
		Short: "Make a token with which one terminal gets its certificate, once",
		Long: "Ask the dispatcher that runs on this machine for a token. Whoever has it can enrol as that terminal:\n" +
			"hand it over as you would a password. It is shown this once; with --token-file it is not shown but\n" +
			"written there, alone and for its owner alone.",
		Example: "  dispatcher enroll 0001 pos-1 -c /srv/muster/dispatcher.yaml",
		Args:    terminalArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if valid < time.Second {
				return fmt.Errorf("--valid %s must be 1m to 168h", valid)
			}
			if there, err := checkTokenFile(file, keep); there || err != nil {
				return err
			}
			var unwritten error
			err := answer(cmd, &b, func(c *admin.Client) (admin.Token, error) {
				made, err := c.EnrolToken(cmd.Context(), admin.TokenRequest{Store: args[0], Terminal: args[1], Actor: admin.Actor(), ValidSeconds: int64(valid / time.Second)})
				if file != "" && err == nil {
					unwritten = trust.WritePrivate(file, []byte(made.Token+"\n"))
					made.Token = ""
				}
				return made, err
			}, func(w io.Writer, t admin.Token) { showToken(w, t, file) })
			return errors.Join(err, unwritten)
		},
	}
	b.flags(cmd)
	f := cmd.Flags()
	f.DurationVar(&valid, "valid", 24*time.Hour, "how long the token may wait, 1m to 168h")
	f.StringVar(&file, "token-file", "", "file to write the token into, instead of showing it")
	f.BoolVar(&keep, "keep", false, "do nothing when --token-file exists already")
	cmd.MarkFlagsMutuallyExclusive("token-file", "json")
	return cmd
}

// checkTokenFile says whether there is nothing to do.
func checkTokenFile(file string, keep bool) (there bool, err error) {
	if file == "" {
		if keep {
			return false, errors.New("--keep needs --token-file: without a file there is nothing to keep")
		}
		return false, nil
	}
	_, err = os.Lstat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("cannot look at --token-file: %w", err)
	case keep:
		return true, nil
	}
	return false, fmt.Errorf("%s exists already: remove it, or leave it with --keep", file)
}

func showToken(w io.Writer, t admin.Token, file string) {
	until := screen.Moment(t.ExpiresAt)
	if file != "" {
		screen.Say(w, "the token for terminal %s of store %s, for one use by %s, is in %s\n", t.Terminal, t.Store, until, file)
		return
	}
	address := t.EnrolmentURL
	if address == "" {
		address = "https://HEADQUARTERS:" + enrolmentPort // enrolment.url is not configured
	}
	screen.Say(w, "token for terminal %s of store %s, for one use by %s:\n\n  %s\n\n", t.Terminal, t.Store, until, t.Token)
	screen.Say(w, "at the terminal, which asks for the token:\n\n  edge-agent enroll --headquarters %s --store %s --terminal %s --identity identity --token-file -\n", address, t.Store, t.Terminal)
}

func revokeCommand() *cobra.Command {
	var b beside
	cmd := &cobra.Command{
		Use:   "revoke STORE TERMINAL",
		Short: "End the trust in a terminal's keys for good, and cut its connection",
		Long: "The broker cuts the terminal's connection, and headquarters takes nothing more from it. Tokens that wait for\n" +
			"it are void. To let it come back: a new token and a new key.",
		Example: "  dispatcher revoke 0001 pos-1 -c /srv/muster/dispatcher.yaml",
		Args:    terminalArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return answer(cmd, &b, func(c *admin.Client) (admin.Revocation, error) {
				return c.Revoke(cmd.Context(), admin.RevokeRequest{Store: args[0], Terminal: args[1], Actor: admin.Actor()})
			}, func(w io.Writer, r admin.Revocation) {
				screen.Say(w, "terminal %s of store %s is revoked; certificates that are void: %d\n", r.Terminal, r.Store, len(r.Certificates))
			})
		},
	}
	b.flags(cmd)
	return cmd
}

func terminalsCommand() *cobra.Command {
	var b beside
	cmd := &cobra.Command{
		Use:   "terminals",
		Short: "List the keys of all enrolled terminals, and until when they are valid",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return answer(cmd, &b, func(c *admin.Client) (admin.Terminals, error) { return c.Terminals(cmd.Context()) }, showTerminals)
		},
	}
	b.flags(cmd)
	return cmd
}

func showTerminals(w io.Writer, all admin.Terminals) {
	if len(all.Terminals) == 0 {
		screen.Say(w, "no terminal is enrolled\n")
		return
	}
	table := screen.NewTable(w, "STORE", "TERMINAL", "KEY", "ENROLLED", "VALID UNTIL", "STATE")
	for _, t := range all.Terminals {
		state := "valid"
		switch {
		case !t.RevokedAt.IsZero():
			state = "revoked " + screen.Moment(t.RevokedAt)
		case all.At.After(t.NotAfter.Time):
			state = "ended"
		}
		table.Row(t.Store, t.Terminal, t.KeyID, screen.Moment(t.IssuedAt), screen.Moment(t.NotAfter), state)
	}
	table.Flush()
}

// terminalArgs takes a store and a terminal.
func terminalArgs(cmd *cobra.Command, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("%s takes a store and a terminal, not %d arguments: %s", cmd.Name(), len(args), cmd.UseLine())
	}
	for i, what := range []string{"store", "terminal"} {
		if !protocol.ValidID(args[i]) {
			return fmt.Errorf("%s %.80q must be 1 to 63 of A-Z a-z 0-9 . _ - and start with a letter or digit", what, args[i])
		}
	}
	return nil
}
