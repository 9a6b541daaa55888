package house

import (
	"io"

	"github.com/spf13/cobra"

	"muster/dispatcher/internal/admin"
	"muster/dispatcher/internal/cli/screen"
)

func keysCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "List or rotate the keys with which headquarters signs",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(keysListCommand(), keysRotateCommand())
	return cmd
}

func keysListCommand() *cobra.Command {
	var b beside
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the keys that terminals believe, and the one that signs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return answer(cmd, &b, func(c *admin.Client) (admin.Keys, error) { return c.Keys(cmd.Context()) }, showKeys)
		},
	}
	b.flags(cmd)
	return cmd
}

func showKeys(w io.Writer, all admin.Keys) {
	screen.Say(w, "version %d\n", all.Version)
	table := screen.NewTable(w, "KEY", "SIGNS FROM", "BELIEVED UNTIL", "STATE")
	for _, k := range all.Keys {
		state := "believed"
		switch {
		case k.KeyID == all.Signs:
			state = "signs"
		case k.NotBefore.After(all.At.Time):
			state = "waits"
		case all.At.After(k.NotAfter.Time):
			state = "ended"
		}
		table.Row(k.KeyID, screen.Moment(k.NotBefore), screen.Moment(k.NotAfter), state)
	}
	table.Flush()
}

func keysRotateCommand() *cobra.Command {
	var b beside
	var now bool
	cmd := &cobra.Command{
		Use:   "rotate [--now]",
		Short: "Ask for a new signing key; a second person has to approve it",
		Long: "Once approved, the new key is listed at once and signs a day later; the old one is believed for another day.\n" +
			"A terminal that was off for all that time learns of the new key when it connects.\n\n" +
			"--now is for a key that was stolen: once approved, the new key signs at once and no terminal that hears of it\n" +
			"believes an older one any more. Back up the identity folder after either.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return answer(cmd, &b, func(c *admin.Client) (admin.Rotation, error) {
				return c.RotateKeys(cmd.Context(), admin.RotateRequest{Actor: admin.Actor(), Now: now})
			}, func(w io.Writer, r admin.Rotation) {
				screen.Say(w, "approval %s is asked for; nothing was changed yet\ncontent hash %s\n", r.ApprovalID, r.ContentHash)
				screen.Say(w, "somebody else who may approve: dispatcher approve %s\n", r.ApprovalID)
			})
		},
	}
	b.flags(cmd)
	cmd.Flags().BoolVar(&now, "now", false, "strike every older key out at once: one was stolen")
	return cmd
}
