package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"

	"github.com/eclipse/paho.golang/autopaho"
	"github.com/spf13/cobra"

	"muster/dispatcher/internal/admin"
	"muster/dispatcher/internal/cli/house"
	"muster/dispatcher/internal/cli/screen"
	"muster/internal/protocol"
)

// nobody is who asks for the health of a broker without a name: whether this
// user may log in does not matter.
const nobody = "health"

// healthCommand is for health checks: it says nothing when all is well.
func healthCommand() *cobra.Command {
	var a access
	var data string
	var brokerOnly bool
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Exit 0 if headquarters answers through its broker, or on this machine",
		Long: `Ask headquarters, as any user, through its broker. With --data: ask the dispatcher
that runs on this machine, as nobody. With --broker-only: ask whether the broker lets
--user in; without --user, whether it answers at all, a refusal included.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case data != "":
				return a.askHere(cmd, data)
			case brokerOnly:
				named := cmd.Flags().Changed("user") || os.Getenv("MUSTER_USER") != ""
				return a.reach(cmd.Context(), named)
			}
			return a.once(cmd, protocol.VerbJobs, json.RawMessage("{}"), func(io.Writer, protocol.Reply) {})
		},
	}
	a.flags(cmd)
	cmd.Flags().StringVar(&data, "data", "", "data folder of the headquarters that runs on this machine; needs no user")
	cmd.Flags().BoolVar(&brokerOnly, "broker-only", false, "only ask the broker, headquarters nothing")
	cmd.MarkFlagsMutuallyExclusive("data", "broker-only")
	return cmd
}

// askHere asks the dispatcher of this machine.
func (a *access) askHere(cmd *cobra.Command, data string) error {
	client, err := admin.Dial(data)
	if err != nil {
		return house.Refusal(cmd, err)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), a.timeout)
	defer cancel()
	health, err := client.Health(ctx)
	if err != nil {
		return house.Refusal(cmd, err)
	}
	if a.asJSON {
		return screen.JSON(cmd.OutOrStdout(), health)
	}
	if health.Clock != "" {
		screen.Say(cmd.OutOrStdout(), "%s\n", health.Clock)
	}
	for _, trouble := range health.Troubles {
		screen.Say(cmd.OutOrStdout(), "%s\n", trouble)
	}
	return nil
}

// reach logs in at the broker and leaves. Of somebody who is not named, a
// refusal proves as well that the broker lives.
func (a *access) reach(ctx context.Context, named bool) error {
	if !named {
		a.user = nobody
	}
	l, err := open(ctx, a)
	if err != nil {
		return err
	}
	defer l.close()
	ctx, cancel := context.WithTimeout(l.ctx, a.timeout)
	defer cancel()
	if l.conn.AwaitConnection(ctx) == nil || !named && l.refused() {
		return nil
	}
	return l.unanswered(ctx)
}

// refused says whether the broker answered the last attempt with a no.
func (l *line) refused() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	var no *autopaho.ConnackError
	return errors.As(l.last, &no)
}
