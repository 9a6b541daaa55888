package collect

import (
	"cmp"
	"context"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"muster/edge-agent/internal/collect/sources"
	"muster/edge-agent/internal/collect/tally"
	"muster/internal/redact"
)

// run is one collection.
type run struct {
	collector *Collector
	order     order
	day       businessDay
	asOf      time.Time

	logs     []logEntry
	config   []configEntry
	problems []problem
	totals   totals
	messages *tally.Messages
	excerpt  *tally.Excerpt

	// left is how many bytes may still be read.
	left int64
	// taken are the log files that were read, so that one with two names counts once.
	taken []taken
	tried map[string]bool
	// cut are the globs whose search was broken off; they are not searched again.
	cut map[*sources.Glob]bool
}

type taken struct {
	path string
	info fs.FileInfo
}

func (r *run) say(path string, said ...sources.Problem) {
	for _, one := range said {
		r.problems = append(r.problems, problem{Code: one.Code, Path: showPath(path), Detail: showPath(one.Detail)})
	}
}

// showPath makes a path fit for JSON: names on Linux are bytes in any encoding.
func showPath(path string) string {
	if utf8.ValidString(path) {
		return path
	}
	var shown strings.Builder
	for i := 0; i < len(path); {
		c, n := utf8.DecodeRuneInString(path[i:])
		if c == utf8.RuneError && n == 1 {
			const digits = "0123456789abcdef"
			shown.WriteString(`\x`)
			shown.WriteByte(digits[path[i]>>4])
			shown.WriteByte(digits[path[i]&0xF])
		} else {
			shown.WriteString(path[i : i+n])
		}
		i += n
	}
	return shown.String()
}

// readLogs reads every log file. The second look takes in what a rotation renamed during the first.
func (r *run) readLogs(ctx context.Context) error {
	c := r.collector
	if len(c.logs)+len(c.configFiles) == 0 {
		r.say("", sources.Problem{Code: notConfigured, Detail: "neither logs nor config_files are configured"})
	}
	r.tried = make(map[string]bool)
	for look := range 2 {
		matches, err := r.find(ctx, c.logs, look == 0)
		if err != nil {
			return err
		}
		for _, match := range matches {
			if err := r.readLog(ctx, match, look == 0); err != nil {
				return err
			}
			c.onRead(match.Path)
		}
	}
	return nil
}

// find returns the files of several globs that were not tried yet, newest first. first says that this is the first
// look, in which what is missing is a problem.
func (r *run) find(ctx context.Context, globs []*sources.Glob, first bool) ([]sources.Match, error) {
	type dated struct {
		sources.Match
		modified time.Time
		link     bool
	}
	var files []dated
	seen := make(map[string]bool)
	for _, glob := range globs {
		if r.cut[glob] {
			continue
		}
		found, err := glob.Find(ctx, r.collector.config.MaxFiles)
		if err != nil {
			return nil, err
		}
		r.note(glob, found, first)
		for _, match := range found.Files {
			if seen[match.Path] || !first && r.tried[match.Path] && !r.renamed(match.Path) {
				continue
			}
			seen[match.Path] = true
			file := dated{Match: match}
			if info, err := os.Stat(match.Path); err == nil {
				file.modified = info.ModTime()
			}
			if info, err := os.Lstat(match.Path); err == nil {
				file.link = info.Mode().Type() == fs.ModeSymlink
			}
			files = append(files, file)
		}
	}
	slices.SortFunc(files, func(a, b dated) int {
		// A link behind its file, so that a file with both is read under its own name.
		return cmp.Or(b.modified.Compare(a.modified), compareBool(a.link, b.link), strings.Compare(a.Path, b.Path))
	})
	if room := max(0, r.collector.config.MaxFiles-len(r.tried)); len(files) > room {
		r.say("", sources.Problem{Code: sources.TooManyFiles, Detail: "the oldest files are left out"})
		files = files[:room]
	}
	matches := make([]sources.Match, 0, len(files))
	for _, file := range files {
		matches = append(matches, file.Match)
	}
	return matches, nil
}

