package cli

import (
	"context"
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"muster/internal/protocol"
)

// healthCommand is for health checks: it says nothing when all is well.
func healthCommand() *cobra.Command {
	var a access
	var brokerOnly bool
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Exit 0 if headquarters answers through its broker",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if brokerOnly {
				return a.reach(cmd.Context())
			}
			return a.once(cmd, protocol.VerbJobs, json.RawMessage("{}"), func(io.Writer, protocol.Reply) {})
		},
	}
	a.flags(cmd)
	cmd.Flags().BoolVar(&brokerOnly, "broker-only", false, "only log in at the broker; ask headquarters nothing")
	return cmd
}

// reach logs in at the broker and leaves.
func (a *access) reach(ctx context.Context) error {
	l, err := open(ctx, a)
	if err != nil {
		return err
	}
	defer l.close()
	ctx, cancel := context.WithTimeout(l.ctx, a.timeout)
	defer cancel()
	if err := l.conn.AwaitConnection(ctx); err != nil {
		return l.unanswered(ctx)
	}
	return nil
}
