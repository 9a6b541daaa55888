package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/width"

	"muster/internal/protocol"
)

// readReport reads the JSON file of a revision, whose manifest the summary
// names.
func readReport(root string, summary protocol.Summary) (protocol.Report, string, error) {
	for _, file := range summary.Files {
		if !strings.HasSuffix(file.Name, ".json") || strings.HasSuffix(file.Name, "_manifest.json") {
			continue
		}
		path := filepath.Join(root, filepath.FromSlash(summary.Folder), file.Name)
		data, err := os.ReadFile(path)
		if err != nil {
			return protocol.Report{}, "", fmt.Errorf("cannot read the report: %w", err)
		}
		var report protocol.Report
		if err := json.Unmarshal(data, &report); err != nil {
			return protocol.Report{}, "", fmt.Errorf("cannot decode %s: %w", path, err)
		}
		return report, path, nil
	}
	return protocol.Report{}, "", fmt.Errorf("the summary of revision %d names no JSON file", summary.Revision)
}

// printRollCall writes the report as a table.
func printRollCall(out io.Writer, report protocol.Report) {
	shown := []string{columnLines, columnErrors, columnConfigs, columnTopError}
	rows := [][]string{append([]string{"store", "name", "outcome", "reason", "attempt"}, shown...)}
	for _, store := range report.Stores {
		outcome := string(store.Outcome)
		if store.Late {
			outcome += " (late)"
		}
		row := []string{store.StoreID, store.Name, outcome, string(store.Reason), strconv.Itoa(store.Attempt)}
		for _, name := range shown {
			row = append(row, cell(columnOf(report.Columns, store, name)))
		}
		rows = append(rows, row)
	}
	printTable(out, rows)
	c := report.Counts
	_, _ = fmt.Fprintf(out, "  %s: succeeded %d + failed %d + timed out %d + offline %d + cancelled %d = %d of %d\n",
		report.Verdict, c.Succeeded, c.Failed, c.TimedOut, c.Offline, c.Cancelled, c.Sum(), report.Targets)
}

// columnOf is the value of one of the job's columns, nil when there is none.
func columnOf(columns []protocol.Column, row protocol.StoreRow, name string) json.RawMessage {
	i := slices.IndexFunc(columns, func(c protocol.Column) bool { return c.Name == name })
	if i < 0 || i >= len(row.Columns) {
		return nil
	}
	return row.Columns[i]
}

func cell(value json.RawMessage) string {
	var text string
	switch {
	case len(value) == 0 || string(value) == "null":
		return "-"
	case json.Unmarshal(value, &text) == nil:
		return text
	}
	return string(value)
}

func printTable(out io.Writer, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, text := range row {
			widths[i] = max(widths[i], columns(text))
		}
	}
	for i, row := range rows {
		_, _ = fmt.Fprintln(out, "  "+strings.TrimRight(pad(row, widths), " "))
		if i == 0 {
			rules := make([]string, len(widths))
			for j, w := range widths {
				rules[j] = strings.Repeat("-", w)
			}
			_, _ = fmt.Fprintln(out, "  "+strings.TrimRight(pad(rules, widths), " "))
		}
	}
}

func pad(row []string, widths []int) string {
	var b strings.Builder
	for i, text := range row {
		b.WriteString(text + strings.Repeat(" ", widths[i]-columns(text)+2))
	}
	return b.String()
}

// columns is how wide a text is on a terminal: Chinese characters take two.
func columns(text string) int {
	n := 0
	for _, r := range text {
		n++
		switch width.LookupRune(r).Kind() {
		case width.EastAsianWide, width.EastAsianFullwidth:
			n++
		case width.Neutral, width.EastAsianAmbiguous, width.EastAsianNarrow, width.EastAsianHalfwidth:
		}
	}
	return n
}
