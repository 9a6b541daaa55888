// Package bench plans measurements of headquarters beside the programs that people
// would take instead, runs them in turns, and writes what came of it.
//
// It measures nothing itself but how busy the machine was: each figure is a line that another
// command printed.
package bench

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/tests/load/meter"
)

// Bench measures ours and, where the peers' program is there, theirs, in turns.
type Bench struct {
	parts  string
	reps   int
	out    string
	doc    string
	peers  string
	bin    string
	folder string
	others float64

	program string // of the peers
}

// Flags registers what one can ask for.
func (o *Bench) Flags(f *flag.FlagSet) {
	f.StringVar(&o.parts, "part", strings.Join(parts(), ","), "what to measure, with commas between")
	f.IntVar(&o.reps, "reps", 5, "repetitions; 0: only read what is in -out")
	f.StringVar(&o.out, "out", "bin/bench.jsonl", "the file of all figures, which grows")
	f.StringVar(&o.doc, "doc", "", "the document to write, such as docs/performance.md")
	f.StringVar(&o.peers, "peers", os.Getenv(peersVariable), "the folder of the peers' program, or $"+peersVariable+"; empty: ours alone")
	f.StringVar(&o.bin, "bin", "bin", "where dispatcher is, and where the peers' program is built")
	f.StringVar(&o.folder, "folder", "", "where headquarters' folders are made (default: the system's for temporary files)")
	f.Float64Var(&o.others, "others", quiet, "measure once again when other programs used more cores meanwhile")
}

// Measure runs what is asked for, prints how the goals stand, writes the document,
// and returns how many goals are reached and missed.
func (o *Bench) Measure(ctx context.Context) (any, error) {
	if err := o.runAll(ctx); err != nil {
		return nil, err
	}
	all, err := load(o.out)
	if err != nil {
		return nil, err
	}
	text := page(all)
	if o.doc != "" {
		if err := os.WriteFile(o.doc, []byte(text), 0o644); err != nil {
			return nil, fmt.Errorf("cannot write the document: %w", err)
		}
	}
	fmt.Fprint(os.Stderr, text)
	count := map[string]int{"reached": 0, "missed": 0}
	for _, g := range goals() {
		switch v := g.judge(all); {
		case len(v.each) == 0:
		case v.reached():
			count["reached"]++
		default:
			count["missed"]++
		}
	}
	return count, nil
}

