// Package doctor looks at a program's surroundings one thing at a time and says
// how each is and what mends it, for the doctor command of every program.
//
// It mends nothing itself, and knows no program: a program lists its checks.
package doctor

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"muster/internal/files"
)

// patience bounds a single check: a broker that does not answer must not hide what
// the later ones find.
const patience = 30 * time.Second

// State is how a thing is.
type State string

// The states.
const (
	Well State = "ok"
	// Watch: it works, and will not for long or not under load.
	Watch State = "warn"
	Ill   State = "fail"
	// Unseen: it could not be looked at, since something else is ill.
	Unseen State = "skip"
)

// Finding is what a check found. Mend is what to do, "" when nothing is.
type Finding struct {
	Check string `json:"check"`
	State State  `json:"state"`
	Text  string `json:"text"`
	Mend  string `json:"mend,omitempty"`
}

// Check looks at one thing. Look fills in all but Check.
type Check struct {
	Name string
	Look func(ctx context.Context) Finding
}

// Findings are those of all checks, in their order.
type Findings struct {
	OK       bool      `json:"ok"` // nothing is ill
	Findings []Finding `json:"findings"`
}

// Run makes the checks, one after the other.
func Run(ctx context.Context, checks []Check) Findings {
	all := Findings{OK: true, Findings: []Finding{}}
	for _, check := range checks {
		found := look(ctx, check)
		found.Check = check.Name
		all.OK = all.OK && found.State != Ill
		all.Findings = append(all.Findings, found)
	}
	return all
}

// look gives a check its time. What then still reads is left behind a moment later,
// after the word of a check that keeps to its time.
func look(ctx context.Context, check Check) Finding {
	late, end := context.WithTimeout(ctx, patience+time.Second)
	defer end()
	found, err := files.Await(late, func() (Finding, error) {
		looking, stop := context.WithTimeout(ctx, patience)
		defer stop()
		return check.Look(looking), nil
	})
	if err != nil {
		return Bad("put regular files in their places, on a disk that answers", "%v", err)
	}
	return found
}

// Write prints a line a check, with the mend under it, and a verdict.
func (f Findings) Write(w io.Writer) error {
	var b strings.Builder
	counts := map[State]int{}
	for _, found := range f.Findings {
		counts[found.State]++
		fmt.Fprintf(&b, "%-5s %s: %s\n", found.State, found.Check, strings.ReplaceAll(found.Text, "\n", "\n      "))
		if found.Mend != "" {
			fmt.Fprintf(&b, "      mend: %s\n", found.Mend)
		}
	}
	fmt.Fprintf(&b, "%s: %d ok, %s, %d failed, %d not looked at\n",
		Count(len(f.Findings), "check"), counts[Well], Count(counts[Watch], "warning"), counts[Ill], counts[Unseen])
	_, err := io.WriteString(w, b.String())
	return err
}

// Count is n and what is counted, of which thing names one: 1 file, 2 files.
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Good is a finding that needs nothing.
func Good(format string, args ...any) Finding {
	return Finding{State: Well, Text: fmt.Sprintf(format, args...)}
}

// Bad is a finding that has to be mended.
func Bad(mend, format string, args ...any) Finding {
	return Finding{State: Ill, Text: fmt.Sprintf(format, args...), Mend: mend}
}

// Warning is a finding that should be mended.
func Warning(mend, format string, args ...any) Finding {
	return Finding{State: Watch, Text: fmt.Sprintf(format, args...), Mend: mend}
}

// Skipped is a finding about what could not be looked at.
func Skipped(format string, args ...any) Finding {
	return Finding{State: Unseen, Text: fmt.Sprintf(format, args...)}
}
