package cli

import (
	"fmt"
	"io"
	"strings"

	"muster/dispatcher/internal/cli/screen"
	"muster/internal/protocol"
	"muster/internal/task"
)

func showAccepted(w io.Writer, r protocol.Reply) {
	if r.Forecast != nil {
		showForecast(w, r)
		return
	}
	again := ""
	if r.Duplicate != nil && *r.Duplicate {
		again = " (the same request made it before)"
	}
	screen.Say(w, "run %s: %s, report by %s%s\n", r.RunID, stores(r.Stores), screen.Moment(r.BarrierAt), again)
	screen.Say(w, "watch %s\n", r.Watch)
}

// showForecast shows what a run would meet that was not made.
func showForecast(w io.Writer, r protocol.Reply) {
	f := r.Forecast
	screen.Say(w, "nothing was created: %s, %d online now, up to %g begin each second\n", stores(r.Stores), f.Online, f.GrantsPerSecond)
	if f.NeedsApproval {
		screen.Say(w, "a second person would have to agree first\n")
	}
	if f.Online > 0 {
		screen.Say(w, "those online would be done by %s, if nothing else runs\n", screen.Moment(f.FinishAt))
	}
	if f.Silent > 0 {
		screen.Say(w, "%s answered in none of the job's last three reports\n", stores(f.Silent))
	}
	for _, s := range f.SilentStores {
		seen := "never seen"
		if !s.LastSeenAt.IsZero() {
			seen = "last seen " + screen.Moment(s.LastSeenAt)
		}
		screen.Say(w, "  %s, %s\n", s.StoreID, seen)
	}
}

func stores(n int) string { return screen.Many(int64(n), "store", "stores") }

func showProgress(w io.Writer, s protocol.RunStateReport) {
	left := s.BarrierAt.Sub(s.At.Time)
	when := fmt.Sprintf("%.0f s to the barrier", left.Seconds())
	if left <= 0 || s.Phase != protocol.PhaseCollecting {
		when = string(s.Phase)
	}
	screen.Say(w, "%s  %s, online %d of %d, waiting %d, %s\n", s.At.Local().Format("15:04:05"), counts(s.Tasks), s.Online, s.Targets, s.Waiting, when)
}

func counts(tasks map[task.Status]int) string {
	var parts []string
	for _, status := range task.Statuses() {
		if n := tasks[status]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", strings.ToLower(string(status)), n))
		}
	}
	return strings.Join(parts, ", ")
}

// detailShown bounds the end of an error's detail, in characters: what a screen has room for.
const detailShown = 2000

// quoted is what a store said, in which nothing acts; its further lines are indented, so
// that none passes for one of the program's own.
func quoted(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = screen.Plain(line)
	}
	return strings.Join(lines, "\n  ")
}

func showStatus(w io.Writer, r protocol.Reply) {
	if s := r.State; s != nil {
		screen.Say(w, "run %s of %s: %s, revision %d\n", s.RunID, s.Job, s.Phase, s.Revision)
		screen.Say(w, "stores %d: %s\n", s.Targets, counts(s.Tasks))
		screen.Say(w, "online %d, waiting %d, barrier %s\n", s.Online, s.Waiting, screen.Moment(s.BarrierAt))
	}
	if t := r.Task; t != nil {
		screen.Say(w, "task %s of store %s: %s, attempt %d\n", t.TaskID, t.StoreID, t.Status, t.Attempt)
		if t.Error != nil {
			screen.Say(w, "error %s: %s\n", t.Error.Code, quoted(t.Error.Message))
			if detail := t.Error.Tail(detailShown); detail != "" {
				screen.Say(w, "  %s\n", quoted(detail))
			}
		}
		if len(t.Result) > 0 && string(t.Result) != "null" {
			screen.Say(w, "result %s\n", quoted(string(t.Result)))
		}
	}
}

func showJobs(w io.Writer, r protocol.Reply) {
	table := screen.NewTable(w)
	for _, j := range r.Jobs {
		table.Row(j.Name, fmt.Sprintf("v%d", j.Version), j.Title, j.TitleZh)
	}
	table.Flush()
}

func showSummary(w io.Writer, s protocol.Summary) {
	screen.Say(w, "%s\n%s\n", s.Text, s.TextZh)
	c := s.Counts
	screen.Say(w, "verdict %s, revision %d: succeeded %d, failed %d, timed out %d, offline %d, cancelled %d, targets %d\n",
		s.Verdict, s.Revision, c.Succeeded, c.Failed, c.TimedOut, c.Offline, c.Cancelled, s.Targets)
	if len(s.Missing) > 0 {
		more := ""
		if rest := s.Targets - c.Succeeded - len(s.Missing); rest > 0 {
			more = fmt.Sprintf(" and %d more", rest)
		}
		screen.Say(w, "missing %s%s\n", strings.Join(s.Missing, ", "), more)
	}
	for _, f := range s.Files {
		screen.Say(w, "%s/%s\n", strings.TrimSuffix(s.Folder, "/"), f.Name)
	}
}
