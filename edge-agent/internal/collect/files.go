package collect

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"regexp"
	"strings"
	"sync"

	"muster/edge-agent/internal/collect/sources"
	"muster/edge-agent/internal/collect/stamp"
	"muster/edge-agent/internal/collect/tally"
	"muster/edge-agent/internal/collect/textenc"
	"muster/internal/redact"
)

const (
	// keptLineBytes bounds how much of a line is looked at: its time, its level and the start of its message.
	keptLineBytes = 16 << 10
	// keptConfigLineBytes is more, because minified settings are one long line.
	keptConfigLineBytes = 32 << 10
	// keptConfigBytes bounds how much of a configuration file's content is taken; a result has no room for more.
	keptConfigBytes = 128 << 10
)

// open opens a file unless it was read already or the run has read enough.
func (r *run) open(ctx context.Context, match sources.Match) *sources.File {
	r.tried[match.Path] = true
	file, said := sources.Open(ctx, match.Path, r.collector.config.MaxDecompressedBytes)
	if said != nil {
		r.say(match.Path, *said)
		return nil
	}
	if size := file.Info().Size(); size > r.left {
		file.Close()
		r.say(match.Path, sources.Problem{Code: sources.OverBudget, Detail: "left unread, the run has read enough"})
		return nil
	}
	r.left -= file.Info().Size()
	return file
}

// again closes a file that was read already under another name, a link's or a second one; else it is taken now.
func (r *run) again(file *sources.File, match sources.Match, first bool) bool {
	other := r.same(file.Info())
	if other == "" {
		r.taken = append(r.taken, taken{path: match.Path, info: file.Info()})
		return false
	}
	file.Close()
	r.left += file.Info().Size()
	if first {
		r.say(match.Path, sources.Problem{Code: sources.SameFile, Detail: "the same file as " + showPath(other)})
	}
	return true
}

// readLog reads one log file. In the second look, a file that is in already is no news.
func (r *run) readLog(ctx context.Context, match sources.Match, first bool) error {
	file := r.open(ctx, match)
	if file == nil {
		return ctx.Err()
	}
	defer file.Close()
	if r.again(file, match, first) {
		return nil
	}
	lines := textenc.NewLines(file, textenc.Options{Declared: r.collector.encodingOf(match), MaxLineBytes: keptLineBytes})
	reading := &logReading{
		run: r, lines: lines, entry: logEntry{Path: showPath(match.Path), Compression: file.Compression()},
		firstMs: math.MaxInt64, lastMs: math.MinInt64, fileFirstMs: math.MaxInt64, fileLastMs: math.MinInt64,
		parser: stamp.NewParser(stamp.Options{
			Location: r.collector.location, AsOf: r.asOf, Modified: file.Info().ModTime(),
			FileDay: sources.DayInName(match.Path), Layouts: r.collector.config.TimestampLayouts,
		}),
	}
	if err := reading.all(); err != nil {
		return err
	}
	summary, err := file.Finish()
	if err != nil {
		return err
	}
	reading.finish(summary)
	r.say(match.Path, summary.Problems...)
	if reading.entry.Lines > 0 && reading.entry.Lines == reading.entry.LinesWithoutTime {
		r.say(match.Path, sources.Problem{Code: noTimestamps, Detail: "no line carries a time that is understood"})
	}
	r.logs = append(r.logs, reading.entry)
	return nil
}

// logReading is the reading of one log file.
type logReading struct {
	run    *run
	lines  *textenc.Lines
	parser *stamp.Parser
	blocks redact.Blocks
	entry  logEntry
	levels [tally.Other + 1]int64

	firstMs, lastMs, fileFirstMs, fileLastMs int64

	// currentMs and current are time and level of the last line that had a time of its own; stamped says there was one.
	currentMs int64
	current   tally.Level
	stamped   bool
}

func (l *logReading) all() error {
	for {
		line, err := l.lines.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		l.line(line)
	}
}

func (l *logReading) line(line textenc.Line) {
	l.entry.Lines++
	if line.Cut {
		l.entry.Truncated.LongLines++
	}
	text := withoutColour(line.Text)
	ms, rest, ok := l.parser.Parse(text)
	switch {
	case ok:
		l.currentMs, l.stamped = ms, true
		l.fileFirstMs, l.fileLastMs = min(l.fileFirstMs, ms), max(l.fileLastMs, ms)
	case !l.stamped:
		l.entry.LinesWithoutTime++
	}
	secret := l.blocks.Secret(text)
	if !l.stamped || !l.run.day.holds(l.currentMs) {
		return
	}
	l.entry.LinesInRange++
	if ok {
		l.record(text, rest)
	} else {
		l.entry.ContinuationLines++
	}
	if secret {
		text = []byte(redact.Mark)
	}
	l.run.excerpt.Add(text, line.Cut, tally.Line{
		AtMs: l.currentMs, Path: l.entry.Path, Number: l.entry.Lines, Level: l.current,
	})
}

