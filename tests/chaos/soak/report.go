package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"text/template"
	"time"

	"golang.org/x/sys/unix"
)

//go:embed reliability.md.tmpl
var reliability string

// row is one line of the report's table.
type row struct{ What, Is string }

// report writes docs/reliability.md, or whatever the file is called, with all that was
// found.
func (s *soak) report(ctx context.Context, findings []string, sum figures) error {
	rows := s.rows(ctx, len(findings), sum)
	for _, r := range rows {
		fmt.Fprintf(os.Stderr, "soak: %-42s %s\n", r.What, r.Is)
	}
	if s.opts.report == "" {
		return nil
	}
	page, err := template.New("reliability").Parse(reliability)
	if err != nil {
		return fmt.Errorf("cannot write the report: %w", err)
	}
	var out bytes.Buffer
	err = page.Execute(&out, map[string]any{"Rows": rows, "Command": s.command(), "Epochs": len(s.epochs), "Findings": findings})
	if err != nil {
		return fmt.Errorf("cannot write the report: %w", err)
	}
	return os.WriteFile(s.opts.report, out.Bytes(), 0o644)
}

func (s *soak) command() string {
	text := fmt.Sprintf("go run ./tests/chaos/soak -duration %v -seed %d", s.opts.duration, s.opts.seed)
	if s.opts.terminals != 2000 || s.opts.agents != 20 {
		text += fmt.Sprintf(" -terminals %d -agents %d", s.opts.terminals, s.opts.agents)
	}
	return text
}

func (s *soak) rows(ctx context.Context, findings int, sum figures) []row {
	t := &s.tally
	span := s.opts.duration - s.plan.quiet
	return []row{
		{"commit", commit(ctx)},
		{"date", s.begin.UTC().Format("2006-01-02 15:04 UTC")},
		{"machine", machine()},
		{"seed", fmt.Sprint(s.opts.seed)},
		{"attack, then quiet", fmt.Sprintf("%v, %v", span, s.plan.quiet)},
		{"real agents, simulated terminals", fmt.Sprintf("%d, %d", s.opts.agents, s.opts.terminals)},
		{"terminals kept away at any time", fmt.Sprintf("one of %d, in turn", awayShare)},
		{"kill -9 of headquarters, of agents", fmt.Sprintf("%d, %d", t.counted(killHeadquarters), t.counted(killAgent))},
		{"starts of headquarters", fmt.Sprint(t.starts.Load())},
		{"disk full", fmt.Sprintf("%d, and %d starts that waited for room", t.counted(fillDisk), t.noRoom.Load())},
		{"restores from a backup", fmt.Sprint(t.counted(restoreBackup))},
		{"clock jumps", fmt.Sprint(t.counted(jumpClock))},
		{"all connections cut at once", fmt.Sprint(t.counted(storm))},
		{"requests of technicians", fmt.Sprintf("%d, of which %d refused and %d without an answer", t.requests.Load(), t.refused.Load(), t.unanswered.Load())},
		{"runs, tasks", fmt.Sprintf("%d, %d", len(sum.runs), sum.tasks)},
		{"attempts, marks of execution", fmt.Sprintf("%d, %d", len(sum.attempts), sum.executions)},
		{"results in the databases", fmt.Sprint(sum.results())},
		{"receipts that simulated terminals got", fmt.Sprintf("%d, and %d refusals", t.accepted.Load(), t.rejected.Load())},
		{"from an answer to its receipt", fmt.Sprintf("50 %% within %v, 90 %% within %v, 99 %% within %v; outages and absences included", t.percentile(50), t.percentile(90), t.percentile(99))},
		{"revisions, files of reports", fmt.Sprintf("%d, %d", len(sum.revisions), len(sum.files))},
		{"lines of history", fmt.Sprint(sum.lines)},
		{"headquarters: memory at the most", fmt.Sprintf("%d MiB resident", t.peakRSS.Load()>>20)},
		{"headquarters: descriptors at the most", fmt.Sprint(t.peakDescriptors.Load())},
		{"headquarters: processor time", fmt.Sprintf("%d %% of one processor", 100*t.usedSoFar(0)/max(s.opts.duration, time.Second))},
		{"**findings**", fmt.Sprintf("**%d**", findings)},
	}
}

// commit is what is checked out, where that is known.
func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	changed, err := exec.CommandContext(ctx, "git", "status", "--porcelain", "--untracked-files=no").Output()
	text := strings.TrimSpace(string(out))
	if err == nil && len(bytes.TrimSpace(changed)) > 0 {
		text += ", with changes"
	}
	return text
}

func machine() string {
	var name unix.Utsname
	var info unix.Sysinfo_t
	if unix.Uname(&name) != nil || unix.Sysinfo(&info) != nil {
		return fmt.Sprintf("%d cores", cores())
	}
	kernel, _, _ := strings.Cut(unix.ByteSliceToString(name.Release[:]), "-")
	return fmt.Sprintf("%d cores, %d GiB, %s %s", cores(), info.Totalram*uint64(info.Unit)>>30, unix.ByteSliceToString(name.Sysname[:]), kernel)
}
