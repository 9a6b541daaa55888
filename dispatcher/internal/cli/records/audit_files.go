package records

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"muster/dispatcher/internal/auditor"
	"muster/dispatcher/internal/cli/folders"
	"muster/dispatcher/internal/store"
	"muster/internal/files"
	"muster/internal/protocol"
	"muster/internal/trust"
)

const (
	// maxKeysBytes bounds the list of headquarters' keys.
	maxKeysBytes = 128 << 10
)

// auditFiles says where headquarters' files are, or copies of them. Without an
// identity no signature is checked.
type auditFiles struct {
	config, data, reports, identity string
	oldHeads                        bool // heads are a copy, older than the database
}

func (f *auditFiles) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.config, "config", "c", "", "headquarters' configuration file, which names the folders")
	flags.StringVar(&f.data, "data", "", "headquarters' data folder (data_folder)")
	cmd.MarkFlagsOneRequired("config", "data")
}

// resolve fills in from the configuration what no flag says.
func (f *auditFiles) resolve() error {
	if f.config == "" {
		return nil
	}
	own, err := folders.Of(f.config)
	if err != nil {
		return err
	}
	f.data = cmp.Or(f.data, own.Data)
	f.reports = cmp.Or(f.reports, own.Reports)
	f.identity = cmp.Or(f.identity, own.Identity)
	return nil
}

// verify reads the heads before the chain: those that are noted meanwhile by a
// running dispatcher would be newer than what is walked.
func (f auditFiles) verify(ctx context.Context) (*finding, error) {
	if f.reports == "" {
		return nil, errors.New("where are the heads? say -c CONFIG, or --reports with the reports folder")
	}
	keys, err := f.keys()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(f.reports); err != nil {
		return nil, fmt.Errorf("cannot look into the reports folder: %w; mount what belongs there, or name another with --reports", err)
	}
	heads, err := auditor.ReadHeads(auditor.HeadsFile(f.reports), keys)
	if err != nil {
		return nil, err
	}
	report, err := store.VerifyAudit(ctx, filepath.Join(f.data, folders.Database), heads.Noted)
	if err != nil {
		return nil, err
	}
	return conclude(report, heads, keys != nil, f.oldHeads), nil
}

// keys are those of headquarters, or nil when nobody said where they are.
func (f auditFiles) keys() (*trust.Document, error) {
	if f.identity == "" {
		return nil, nil //nolint:nilnil // no keys prove nothing
	}
	text, err := files.Read(filepath.Join(f.identity, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("cannot read the certificate of the authority: %w", err)
	}
	authority, err := trust.DecodeCertificate(text)
	if err != nil {
		return nil, fmt.Errorf("cannot use %s: %w", filepath.Join(f.identity, "ca.crt"), err)
	}
	list := filepath.Join(f.identity, "trust.json")
	if text, err = files.Read(list); err != nil {
		return nil, fmt.Errorf("cannot read the list of headquarters' keys: %w", err)
	}
	var sealed trust.Sealed
	if err := protocol.Decode(text, maxKeysBytes, &sealed); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", list, err)
	}
	keys, err := sealed.Open(authority)
	if err != nil {
		return nil, fmt.Errorf("cannot use %s: %w", list, err)
	}
	return &keys, nil
}