// record counts a line of the day that has a time of its own.
func (l *logReading) record(text []byte, rest int) {
	level, message := tally.LevelOf(text, rest)
	l.current = level
	l.levels[level]++
	l.firstMs, l.lastMs = min(l.firstMs, l.currentMs), max(l.lastMs, l.currentMs)
	if level <= tally.Error {
		l.run.messages.Add(text[message:], level, l.currentMs)
	}
}

// withoutColour takes out the colours that programs write for terminals; decoding has made their escape character
// visible.
func withoutColour(text []byte) []byte {
	if !bytes.Contains(text, []byte(`\x1b[`)) {
		return text
	}
	return colour().ReplaceAll(text, nil)
}

var colour = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\\x1b\[[0-9;]*m`) })

func (l *logReading) finish(summary sources.Summary) {
	e, c := &l.entry, l.run.collector
	e.SizeBytes = summary.Bytes
	e.ModifiedAtMs = summary.ModifiedAt.UnixMilli()
	e.ModifiedAt = c.at(e.ModifiedAtMs)
	e.Encoding, e.EncodingBasis = l.lines.Encoding()
	e.UndecodableBytes = l.lines.Undecodable()
	if e.LinesInRange > e.ContinuationLines {
		e.FirstAt, e.FirstAtMs = c.at(l.firstMs), l.firstMs
		e.LastAt, e.LastAtMs = c.at(l.lastMs), l.lastMs
	}
	if l.stamped {
		e.FileFirstAt, e.FileFirstAtMs = c.at(l.fileFirstMs), l.fileFirstMs
		e.FileLastAt, e.FileLastAtMs = c.at(l.fileLastMs), l.fileLastMs
	}
	e.Levels = make(map[string]int64, len(l.levels))
	for level, count := range l.levels {
		e.Levels[tally.Level(level).String()] = count
	}
	e.Truncated.Content = cutShort(summary.Problems)
	t := &l.run.totals
	t.Files++
	t.Bytes += e.SizeBytes
	t.Lines += e.Lines
	t.LinesInRange += e.LinesInRange
	t.Errors += l.levels[tally.Error] + l.levels[tally.Fatal]
	t.Warnings += l.levels[tally.Warn]
	t.UndecodableBytes += e.UndecodableBytes
}

// cutShort reports whether what went wrong with a file left some of its content unread.
func cutShort(said []sources.Problem) bool {
	for _, one := range said {
		switch one.Code {
		case sources.Shrank, sources.ReadError, sources.Locked, sources.CorruptGzip, sources.UnsupportedCompression,
			sources.DecompressionCapped:
			return true
		}
	}
	return false
}

// readConfig reads every configuration file.
func (r *run) readConfig(ctx context.Context) error {
	r.tried, r.taken = make(map[string]bool), nil
	matches, err := r.find(ctx, r.collector.configFiles, true)
	if err != nil {
		return err
	}
	for _, match := range matches {
		file := r.open(ctx, match)
		if file == nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			continue
		}
		if r.again(file, match, true) {
			continue
		}
		err := r.readConfigFile(file, match)
		file.Close()
		if err != nil {
			return err
		}
		r.collector.onRead(match.Path)
	}
	return nil
}

func (r *run) readConfigFile(file *sources.File, match sources.Match) error {
	lines := textenc.NewLines(file, textenc.Options{
		Declared: r.collector.encodingOf(match), MaxLineBytes: keptConfigLineBytes,
	})
	entry := configEntry{Path: showPath(match.Path)}
	var content strings.Builder
	for number := 0; ; number++ {
		line, err := lines.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if number > 0 {
			content.WriteByte('\n')
		}
		text := line.Text
		if room := keptConfigBytes - content.Len(); line.Cut || len(text) > room {
			text = redact.WithoutLoose(redact.Clip(text, max(room, 0)))
			entry.ContentTruncated = true
		}
		content.Write(text)
		if content.Len() >= keptConfigBytes {
			entry.ContentTruncated = true
			break
		}
	}
	summary, err := file.Finish()
	if err != nil {
		return err
	}
	entry.SizeBytes = summary.Bytes
	entry.ModifiedAtMs = summary.ModifiedAt.UnixMilli()
	entry.ModifiedAt = r.collector.at(entry.ModifiedAtMs)
	entry.Encoding, entry.EncodingBasis = lines.Encoding()
	entry.UndecodableBytes = lines.Undecodable()
	entry.ContentTruncated = entry.ContentTruncated || cutShort(summary.Problems)
	// Key stores and data bases are no text: what looks like text in them may be anything, and no rule finds it.
	strange := lines.Controls() + lines.Undecodable()
	entry.Binary = strange > 3 && strange*50 > int64(content.Len()) || file.Compression() == sources.Unsupported
	if !entry.Binary {
		entry.Content, entry.Redactions = redact.Text(content.String())
	}
	// Beside all the rest of the file its hash would tell a short secret to whoever tries them all.
	if entry.Redactions == 0 && !entry.Binary && !entry.ContentTruncated {
		entry.SHA256 = summary.SHA256
	}
	r.say(match.Path, summary.Problems...)
	r.config = append(r.config, entry)
	return nil
}
