// Package screen is what all commands of the dispatcher share towards who runs
// them: exit codes, lines, tables and JSON.
//
// It asks nobody and reads nothing.
package screen

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"muster/internal/protocol"
)

// The exit codes; 0 is done, and with --wait that the report is complete.
const (
	// ExitUntrue: what was to be proven does not hold.
	ExitUntrue = 1
	// ExitRefused: the command line or the request was refused, or it failed.
	ExitRefused     = 2
	ExitPartial     = 3 // the report is partial
	ExitBelowQuorum = 4 // the report is below the quorum
	ExitNoAnswer    = 5 // nobody answered
	// ExitNeedsApproval: nothing was created yet, a second person has to agree.
	ExitNeedsApproval = 6
)

// Variables are those of the environment that the commands read, beside the keys
// of the configuration.
func Variables() []string {
	return []string{"MUSTER_BROKER", "MUSTER_USER", "MUSTER_PASSWORD", "MUSTER_PASSWORD_FILE", "MUSTER_CA_FILE", "MUSTER_CERT", "MUSTER_CERT_KEY"}
}

// Moment shows a moment in the zone of this machine, where whoever runs the command is.
func Moment(t protocol.Time) string { return t.Local().Format(protocol.Clock) }

// Exit ends the program with a code. An empty text has been said already.
type Exit struct {
	Code int
	Text string
}

// Error is what is still to be said.
func (e *Exit) Error() string { return e.Text }

// ExitCode is what the program returns to the shell.
func (e *Exit) ExitCode() int { return e.Code }

// Say writes and does not care: a reader that went away needs nothing more.
func Say(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

// JSON writes a value for programs to read.
func JSON(w io.Writer, value any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(value)
}

// Refusal shows why a request was refused and what to do, in both languages. An older
// headquarters gives no hint in Chinese.
func Refusal(w io.Writer, r protocol.Reply) {
	Say(w, "refused: %s: %s\n", r.Code, r.Message)
	Say(w, "         %s\n", r.MessageZh)
	Say(w, "hint: %s\n", r.Hint)
	if r.HintZh != "" {
		Say(w, "      %s\n", r.HintZh)
	}
	if r.Code == protocol.CodeNeedsApproval {
		Say(w, "approval %s, until %s\n", r.ApprovalID, Moment(r.ExpiresAt))
	}
}

// Many counts things by their one or other name.
func Many(n int64, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}

// One takes a single argument and says which when it is not there.
func One(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("%s takes one %s, not %d arguments: %s", cmd.Name(), what, len(args), cmd.UseLine())
		}
		return nil
	}
}

// Plain keeps what people wrote from moving the cursor or turning the line
// around.
func Plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}
