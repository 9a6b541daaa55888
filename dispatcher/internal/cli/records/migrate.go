package records

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"muster/dispatcher/internal/cli/screen"
	"muster/dispatcher/internal/store"
)

// migrated is the state of a database, as --json prints it.
type migrated struct {
	Database string `json:"database"`
	Before   int64  `json:"before"` // schema version
	After    int64  `json:"after"`
}

func migrateCommand() *cobra.Command {
	var p place
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Bring headquarters' database up to this program's version, while headquarters is stopped",
		Long: "The start of headquarters does the same. Done apart, an upgrade shows before the start whether it works.\n" +
			"An older program refuses the database afterwards: make a backup first.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			database, err := p.database()
			if err != nil {
				return err
			}
			ctx, wipe := screen.Watched(cmd, p.asJSON)
			done, err := migrate(ctx, database)
			wipe()
			if errors.Is(err, store.ErrLocked) {
				return fmt.Errorf("%w; stop the dispatcher first", err)
			}
			if err != nil {
				return err
			}
			if p.asJSON {
				return screen.JSON(cmd.OutOrStdout(), done)
			}
			if done.Before == done.After {
				screen.Say(cmd.OutOrStdout(), "%s has schema version %d, which is this program's\n", database, done.After)
				return nil
			}
			screen.Say(cmd.OutOrStdout(), "%s had schema version %d and has %d now\n", database, done.Before, done.After)
			return nil
		},
	}
	p.flags(cmd)
	return cmd
}

// migrate opens the database as headquarters does, and closes it. One that is not
// there is not made.
func migrate(ctx context.Context, database string) (migrated, error) {
	before, err := store.SchemaVersion(ctx, database)
	if err != nil {
		return migrated{}, err
	}
	st, err := store.Open(ctx, store.Options{Path: database})
	if err != nil {
		return migrated{}, err
	}
	if err := st.Close(); err != nil {
		return migrated{}, err
	}
	after, err := store.SchemaVersion(ctx, database)
	return migrated{database, before, after}, err
}
