package checker

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"muster/internal/protocol"
)

// Finding is one broken promise. Run, Task, Attempt and File are set as far as
// they are known; Line is where in a history the proof stands, as file:line.
type Finding struct {
	Rule    Rule
	Run     string
	Task    string
	Attempt int
	File    string
	Line    string
	Text    string
}

// String is the finding on one line.
func (f Finding) String() string {
	var b strings.Builder
	b.WriteString(string(f.Rule) + ":")
	for _, part := range []struct{ name, value string }{{"run", f.Run}, {"task", f.Task}} {
		if part.value != "" {
			b.WriteString(" " + part.name + " " + part.value)
		}
	}
	if f.Attempt > 0 {
		fmt.Fprintf(&b, " attempt %d", f.Attempt)
	}
	if f.File != "" {
		b.WriteString(" file " + f.File)
	}
	if f.Line != "" {
		b.WriteString(" (" + f.Line + ")")
	}
	b.WriteString(" " + f.Text)
	return b.String()
}

// broken notes a finding of the rule that is being applied.
func (b *book) broken(f Finding, text string, args ...any) {
	f.Rule, f.Text = b.rule, fmt.Sprintf(text, args...)
	if f.Run == "" && f.Task != "" {
		f.Run = b.tasks[f.Task].RunID
	}
	b.found = append(b.found, f)
}

func bucketText(c protocol.Counts) string {
	return fmt.Sprintf("%d succeeded %d failed %d timed out %d offline %d cancelled", c.Succeeded, c.Failed, c.TimedOut, c.Offline, c.Cancelled)
}

// short is enough of a hash to find it.
func short(sum string) string {
	if len(sum) > 12 {
		return sum[:12]
	}
	return fmt.Sprintf("%q", sum)
}

func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}

// moment writes epoch milliseconds for people.
func moment(at int64) string { return time.UnixMilli(at).UTC().Format("15:04:05.000") }

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}
