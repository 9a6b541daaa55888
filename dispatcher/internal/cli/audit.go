package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"muster/dispatcher/internal/auditor"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
	"muster/internal/trust"
)

const (
	// exitUntrue: the audit does not hold. What could not be looked at at all is
	// ExitRefused.
	exitUntrue = 1
	// databaseFile is the database's name in the data folder.
	databaseFile = "muster.db"
	// maxKeysBytes bounds the list of headquarters' keys.
	maxKeysBytes = 128 << 10
)

// auditCommand works on the files of headquarters, beside a running dispatcher
// or on copies. It needs no broker.
func auditCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Verify or show who did what, from headquarters' files or copies of them",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(auditVerifyCommand(), auditShowCommand())
	return cmd
}

type auditFiles struct{ data, reports, identity string }

func auditVerifyCommand() *cobra.Command {
	var files auditFiles
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify --data FOLDER --reports FOLDER",
		Short: "Exit 0 if no entry of the audit was changed, removed, moved or cut off, else 1",
		Long: "Walk the audit's chain of hashes and compare it with the heads that headquarters noted and signed.\n" +
			"Without --identity the signatures cannot be checked, and whoever can write the database and the\n" +
			"reports can write both anew. What was cut off both alike shows only against a copy kept elsewhere.",
		Example: "  dispatcher audit verify --data data --reports reports --identity identity",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			finding, err := files.verify(cmd)
			if err != nil {
				return err
			}
			if err := finding.show(cmd.OutOrStdout(), asJSON); err != nil {
				return err
			}
			if !finding.OK {
				return &exit{code: exitUntrue}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&files.data, "data", "", "headquarters' data folder (data_folder)")
	f.StringVar(&files.reports, "reports", "", "headquarters' reports folder (reports_folder)")
	f.StringVar(&files.identity, "identity", "", "folder with ca.crt and trust.json, to check who signed the heads")
	f.BoolVar(&asJSON, "json", false, "print the finding as JSON")
	for _, name := range []string{"data", "reports"} {
		_ = cmd.MarkFlagRequired(name) // it is one of ours
	}
	return cmd
}

// finding is what a verification found, as --json prints it.
type finding struct {
	OK       bool         `json:"ok"`
	Text     string       `json:"text"`
	Entries  int64        `json:"entries"`
	Sealed   int64        `json:"olderThanTheChain"`
	NewestID int64        `json:"newestId"`
	Newest   string       `json:"newestHash"`
	Heads    headCount    `json:"heads"`
	ProvenTo int64        `json:"provenUpTo"`
	Wrong    int64        `json:"wrong"` // faults, listed or not
	Faults   []auditFault `json:"faults"`

	signed bool // signatures were checked
}

type headCount struct {
	Noted    int  `json:"noted"`
	Proven   int  `json:"proven"`
	Unsigned int  `json:"unsigned"`
	Unproven int  `json:"unproven"`
	Torn     bool `json:"torn"`
}

type auditFault struct {
	Kind string `json:"kind"`
	ID   int64  `json:"id,omitempty"`
	Text string `json:"text"`
}

// verify reads the heads before the chain: those that are noted meanwhile by a
// running dispatcher would be newer than what is walked.
func (f auditFiles) verify(cmd *cobra.Command) (*finding, error) {
	keys, err := f.keys()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(f.reports); err != nil {
		return nil, fmt.Errorf("cannot look into the reports folder: %w", err)
	}
	heads, err := auditor.ReadHeads(auditor.HeadsFile(f.reports), keys)
	if err != nil {
		return nil, err
	}
	report, err := store.VerifyAudit(cmd.Context(), filepath.Join(f.data, databaseFile), heads.Noted)
	if err != nil {
		return nil, err
	}
	return conclude(report, heads, keys != nil), nil
}

// keys are those of headquarters, or nil when nobody said where they are.
func (f auditFiles) keys() (*trust.Document, error) {
	if f.identity == "" {
		return nil, nil //nolint:nilnil // no keys prove nothing
	}
	text, err := os.ReadFile(filepath.Join(f.identity, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("cannot read the certificate of the authority: %w", err)
	}
	authority, err := trust.DecodeCertificate(text)
	if err != nil {
		return nil, fmt.Errorf("cannot use %s: %w", filepath.Join(f.identity, "ca.crt"), err)
	}
	list := filepath.Join(f.identity, "trust.json")
	if text, err = os.ReadFile(list); err != nil {
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

func conclude(r store.AuditReport, h auditor.Heads, signed bool) *finding {
	f := &finding{
		Entries: r.Entries, Sealed: r.Sealed, NewestID: r.Head.ID, Newest: r.Head.Hash, ProvenTo: h.UpTo,
		Heads: headCount{len(h.Noted), h.Proven, h.Unsigned, h.Unproven, h.Torn}, Wrong: r.Wrong, Faults: []auditFault{}, signed: signed,
	}
	for _, fault := range r.Faults {
		f.Faults = append(f.Faults, auditFault{string(fault.Kind), fault.ID, fault.Text})
	}
	for _, forged := range h.Forged {
		f.add("forged", "the file of heads was tampered with: "+forged)
	}
	if signed && h.Proven == 0 && r.Entries > 0 {
		f.add("unproven", fmt.Sprintf("none of the %d noted heads is signed by a key of headquarters, so nothing vouches for the chain", len(h.Noted)))
	}
	f.OK = f.Wrong == 0
	f.Text = f.sentence()
	return f
}

func (f *finding) add(kind, text string) {
	f.Wrong++
	f.Faults = append(f.Faults, auditFault{Kind: kind, Text: text})
}

func (f *finding) sentence() string {
	var b strings.Builder
	if !f.OK {
		say(&b, "the audit does not hold: %s", f.Faults[0].Text)
		if f.Wrong > 1 {
			say(&b, " (and %d more)", f.Wrong-1)
		}
		return b.String()
	}
	say(&b, "the audit holds: %s, none changed, moved or missing", many(f.Entries, "entry", "entries"))
	switch newer := f.NewestID - f.ProvenTo; {
	case f.Entries == 0:
	case !f.signed:
		say(&b, "; %s agree, whose signatures were not checked (--identity)", many(int64(f.Heads.Noted), "noted head", "noted heads"))
	case newer > 0:
		say(&b, "; signed heads vouch for it up to entry %d, and %s newer", f.ProvenTo, many(newer, "entry is", "entries are"))
	default:
		say(&b, "; a signed head vouches for all of it")
	}
	if f.Heads.Torn {
		say(&b, "; the last line of heads was cut short and does not count")
	}
	return b.String()
}

func many(n int64, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

func (f *finding) show(w io.Writer, asJSON bool) error {
	if asJSON {
		text, err := protocol.Encode(f)
		if err == nil {
			say(w, "%s\n", text)
		}
		return err
	}
	say(w, "%s\n", f.Text)
	for _, fault := range f.Faults[min(1, len(f.Faults)):] {
		say(w, "also: %s\n", fault.Text)
	}
	return nil
}
