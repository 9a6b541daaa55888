// Package cli lets an operator order, watch and cancel runs from a shell. It
// speaks MQTT like any technician and has no way of its own into headquarters.
// The commands of its subpackages are added to its own.
package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"muster/dispatcher/internal/cli/house"
	"muster/dispatcher/internal/cli/records"
	"muster/dispatcher/internal/cli/screen"
	"muster/dispatcher/internal/techkit"
	"muster/internal/files"
	"muster/internal/protocol"
	"muster/internal/trust"
)

// Commands returns every command but those that run headquarters itself, new
// ones on each call.
func Commands() []*cobra.Command {
	return slices.Concat([]*cobra.Command{runCommand(), retryCommand(), cancelCommand(), statusCommand(), jobsCommand(), healthCommand(),
		approveCommand(), approvalsCommand(), techkit.Command()}, house.Commands(), records.Commands())
}

// access says how to reach headquarters.
type access struct {
	broker       string
	user         string
	passwordFile string
	caFile       string
	cert         string
	certKey      string
	key          string
	root         string
	timeout      time.Duration
	asJSON       bool
}

func (a *access) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&a.broker, "broker", fromEnv("MUSTER_BROKER", "mqtt://127.0.0.1:1883"), "broker address: mqtt://, mqtts://, ws:// or wss:// (MUSTER_BROKER)")
	f.StringVar(&a.user, "user", defaultUser(), "who asks (MUSTER_USER)")
	f.StringVar(&a.passwordFile, "password-file", os.Getenv("MUSTER_PASSWORD_FILE"), "file that holds the password (MUSTER_PASSWORD_FILE; else MUSTER_PASSWORD)")
	f.StringVar(&a.caFile, "ca-file", os.Getenv("MUSTER_CA_FILE"), "certificates to trust, PEM (MUSTER_CA_FILE)")
	f.StringVar(&a.cert, "cert", os.Getenv("MUSTER_CERT"), "certificate to log in with, PEM; needs --cert-key (MUSTER_CERT)")
	f.StringVar(&a.certKey, "cert-key", os.Getenv("MUSTER_CERT_KEY"), "private key of --cert, PEM, readable by its owner alone (MUSTER_CERT_KEY)")
	f.StringVar(&a.root, "topic-root", protocol.DefaultRoot, "topic prefix")
	f.DurationVar(&a.timeout, "timeout", 15*time.Second, "how long to wait for an answer")
	f.BoolVar(&a.asJSON, "json", false, "print answers as JSON")
}

// signing adds the flag of commands that change something.
func (a *access) signing(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.key, "key", "", "private key that signs the request, as request-key makes it")
}

// signer reads --key; nil: the request is not signed.
func (a *access) signer() (*trust.Signer, error) {
	if a.key == "" {
		return nil, nil
	}
	text, err := trust.ReadPrivate(a.key)
	if err != nil {
		return nil, fmt.Errorf("cannot use --key: %w", err)
	}
	signer, err := trust.DecodeSigner(text)
	if err != nil {
		return nil, fmt.Errorf("cannot use --key %s: %w; make one with: dispatcher request-key FILE", a.key, err)
	}
	return signer, nil
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

func fromEnv(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func defaultUser() string {
	for _, name := range []string{"MUSTER_USER", "USER", "USERNAME"} {
		if user := os.Getenv(name); protocol.ValidID(user) {
			return user
		}
	}
	return "operator"
}

// password comes from a file or the environment, never from the command line,
// where every process could read it.
func (a *access) password() (string, error) {
	if a.passwordFile == "" {
		return os.Getenv("MUSTER_PASSWORD"), nil
	}
	password, err := files.ReadSecret(a.passwordFile)
	if err != nil {
		return "", fmt.Errorf("cannot read the password: %w", err)
	}
	return password, nil
}

// asked sends one request and returns its reply, or prints why it was refused.
func (a *access) asked(ctx context.Context, cmd *cobra.Command, l *line, verb protocol.Verb, request any) (protocol.Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	payload, err := protocol.Encode(request)
	if err != nil {
		return protocol.Reply{}, err
	}
	raw, err := l.ask(ctx, verb, payload)
	if err != nil {
		return protocol.Reply{}, err
	}
	var reply protocol.Reply
	if err := protocol.Decode(raw, maxReplyBytes, &reply); err != nil {
		return reply, &screen.Exit{Code: screen.ExitNoAnswer, Text: "the answer cannot be read: " + err.Error()}
	}
	if a.asJSON {
		screen.Say(cmd.OutOrStdout(), "%s\n", raw)
	}
	if reply.OK {
		return reply, nil
	}
	if !a.asJSON {
		screen.Refusal(cmd.ErrOrStderr(), reply)
	}
	if reply.Code == protocol.CodeNeedsApproval {
		return reply, &screen.Exit{Code: screen.ExitNeedsApproval}
	}
	return reply, &screen.Exit{Code: screen.ExitRefused}
}

// once opens a line, asks, closes it, and shows the reply unless it was printed
// as JSON.
func (a *access) once(cmd *cobra.Command, verb protocol.Verb, request any, show func(io.Writer, protocol.Reply)) error {
	l, err := open(cmd.Context(), a)
	if err != nil {
		return err
	}
	defer l.close()
	reply, err := a.asked(cmd.Context(), cmd, l, verb, request)
	if err == nil && !a.asJSON {
		show(cmd.OutOrStdout(), reply)
	}
	return err
}

func cancelCommand() *cobra.Command {
	var a access
	var stores []string
	var reason string
	cmd := &cobra.Command{
		Use:     "cancel RUN",
		Short:   "Withdraw a run, or the tasks of some of its stores",
		Example: "  dispatcher cancel 20260917-073012-0k3f9t --stores SH_0312 --reason 'power cut'",
		Args:    screen.One("run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request := protocol.CancelRequest{RequestID: newID(), RunID: args[0], Stores: stores, Reason: reason, Deadline: a.deadline()}
			return a.once(cmd, protocol.VerbCancel, request, func(w io.Writer, r protocol.Reply) { screen.Say(w, "%s\n", r.Message) })
		},
	}
	a.flags(cmd)
	a.signing(cmd)
	cmd.Flags().StringSliceVar(&stores, "stores", nil, "ids of stores (default: the whole run)")
	cmd.Flags().StringVar(&reason, "reason", "", "why; it is kept in the audit trail")
	return cmd
}

func statusCommand() *cobra.Command {
	var a access
	var store string
	cmd := &cobra.Command{
		Use:   "status RUN",
		Short: "Tell how a run, or one of its stores, stands",
		Args:  screen.One("run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.once(cmd, protocol.VerbStatus, protocol.StatusRequest{RunID: args[0], StoreID: store}, showStatus)
		},
	}
	a.flags(cmd)
	cmd.Flags().StringVar(&store, "store", "", "also show the task of this store")
	return cmd
}

func jobsCommand() *cobra.Command {
	var a access
	cmd := &cobra.Command{
		Use:   "jobs",
		Short: "List the jobs that headquarters offers",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.once(cmd, protocol.VerbJobs, json.RawMessage("{}"), showJobs)
		},
	}
	a.flags(cmd)
	return cmd
}

func newID() string { return "cli-" + strings.ToLower(ulid.Make().String()) }
