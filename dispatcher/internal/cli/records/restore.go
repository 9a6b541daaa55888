package records

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"muster/dispatcher/internal/admin"
	"muster/dispatcher/internal/cli/screen"
	"muster/dispatcher/internal/store"
)

// restored is what a restore did, as --json prints it.
type restored struct {
	Database string `json:"database"`
	Backup   backup `json:"backup"`
	Kept     string `json:"kept,omitempty"`
	Epoch    int64  `json:"epoch"`
	Lost     int    `json:"attemptsLost"`
	Open     int    `json:"tasksOpen"`
}

// restoreCommand works on the files of headquarters, which must not run.
func restoreCommand() *cobra.Command {
	var at place
	cmd := &cobra.Command{
		Use:   "restore FILE (-c CONFIG | --data FOLDER)",
		Short: "Put a backup in the place of headquarters' database, while headquarters is stopped",
		Long: "Check FILE and put a copy of it in the place of the database, which is kept beside. What was done after the\n" +
			"backup is forgotten: runs, results, approvals and used enrolment tokens. Attempts that ran at the backup count\n" +
			"as lost; open tasks are granted anew, and a terminal that did the work answers with what it has.\n" +
			"Reports that were published since stay as they are: leave the report folder in its place. The report of a run\n" +
			"that is judged again goes on above their numbers, and says so.\n" +
			"Afterwards revoke again the terminals that were revoked after the backup: the list of their certificates\n" +
			"is made from the database.",
		Example: "  dispatcher restore /backup/muster-2026-09-17.db --data data",
		Args:    screen.One("file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			database, err := at.database()
			if err != nil {
				return err
			}
			done, err := restore(cmd, args[0], database, at.asJSON)
			if err != nil {
				return err
			}
			if at.asJSON {
				return screen.JSON(cmd.OutOrStdout(), done)
			}
			showRestored(cmd.OutOrStdout(), done)
			for _, fault := range done.Backup.Faults {
				screen.Say(cmd.ErrOrStderr(), "warning: the audit in it does not hold: %s\n", fault)
			}
			return nil
		},
	}
	at.flags(cmd)
	cmd.MarkFlagsOneRequired("config", "data")
	return cmd
}

func restore(cmd *cobra.Command, file, database string, asJSON bool) (restored, error) {
	ctx, wipe := screen.Watched(cmd, asJSON)
	r, err := store.Restore(ctx, file, database, "host:"+admin.Actor(), time.Now())
	wipe()
	switch {
	case errors.Is(err, store.ErrLocked):
		return restored{}, fmt.Errorf("%w; stop the dispatcher first", err)
	case errors.Is(err, store.ErrCorrupt):
		return restored{}, fmt.Errorf("%w; nothing was changed, use another backup", err)
	case err != nil:
		return restored{}, err
	}
	return restored{Database: database, Backup: describeBackup(r.Backup), Kept: r.Kept, Epoch: r.Epoch, Lost: r.Lost, Open: r.Open}, nil
}

func showRestored(w io.Writer, r restored) {
	screen.Say(w, "%s is restored from %s, whose newest audit entry is %d; it begins epoch %d\n", r.Database, r.Backup.File, r.Backup.NewestID, r.Epoch)
	screen.Say(w, "%s on; %s at the backup and count as lost\n", screen.Many(int64(r.Open), "open task goes", "open tasks go"),
		screen.Many(int64(r.Lost), "attempt ran", "attempts ran"))
	if r.Kept != "" {
		screen.Say(w, "the replaced database is %s\n", r.Kept)
	}
	screen.Say(w, "start the dispatcher again\n")
}
