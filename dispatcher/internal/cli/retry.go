package cli

import (
	"github.com/spf13/cobra"

	"muster/dispatcher/internal/cli/screen"
	"muster/internal/protocol"
)

func retryCommand() *cobra.Command {
	var a access
	var stores []string
	var reason, requestID string
	var c choice
	var dry, wait bool
	cmd := &cobra.Command{
		Use:   "retry RUN",
		Short: "Order again, in a run of its own, what failed, timed out or was offline in a run",
		Long: "The answers also go into the next revision of the report of RUN, while that takes any.\n" +
			"Exit codes are those of dispatcher run.",
		Example: "  dispatcher retry 20260917-073012-0k3f9t --wait\n  dispatcher retry 20260917-073012-0k3f9t --stores SH_0312 --reason 'the line is back'",
		Args:    screen.One("run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			request := protocol.RetryRequest{RequestID: requestID, RunID: args[0], Stores: stores, Reason: reason, DryRun: dry, Deadline: a.deadline()}
			if request.RequestID == "" {
				request.RequestID = newID()
			}
			if err := c.into(cmd, members{&request.BarrierSeconds, &request.MakeupSeconds, &request.Attempts, &request.MaxRunning, &request.GrantBurst, &request.Priority,
				&request.GrantsPerSecond}); err != nil {
				return err
			}
			return orderAndWait(cmd, &a, protocol.VerbRetry, request, wait && !dry)
		},
	}
	a.flags(cmd)
	a.signing(cmd)
	f := cmd.Flags()
	f.StringSliceVar(&stores, "stores", nil, "ids of stores (default: all that the report counts as failed, timed out or offline)")
	f.StringVar(&reason, "reason", "", "why; it stands in the report")
	f.StringVar(&requestID, "request-id", "", "the same id and content is the same run (default: a new one)")
	c.flags(cmd, "that run's")
	f.BoolVar(&dry, "dry-run", false, "only say what would be ordered")
	f.BoolVar(&wait, "wait", false, "wait for the approval if one is needed, then for the report, and show progress")
	return cmd
}
