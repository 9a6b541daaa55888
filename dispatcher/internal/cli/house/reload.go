package house

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"muster/dispatcher/internal/admin"
	"muster/dispatcher/internal/cli/screen"
)

func reloadCommand() *cobra.Command {
	var b beside
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Have the running headquarters read jobs, stores, users and limits again",
		Long: "The same as SIGHUP, with an answer. Nobody is disconnected but who may no longer log in, and what runs goes on.\n" +
			"When anything is wrong, nothing is taken in and what was in force stays.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return answer(cmd, &b, func(c *admin.Client) (admin.Reloaded, error) { return c.Reload(cmd.Context()) }, showReloaded)
		},
	}
	b.flags(cmd)
	return cmd
}

func showReloaded(w io.Writer, r admin.Reloaded) {
	screen.Say(w, "in force: jobs %d, stores %d (added %d, changed %d, retired %d)\n", r.Jobs, r.Stores, r.Added, r.Changed, r.Retired)
	if len(r.NeedRestart) > 0 {
		screen.Say(w, "these keys have changed too, and count from the next start on: %s\n", strings.Join(r.NeedRestart, ", "))
	}
}
