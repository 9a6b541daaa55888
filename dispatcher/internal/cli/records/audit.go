// Package records holds the commands that read or copy headquarters' database and
// reports, beside a running dispatcher or on copies, without asking anybody.
package records

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"muster/dispatcher/internal/auditor"
	"muster/dispatcher/internal/cli/screen"
	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
)

const (
	// maxBehind is how much may be done behind the newest noted head: two rounds
	// of headquarters, which notes it every 5 minutes.
	maxBehind = 10 * time.Minute
)

// Commands returns the commands of this package, new ones on each call.
func Commands() []*cobra.Command {
	return []*cobra.Command{runsCommand(), tasksCommand(), reportCommand(), auditCommand(), backupCommand(), restoreCommand(), migrateCommand()}
}

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

func auditVerifyCommand() *cobra.Command {
	var files auditFiles
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify (-c CONFIG | --data FOLDER --reports FOLDER)",
		Short: "Exit 0 if no entry of the audit was changed, removed, moved or cut off, else 1",
		Long:  auditVerifyRules,
		Example: "  dispatcher audit verify -c /srv/muster/dispatcher.yaml\n" +
			"  dispatcher audit verify --data data --reports elsewhere --identity elsewhere",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := files.resolve(); err != nil {
				return err
			}
			ctx, wipe := screen.Watched(cmd, asJSON)
			finding, err := files.verify(ctx)
			wipe()
			if err != nil {
				return err
			}
			if err := finding.show(cmd.OutOrStdout(), asJSON); err != nil {
				return err
			}
			if !finding.OK {
				return &screen.Exit{Code: screen.ExitUntrue}
			}
			return nil
		},
	}
	files.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&files.reports, "reports", "", "headquarters' reports folder (reports_folder)")
	f.StringVar(&files.identity, "identity", "", "folder with ca.crt and trust.json, to check who signed the heads (identity.folder)")
	f.BoolVar(&files.oldHeads, "old-heads", false, "the heads are a copy from before the newest entries")
	f.BoolVar(&asJSON, "json", false, "print the finding as JSON")
	return cmd
}

const auditVerifyRules = `Walk the audit's chain of hashes and compare it with the heads that headquarters noted and signed.
Every noted head must be the chain's own, and one must cover all that was done more than 10 minutes
before the newest entry. With --old-heads, which is for a copy of the heads that is older than the
database, what was done since may be of any length.

With --identity, a key on the list must have signed the newest head. A head without a signature, or
with a key that is not on the list, is a fault when it stands behind one that a key on the list signed,
or when it is not older than the oldest of these keys. Before that it is compared, and vouches for
nothing. Neither does a head that was noted before the first entry.

Without --identity the signatures cannot be checked, and whoever can write the database and the
reports can write both anew. What was cut off both alike, or signed by headquarters after the heads
had been taken away, shows only against a copy that is kept elsewhere.

With -c the folders are those of that configuration, unless a flag names another.`

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
	Noted    int  `json:"noted"` // and compared with an entry
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

// conclude says whether the audit holds, and with the keys of headquarters, how
// far that is proven.
func conclude(r store.AuditReport, h auditor.Heads, signed, oldHeads bool) *finding {
	f := &finding{
		Entries: r.Entries, Sealed: r.Sealed, NewestID: r.Head.ID, Newest: r.Head.Hash, ProvenTo: h.UpTo,
		Heads: headCount{r.Heads, h.Proven, h.Unsigned, h.Unproven, h.Torn}, Wrong: r.Wrong, Faults: []auditFault{}, signed: signed,
	}
	for _, fault := range r.Faults {
		f.Faults = append(f.Faults, auditFault{string(fault.Kind), fault.ID, fault.Text})
	}
	for _, line := range h.Faults {
		f.add("forged", "the file of heads was tampered with: "+line)
	}
	f.Wrong += int64(h.Wrong - len(h.Faults))
	if r.Heads > 0 && r.Behind > maxBehind && !oldHeads {
		f.add("unnoted", fmt.Sprintf("the newest noted head is of entry %d, and what is newer spans %s: heads are missing or could not be written; "+
			"if they are an older copy, say --old-heads", r.Vouched, r.Behind.Round(time.Second)))
	}
	switch {
	case !signed:
	case h.Proven == 0 && r.Entries > 0:
		f.add("unproven", "no noted head of an entry is signed by a key of headquarters, so nothing vouches for the chain")
	case r.Vouched > h.UpTo:
		f.add("unproven", fmt.Sprintf("entry %d was noted down, and signed heads vouch only up to entry %d", r.Vouched, h.UpTo))
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
		screen.Say(&b, "the audit does not hold: %s", f.Faults[0].Text)
		if f.Wrong > 1 {
			screen.Say(&b, " (and %d more)", f.Wrong-1)
		}
		return b.String()
	}
	screen.Say(&b, "the audit holds: %s, none changed, moved or missing", screen.Many(f.Entries, "entry", "entries"))
	switch newer := f.NewestID - f.ProvenTo; {
	case f.Entries == 0:
	case !f.signed:
		screen.Say(&b, "; %s, whose signatures were not checked (--identity)", screen.Many(int64(f.Heads.Noted), "noted head agrees", "noted heads agree"))
	case newer > 0:
		screen.Say(&b, "; signed heads vouch for it up to entry %d, and %s newer", f.ProvenTo, screen.Many(newer, "entry is", "entries are"))
	default:
		screen.Say(&b, "; a signed head vouches for all of it")
	}
	if f.Heads.Torn {
		screen.Say(&b, "; the last line of heads was cut short and does not count")
	}
	return b.String()
}

func (f *finding) show(w io.Writer, asJSON bool) error {
	if asJSON {
		text, err := protocol.Encode(f)
		if err == nil {
			screen.Say(w, "%s\n", text)
		}
		return err
	}
	screen.Say(w, "%s\n", f.Text)
	for _, fault := range f.Faults[min(1, len(f.Faults)):] {
		screen.Say(w, "also: %s\n", fault.Text)
	}
	return nil
}
