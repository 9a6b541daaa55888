package records

import (
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"muster/dispatcher/internal/cli/folders"
	"muster/dispatcher/internal/cli/screen"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
)

func auditShowCommand() *cobra.Command {
	var files auditFiles
	var since, actor string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show (-c CONFIG | --data FOLDER)",
		Short: "Print the entries of the audit, oldest first",
		Example: "  dispatcher audit show -c /srv/muster/dispatcher.yaml --since 24h\n" +
			"  dispatcher audit show --data data --since 2026-09-17 --actor ada --json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, err := moment(since, time.Now())
			if err != nil {
				return err
			}
			if err := files.resolve(); err != nil {
				return err
			}
			show, end := showTable(cmd)
			if asJSON {
				show, end = showLine(cmd), func() {}
			}
			err = store.ReadAudit(cmd.Context(), filepath.Join(files.data, folders.Database), from, actor, show)
			end()
			return err
		},
	}
	files.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&since, "since", "", "only entries since then: 24h, 2026-09-17 or 2026-09-17T10:00:00+08:00")
	f.StringVar(&actor, "actor", "", "only what this actor did")
	f.BoolVar(&asJSON, "json", false, "print each entry as a line of JSON")
	return cmd
}

// moment reads a time as people give it; "" is the beginning.
func moment(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("--since %q is no time; write 24h, 2026-09-17 or 2026-09-17T10:00:00+08:00", text)
}

// auditLine is an entry as --json prints it.
type auditLine struct {
	ID      int64         `json:"id"`
	At      protocol.Time `json:"at"`
	Actor   string        `json:"actor"`
	Action  string        `json:"action"`
	Subject string        `json:"subject"`
	Detail  string        `json:"detail"`
}

func showLine(cmd *cobra.Command) func(store.AuditEntry) error {
	return func(e store.AuditEntry) error {
		text, err := protocol.Encode(auditLine{e.ID, protocol.At(e.At), e.Actor, e.Action, e.Subject, e.Detail})
		if err == nil {
			screen.Say(cmd.OutOrStdout(), "%s\n", text)
		}
		return err
	}
}

func showTable(cmd *cobra.Command) (show func(store.AuditEntry) error, end func()) {
	table := screen.NewTable(cmd.OutOrStdout(), "ID", "TIME", "ACTOR", "ACTION", "SUBJECT", "DETAIL")
	show = func(e store.AuditEntry) error {
		table.Row(strconv.FormatInt(e.ID, 10), screen.Moment(protocol.At(e.At)), e.Actor, e.Action, e.Subject, e.Detail)
		return nil
	}
	return show, table.Flush
}
