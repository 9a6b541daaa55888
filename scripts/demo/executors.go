package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// longest is how long the interrupted execution lasts when nobody ends it. The
// agent that started it ends it when it comes back.
const longest = time.Minute

// execute is an external executor: the order's input comes on standard input,
// one JSON object goes to standard output. It returns the exit status.
func execute(ctx context.Context, args []string, in io.Reader, out, problems io.Writer) int {
	err := executeAs(ctx, args, in, out)
	if err != nil {
		_, _ = fmt.Fprintln(problems, "executor:", err)
		return 1
	}
	return 0
}

func executeAs(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	if len(args) != 3 {
		return errors.New("usage: executor outdated|crashing POS_FOLDER TIME_ZONE")
	}
	if _, err := io.ReadAll(in); err != nil { // "yesterday" is all that this demo orders
		return fmt.Errorf("cannot read the order: %w", err)
	}
	scheduled, err := time.Parse(time.RFC3339Nano, os.Getenv("MUSTER_SCHEDULED_FOR"))
	if err != nil {
		return fmt.Errorf("cannot read when the run was ordered: %w", err)
	}
	day, err := collectDay(args[1], args[2], scheduled)
	if err != nil {
		return err
	}
	var result any
	switch part(args[0]) {
	case outdated:
		// What collect_log answered before it had a schema.
		result = map[string]any{"store_day": day.from.Format("20060102"), "file_count": day.files, "line_count": day.lines, "err_lines": day.errors}
	case crashing:
		if os.Getenv("MUSTER_ATTEMPT") == "1" {
			return linger(ctx, filepath.Join(filepath.Dir(args[1]), working))
		}
		result = day.result(args[2], scheduled)
	default:
		return fmt.Errorf("there is no executor %s", args[0])
	}
	return json.NewEncoder(out).Encode(result)
}

// working is the file beside the folder of the POS that says that an execution is in
// the middle of its work.
const working = "working"

// linger is work that takes too long for the store's power supply. It says so in a file.
func linger(ctx context.Context, sign string) error {
	if err := os.WriteFile(sign, nil, 0o600); err != nil {
		return fmt.Errorf("cannot say that it works: %w", err)
	}
	timeout := time.NewTimer(longest)
	defer timeout.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timeout.C:
		return errors.New("nobody ended this execution")
	}
}

// day is what an executor counts in a shop's logs, which it takes for UTF-8.
type day struct {
	from, to             time.Time
	files, lines, errors int
	total                int
	size                 int64
}

func collectDay(folder, zone string, scheduled time.Time) (day, error) {
	from, to, err := shop{zone: zone}.yesterday(scheduled)
	if err != nil {
		return day{}, err
	}
	d := day{from: from, to: to}
	paths, err := filepath.Glob(filepath.Join(folder, "logs", "pos.log*"))
	if err != nil {
		return day{}, err
	}
	for _, path := range paths {
		if err := d.add(path); err != nil {
			return day{}, fmt.Errorf("cannot read %s: %w", path, err)
		}
	}
	return d, nil
}

func (d *day) add(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	d.files++
	d.size += int64(len(data))
	if strings.HasSuffix(path, ".gz") {
		unpacked, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return err
		}
		if data, err = io.ReadAll(unpacked); err != nil {
			return err
		}
	}
	date := d.from.Format(time.DateOnly)
	for text := range strings.Lines(string(data)) {
		d.total++
		if strings.HasPrefix(text, date) {
			d.lines++
			if strings.Contains(text, " ERROR ") {
				d.errors++
			}
		}
	}
	return nil
}

// result is a valid answer of collect_log without any detail.
func (d *day) result(zone string, scheduled time.Time) any {
	type object = map[string]any
	const instant = "2006-01-02T15:04:05.000Z07:00"
	none := []any{}
	return object{
		"schemaVersion": 1, "date": d.from.Format(time.DateOnly), "timeZone": zone,
		"rangeStart": d.from.Format(instant), "rangeStartMs": d.from.UnixMilli(),
		"rangeEnd": d.to.Format(instant), "rangeEndMs": d.to.UnixMilli(),
		"asOf": scheduled.In(d.from.Location()).Format(instant), "asOfMs": scheduled.UnixMilli(),
		"totals": object{"files": d.files, "bytes": d.size, "lines": d.total, "linesInRange": d.lines, "errors": d.errors,
			"warnings": 0, "undecodableBytes": 0, "errorGroups": 0, "configFiles": 0, "problems": 0},
		"logs": none, "topErrors": none, "excerpt": none, "config": none, "problems": none,
		"truncated": object{"any": true, "excerptLines": 0, "configContents": 0, "messages": 0, "errorGroups": 0, "ungroupedLines": 0,
			"problems": 0, "logs": d.files, "config": 0, "unreadFiles": 0},
	}
}
