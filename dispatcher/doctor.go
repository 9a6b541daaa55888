package main

import (
	"github.com/spf13/cobra"

	"muster/dispatcher/internal/checks"
	"muster/dispatcher/internal/cli/screen"
	"muster/internal/doctor"
)

func doctorCommand() *cobra.Command {
	var from given
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check headquarters one thing at a time, and say what mends each",
		Long: `Check configuration, jobs, users, database, disks, open files, clock, certificates, ports and the broker, beside a
headquarters that runs or before its start. Nothing is changed. Run it as the user that headquarters runs as.
Exit codes: 0 nothing failed (there may be warnings), 1 something has to be mended.`,
		Example: "  dispatcher doctor -c hq/dispatcher.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, trouble := from.load(cmd.Context())
			found := doctor.Run(cmd.Context(), checks.Of(cfg, from.file, trouble, unknownVariables()))
			var err error
			if asJSON {
				err = screen.JSON(cmd.OutOrStdout(), found)
			} else {
				err = found.Write(cmd.OutOrStdout())
			}
			if err == nil && !found.OK {
				return &screen.Exit{Code: screen.ExitUntrue}
			}
			return err
		},
	}
	from.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what was found as JSON")
	return cmd
}
