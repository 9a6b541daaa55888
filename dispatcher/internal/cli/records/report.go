package records

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"muster/dispatcher/internal/cli/screen"
	"muster/dispatcher/internal/progress"
	"muster/dispatcher/internal/verify"
	"muster/internal/task"
)

func reportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Prove published report files",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(reportVerifyCommand())
	return cmd
}

// verdict is what became of the files, as --json prints it.
type verdict struct {
	OK     bool           `json:"ok"`
	Proofs []verify.Proof `json:"proofs"`
	Faults []string       `json:"faults"`
}

func reportVerifyCommand() *cobra.Command {
	var p place
	var alone bool
	cmd := &cobra.Command{
		Use:   "verify FILE...",
		Short: "Exit 0 if report files are what headquarters published, else 1",
		Long: `Compare report files with the manifest beside them, with what the database noted when they were published, and
the rows of JSON files with the rows of the database. Of a manifest every file is proved. With --manifest-only the
database is not asked: whoever changes a file can change its manifest too.`,
		Example: "  dispatcher report verify reports/2026/09/*_manifest.json -c hq/dispatcher.yaml",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			database := ""
			if !alone {
				var err error
				if database, err = p.database(); err != nil {
					return err
				}
			}
			ctx, wipe := screen.Watched(cmd, p.asJSON)
			found, err := proveAll(ctx, database, args)
			wipe()
			if err != nil {
				return err
			}
			if err := found.show(cmd, p.asJSON); err != nil {
				return err
			}
			if !found.OK {
				return &screen.Exit{Code: screen.ExitUntrue}
			}
			return nil
		},
	}
	p.flags(cmd)
	cmd.Flags().BoolVar(&alone, "manifest-only", false, "compare with the manifests alone")
	return cmd
}

// proveAll goes on after a fault; what cannot be looked at ends it. A file that is
// named twice, or beside its manifest, is proved and told once.
func proveAll(ctx context.Context, database string, files []string) (verdict, error) {
	found := verdict{OK: true, Proofs: []verify.Proof{}, Faults: []string{}}
	looked, untrue := map[string]bool{}, map[string]bool{} // by place
	for i, file := range files {
		progress.Say(ctx, "proves report files", int64(i), int64(len(files)))
		if looked[whole(file)] {
			continue
		}
		proofs, faults, err := verify.File(ctx, database, file)
		if err != nil {
			return found, err
		}
		for _, proof := range proofs {
			if place := whole(proof.File); !looked[place] {
				looked[place] = true
				found.Proofs = append(found.Proofs, proof)
			}
		}
		for _, fault := range faults {
			if place := whole(fault.File); !untrue[place] {
				untrue[place] = true
				found.OK, found.Faults = false, append(found.Faults, fault.Err.Error())
			}
		}
		looked[whole(file)] = true
	}
	return found, nil
}

// whole is a path as it is the same from everywhere.
func whole(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return filepath.Clean(path)
}

func (v verdict) show(cmd *cobra.Command, asJSON bool) error {
	if asJSON {
		return screen.JSON(cmd.OutOrStdout(), v)
	}
	for _, p := range v.Proofs {
		says := "its manifest says"
		switch {
		case p.Manifest == "":
			says = "the database says"
		case p.Database:
			says = "its manifest and the database say"
		}
		rows := ""
		if p.Rows > 0 {
			rows = ", " + screen.Many(int64(p.Rows), "row", "rows") + " the same"
		}
		screen.Say(cmd.OutOrStdout(), "ok    %s: as %s%s\n", p.File, says, rows)
	}
	for _, fault := range v.Faults {
		screen.Say(cmd.OutOrStdout(), "FALSE %s\n", fault)
	}
	return nil
}

// statusOf reads a status in either case; "" is every one.
func statusOf(text string) (task.Status, error) {
	for _, status := range task.Statuses() {
		if strings.EqualFold(string(status), text) {
			return status, nil
		}
	}
	if text != "" {
		return "", fmt.Errorf("--status %q must be pending, running, succeeded, failed or cancelled", text)
	}
	return "", nil
}
