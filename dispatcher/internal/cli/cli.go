// Package cli lets an operator order, watch and cancel runs from a shell. It
// speaks MQTT like any technician and has no way of its own into headquarters.
//
// The exit codes are: 0 done, and with --wait the report is complete; 2 the
// command line or the request was refused; 3 the report is partial; 4 it is
// below the quorum; 5 nobody answered; 6 the request waits for a second person.
package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/spf13/cobra"

	"muster/internal/protocol"
	"muster/internal/trust"
)

// The exit codes.
const (
	ExitRefused     = 2
	ExitPartial     = 3
	ExitBelowQuorum = 4
	ExitNoAnswer    = 5
	// ExitNeedsApproval: nothing was created yet.
	ExitNeedsApproval = 6
)

// exit ends the program with a code. An empty text has been said already.
type exit struct {
	code int
	text string
}

// Error is what is still to be said.
func (e *exit) Error() string { return e.text }

// ExitCode is what the program returns to the shell.
func (e *exit) ExitCode() int { return e.code }

// Commands returns every command but those that run headquarters itself, new
// ones on each call.
func Commands() []*cobra.Command {
	return []*cobra.Command{runCommand(), cancelCommand(), statusCommand(), jobsCommand(), healthCommand(),
		approveCommand(), approvalsCommand(), requestKeyCommand(),
		initCommand(), enrollCommand(), revokeCommand(), terminalsCommand(), keysCommand(), certifyCommand(), auditCommand(),
		backupCommand(), restoreCommand()}
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
	f.StringVar(&a.passwordFile, "password-file", "", "file that holds the password (else MUSTER_PASSWORD)")
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
	data, err := os.ReadFile(a.passwordFile)
	if err != nil {
		return "", fmt.Errorf("cannot read the password: %w", err)
	}
	return strings.TrimRight(string(data), "\r\n"), nil
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
		return reply, &exit{ExitNoAnswer, "the answer cannot be read: " + err.Error()}
	}
	if a.asJSON {
		say(cmd.OutOrStdout(), "%s\n", raw)
	}
	if reply.OK {
		return reply, nil
	}
	if !a.asJSON {
		showRefusal(cmd.ErrOrStderr(), reply)
	}
	if reply.Code == protocol.CodeNeedsApproval {
		return reply, &exit{code: ExitNeedsApproval}
	}
	return reply, &exit{code: ExitRefused}
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
		Args:    one("run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request := protocol.CancelRequest{RequestID: newID(), RunID: args[0], Stores: stores, Reason: reason, Deadline: a.deadline()}
			return a.once(cmd, protocol.VerbCancel, request, func(w io.Writer, r protocol.Reply) { say(w, "%s\n", r.Message) })
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
		Args:  one("run"),
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

// one takes a single argument and says which when it is not there.
func one(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("%s takes one %s, not %d arguments: %s", cmd.Name(), what, len(args), cmd.UseLine())
		}
		return nil
	}
}

func newID() string { return "cli-" + strings.ToLower(ulid.Make().String()) }