func (o *Bench) runAll(ctx context.Context) (err error) {
	if o.reps < 1 {
		return nil
	}
	if o.peers != "" {
		if o.program, err = buildPeers(ctx, o.peers, filepath.Join(o.bin, "peers")); err != nil {
			return err
		}
	}
	done, err := load(o.out)
	if err != nil {
		return err
	}
	first := 1 // a repetition is compared with itself alone
	for _, f := range done {
		first = max(first, f.Rep+1)
	}
	for rep := first; rep < first+o.reps; rep++ {
		for part := range strings.SplitSeq(o.parts, ",") {
			all := groups(part)
			if all == nil {
				return fmt.Errorf("there is no part %q; parts are %s", part, strings.Join(parts(), " "))
			}
			for _, group := range all {
				if err := o.round(ctx, rep, group); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// round measures a group once, backwards every other time, so that who comes first
// has no lasting advantage.
func (o *Bench) round(ctx context.Context, rep int, group []step) error {
	if rep%2 == 0 {
		group = slices.Clone(group)
		slices.Reverse(group)
	}
	for _, s := range group {
		if s.who == peers && (o.program == "" || lacks(s) != "") {
			continue
		}
		f := o.once(ctx, rep, s)
		if f.Values["Other"] > o.others {
			f = o.once(ctx, rep, s)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := keep(o.out, f); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%d %s %s %s\n", rep, s.label, s.sys, f.brief())
	}
	return nil
}

func (f figure) brief() string {
	if f.Failed != "" {
		return "failed: " + f.Failed
	}
	var text strings.Builder
	for _, name := range []string{"TPS", "P99", "GrantP99", "cpu_task", "RSSSrv", "Other", "answers/s", "json/scan-cpu", "csv/scan-cpu", "html/scan-cpu", "xlsx/excelize-cpu", "peak-MiB", "beside-p99-ms", "first_delivery_ms", "bytes_per_conn_after_gc", "ReportMS"} {
		if v := f.Values[name]; v != 0 {
			fmt.Fprintf(&text, "%s %.4g ", name, v)
		}
	}
	return text.String()
}

// longest bounds one measurement; a peer that takes longer has failed.
const longest = 8 * time.Minute

func (o *Bench) once(ctx context.Context, rep int, s step) figure {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	f := figure{Label: s.label, Sys: s.sys, Rep: rep}
	cmd, err := o.command(ctx, s)
	if err != nil {
		f.Failed = err.Error()
		return f
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.WaitDelay = time.Second
	span, err := meter.Start()
	if err != nil {
		f.Failed = err.Error()
		return f
	}
	out, err := cmd.Output()
	switch {
	case err != nil:
		err = fmt.Errorf("%w: %s", err, lastLine(stderr.Bytes()))
	case s.who == inProcess:
		f.Commit = Commit()
		if f.Values, err = metrics(out); err == nil {
			f.Values["Other"], err = others(span, cmd)
		}
	default:
		err = f.read(bytes.TrimSpace(out))
	}
	if err != nil {
		f.Failed, f.Values = err.Error(), nil
	} else if s.who == ours {
		f.Commit = Commit()
		f.largest()
	}
	return f
}

// others is how many cores everybody but the command and what it started has used.
func others(span meter.Span, cmd *exec.Cmd) (float64, error) {
	used, err := span.Stop()
	own := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return max(0, used.Other-own.Seconds()/used.Wall.Seconds()), err
}

// largest is the size of the largest program of an agent.
func (f *figure) largest() {
	for name, v := range f.Values {
		if strings.HasPrefix(name, "mb.") {
			f.Values["largest"] = max(f.Values["largest"], v)
		}
	}
}

func (o *Bench) command(ctx context.Context, s step) (*exec.Cmd, error) {
	switch s.who {
	case peers:
		cmd := exec.CommandContext(ctx, o.program, s.args...)
		cmd.Env = append(os.Environ(), "PEERS_THINK="+s.think)
		return cmd, nil
	case inProcess:
		cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^"+s.args[0]+"$", "-benchtime", s.args[2], s.args[1])
		if o.folder != "" {
			cmd.Env = append(os.Environ(), "TMPDIR="+o.folder)
		}
		return cmd, nil
	case ours:
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{s.args[0]}
	if o.folder != "" {
		args = append(args, "-folder", o.folder)
	}
	if slices.Contains([]string{"case", "restart", "agent"}, s.args[0]) {
		args = append(args, "-dispatcher", filepath.Join(o.bin, "dispatcher"))
	}
	return exec.CommandContext(ctx, self, append(args, s.args[1:]...)...), nil
}

var (
	benchmarkLine = regexp.MustCompile(`(?m)^Benchmark\S+\s+\d+\s+(.+)$`)
	metric        = regexp.MustCompile(`([0-9.e+-]+) (\S+)`)
)

// metrics reads the output of a benchmark by unit. Its last line is of the most terminals
// at once, where it has several.
func metrics(out []byte) (map[string]float64, error) {
	lines := benchmarkLine.FindAllSubmatch(out, -1)
	if len(lines) == 0 {
		return nil, errors.New("the benchmark says nothing")
	}
	values := map[string]float64{}
	for _, pair := range metric.FindAllSubmatch(lines[len(lines)-1][1], -1) {
		value, err := strconv.ParseFloat(string(pair[1]), 64)
		if err != nil {
			return nil, fmt.Errorf("the benchmark says %q: %w", pair[0], err)
		}
		values[string(pair[2])] = value
	}
	return values, nil
}

func lastLine(text []byte) []byte {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return lines[len(lines)-1]
}

// Commit is the state of the checkout that is measured.
func Commit() string {
	out, err := exec.CommandContext(context.Background(), "git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
