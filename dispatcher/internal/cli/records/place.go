package records

import (
	"github.com/spf13/cobra"

	"muster/dispatcher/internal/cli/folders"
)

// place says where headquarters' database is. With neither flag it is that of the
// defaults.
type place struct {
	config, data string
	asJSON       bool
}

func (p *place) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&p.config, "config", "c", "", "headquarters' configuration file, which names its folders")
	f.StringVar(&p.data, "data", "", "headquarters' data folder (data_folder)")
	f.BoolVar(&p.asJSON, "json", false, "print the answer as JSON")
	cmd.MarkFlagsMutuallyExclusive("data", "config")
}

func (p *place) database() (string, error) {
	return folders.DatabasePath(p.config, p.data)
}