// note says in the first look what was wrong with a search.
func (r *run) note(glob *sources.Glob, found sources.Found, first bool) {
	if first && found.Problem != nil {
		r.say(glob.String(), *found.Problem)
		if found.Problem.Code == sources.SearchCut {
			r.cut[glob] = true
		}
	}
	if first && found.More {
		r.say(glob.String(), sources.Problem{Code: sources.TooManyFiles, Detail: "some are left out"})
	}
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// renamed reports whether a path that was tried stands for a file now that was not read.
func (r *run) renamed(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && r.same(info) == ""
}

// same returns the path under which a file was read already, or "".
func (r *run) same(info fs.FileInfo) string {
	for _, other := range r.taken {
		if os.SameFile(other.info, info) {
			return other.path
		}
	}
	return ""
}

// output puts the result together, unbounded still. Nothing of a file's text gets into it unredacted.
func (r *run) output() *result {
	c := r.collector
	slices.SortStableFunc(r.logs, func(a, b logEntry) int { return strings.Compare(a.Path, b.Path) })
	slices.SortStableFunc(r.config, func(a, b configEntry) int { return strings.Compare(a.Path, b.Path) })
	slices.SortStableFunc(r.problems, func(a, b problem) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Code, b.Code))
	})
	r.problems = slices.Compact(r.problems)
	r.totals.ConfigFiles, r.totals.Problems = len(r.config), len(r.problems)
	out := &result{
		SchemaVersion: 1, Date: r.day.date, TimeZone: c.config.TimeZone,
		RangeStart: c.at(r.day.startMs), RangeStartMs: r.day.startMs,
		RangeEnd: c.at(r.day.endMs), RangeEndMs: r.day.endMs,
		AsOf: c.at(r.asOf.UnixMilli()), AsOfMs: r.asOf.UnixMilli(),
		Totals: r.totals, Logs: emptyNotNil(r.logs), TopErrors: []errorEntry{},
		Config: emptyNotNil(r.config), Problems: emptyNotNil(r.problems),
	}
	groups, more := r.messages.Top(r.order.topErrors, func(text string) string {
		clean, _ := redact.Text(text)
		return clean
	})
	out.Totals.ErrorGroups = len(groups) + more
	out.Truncated.UngroupedLines = r.messages.Dropped()
	for _, p := range r.problems {
		if p.Code == sources.OverBudget || p.Code == sources.TooManyFiles || p.Code == sources.SearchCut {
			out.Truncated.UnreadFiles++
		}
	}
	for _, group := range groups {
		out.TopErrors = append(out.TopErrors, errorEntry{
			Message: group.Message, Example: group.Example, Level: group.Level.String(), Count: group.Count,
			FirstAt: c.at(group.FirstMs), FirstAtMs: group.FirstMs, LastAt: c.at(group.LastMs), LastAtMs: group.LastMs,
		})
	}
	out.Excerpt = r.excerptLines(r.excerpt.Lines())
	return out
}

func emptyNotNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// excerptLines redacts the lines of an excerpt. Neighbours in a file are redacted together, because a secret may stand
// on the line below its name.
func (r *run) excerptLines(lines []tally.Line) []excerptLine {
	shown := make([]excerptLine, 0, len(lines))
	for start := 0; start < len(lines); {
		end := start + 1
		for end < len(lines) && lines[end].Path == lines[start].Path && lines[end].Number == lines[end-1].Number+1 {
			end++
		}
		texts := make([]string, 0, end-start)
		for _, line := range lines[start:end] {
			texts = append(texts, line.Text)
		}
		clean, _ := redact.Text(strings.Join(texts, "\n"))
		texts = strings.Split(clean, "\n")
		for i, line := range lines[start:end] {
			shown = append(shown, excerptLine{
				Path: line.Path, Line: line.Number, At: r.collector.at(line.AtMs), AtMs: line.AtMs,
				Level: line.Level.String(), Text: texts[i], Cut: line.Cut,
			})
		}
		start = end
	}
	return shown
}
