package records

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

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
	var at place
	cmd := &cobra.Command{
		Use:   "backup FILE (-c CONFIG | --data FOLDER)",
		Short: "Copy headquarters' database to a new file, while headquarters runs",
		Long: "Copy what is stored at one moment to FILE, which must not exist, and read all of it once more. Headquarters\n" +
			"goes on meanwhile. FILE holds what the stores answered: it is readable by its owner alone; keep it so.\n" +
			"The database is not all of headquarters: back up the configuration, the identity folder and the reports too.",
		Example: "  dispatcher backup /backup/muster-$(date +%F).db --data data",
		Args:    screen.One("file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			database, err := at.database()
			if err != nil {
				return err
			}
			ctx, wipe := screen.Watched(cmd, at.asJSON)
			made, err := store.MakeBackup(ctx, database, args[0])
			wipe()
			if errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("%w; name a file that is not there", err)
			}
			if err != nil {
				return err
			}
			found := describeBackup(made)
			if at.asJSON {
				return screen.JSON(cmd.OutOrStdout(), found)
			}
			screen.Say(cmd.OutOrStdout(), "%s: %d bytes, complete and readable; the newest audit entry is %d\n", found.File, found.Bytes, found.NewestID)
			for _, fault := range found.Faults {
				screen.Say(cmd.ErrOrStderr(), "warning: the audit in it does not hold: %s\n", fault)
			}
			return nil
		},
	}
	at.flags(cmd)
	cmd.MarkFlagsOneRequired("config", "data")
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
