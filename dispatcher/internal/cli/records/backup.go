package records

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"muster/dispatcher/internal/cli/folders"
	"muster/dispatcher/internal/cli/screen"
	"muster/dispatcher/internal/store"
)

// backup is a copy of the database, as --json prints it.
type backup struct {
	File      string   `json:"file"`
	Bytes     int64    `json:"bytes"`
	NewestID  int64    `json:"newestId"` // of the audit
	Newest    string   `json:"newestHash"`
	Epoch     int64    `json:"epoch"`
	AuditHold bool     `json:"auditHolds"`
	Faults    []string `json:"faults"`
}

// backupCommand works on the files of headquarters, beside a running dispatcher.
func backupCommand() *cobra.Command {
	var data string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "backup FILE --data FOLDER",
		Short: "Copy headquarters' database to a new file, while headquarters runs",
		Long: "Copy what is stored at one moment to FILE, which must not exist, and read all of it once more. Headquarters\n" +
			"goes on meanwhile. FILE holds what the stores answered: it is readable by its owner alone; keep it so.\n" +
			"The database is not all of headquarters: back up the configuration, the identity folder and the reports too.",
		Example: "  dispatcher backup /backup/muster-$(date +%F).db --data data",
		Args:    screen.One("file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			made, err := store.MakeBackup(cmd.Context(), filepath.Join(data, folders.Database), args[0])
			if errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("%w; name a file that is not there", err)
			}
			if err != nil {
				return err
			}
			found := describeBackup(made)
			if asJSON {
				return screen.JSON(cmd.OutOrStdout(), found)
			}
			screen.Say(cmd.OutOrStdout(), "%s: %d bytes, complete and readable; the newest audit entry is %d\n", found.File, found.Bytes, found.NewestID)
			for _, fault := range found.Faults {
				screen.Say(cmd.ErrOrStderr(), "warning: the audit in it does not hold: %s\n", fault)
			}
			return nil
		},
	}
	dataFlag(cmd, &data)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what was made as JSON")
	return cmd
}

func describeBackup(b store.Backup) backup {
	found := backup{File: b.Path, Bytes: b.Bytes, NewestID: b.Audit.Head.ID, Newest: b.Audit.Head.Hash, Epoch: b.Epoch,
		AuditHold: b.Audit.Wrong == 0, Faults: []string{}}
	for _, fault := range b.Audit.Faults {
		found.Faults = append(found.Faults, fault.Text)
	}
	return found
}

func dataFlag(cmd *cobra.Command, data *string) {
	cmd.Flags().StringVar(data, "data", "", "headquarters' data folder (data_folder)")
	_ = cmd.MarkFlagRequired("data") // it is one of ours
}
