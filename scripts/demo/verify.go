package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"muster/internal/protocol"
	"muster/internal/task"
)

// expectation is what a part must have come to in a revision.
type expectation struct {
	outcome   task.Outcome
	reason    task.Reason
	atBarrier task.Outcome
	attempt   int
	late      bool
}

func expected(p part, revision int) expectation {
	switch p {
	case well:
		return expectation{outcome: task.OutcomeSucceeded, atBarrier: task.OutcomeSucceeded, attempt: 1}
	case crashing:
		return expectation{outcome: task.OutcomeSucceeded, atBarrier: task.OutcomeSucceeded, attempt: 2}
	case outdated:
		return expectation{outcome: task.OutcomeFailed, reason: task.ReasonInvalidResult, atBarrier: task.OutcomeFailed, attempt: 2}
	case latecomer:
		if revision > 1 {
			return expectation{outcome: task.OutcomeSucceeded, atBarrier: task.OutcomeOffline, attempt: 1, late: true}
		}
	case absent:
	}
	return expectation{outcome: task.OutcomeOffline, reason: task.ReasonOfflineWholeWindow, atBarrier: task.OutcomeOffline}
}

// findings gathers what is not as it should be, so that all of it is told.
type findings []string

func (f *findings) add(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

// checkReport compares a revision with what every shop's part must come to.
func checkReport(report protocol.Report, all []shop, known map[string]facts) (found findings) {
	late := 0
	if report.Revision > 1 {
		late = count(all, latecomer)
	}
	want := protocol.Counts{
		Succeeded: count(all, well, crashing) + late,
		Failed:    count(all, outdated),
		Offline:   count(all, latecomer, absent) - late,
	}
	if report.Counts != want {
		found.add("revision %d counts %+v, expected %+v", report.Revision, report.Counts, want)
	}
	if report.Targets != len(all) || report.Counts.Sum() != len(all) || len(report.Stores) != len(all) {
		found.add("revision %d has %d targets, buckets for %d and %d rows, expected %d of each",
			report.Revision, report.Targets, report.Counts.Sum(), len(report.Stores), len(all))
	}
	for _, s := range all {
		i := slices.IndexFunc(report.Stores, func(row protocol.StoreRow) bool { return row.StoreID == s.id })
		if i < 0 {
			found.add("revision %d has no row for %s", report.Revision, s.id)
			continue
		}
		row, w := report.Stores[i], expected(s.part, report.Revision)
		got := expectation{row.Outcome, row.Reason, row.AtBarrier, row.Attempt, row.Late}
		if got != w {
			found.add("revision %d says of %s (%s) %+v, expected %+v", report.Revision, s.id, s.part, got, w)
		}
		if row.Name != s.name {
			found.add("revision %d calls %s %q, expected %q", report.Revision, s.id, row.Name, s.name)
		}
		if s.part == well || (s.part == latecomer && report.Revision > 1) {
			checkColumns(&found, report.Columns, row, known[s.id])
		}
	}
	return found
}

// checkColumns compares what the terminal counted with what the demo wrote
// into its logs.
func checkColumns(found *findings, columns []protocol.Column, row protocol.StoreRow, known facts) {
	for name, want := range map[string]int{columnLines: known.lines, columnErrors: known.errors} {
		if got := string(columnOf(columns, row, name)); got != fmt.Sprint(want) {
			found.add("%s of %s is %s, the logs of %s have %d", name, row.StoreID, got, known.date, want)
		}
	}
}

// checkFiles compares every file that a summary names with its size and hash,
// and with the manifest beside it.
func checkFiles(root string, summary protocol.Summary) (found findings) {
	folder := filepath.Join(root, filepath.FromSlash(summary.Folder))
	var manifest protocol.Manifest
	for _, file := range summary.Files {
		data, err := os.ReadFile(filepath.Join(folder, file.Name))
		if err != nil {
			found.add("a file of revision %d is missing: %v", summary.Revision, err)
			continue
		}
		sum := sha256.Sum256(data)
		if got := hex.EncodeToString(sum[:]); got != file.SHA256 || int64(len(data)) != file.Bytes {
			found.add("%s has %d bytes and sha256 %s, the summary says %d and %s", file.Name, len(data), got, file.Bytes, file.SHA256)
		}
		if strings.HasSuffix(file.Name, "_manifest.json") {
			if err := json.Unmarshal(data, &manifest); err != nil {
				found.add("cannot decode %s: %v", file.Name, err)
			}
		}
	}
	for _, ending := range []string{".json", ".csv", ".html", ".xlsx"} {
		if !slices.ContainsFunc(manifest.Files, func(f protocol.ManifestFile) bool { return strings.HasSuffix(f.Name, ending) }) {
			found.add("the manifest of revision %d lists no %s file", summary.Revision, ending)
		}
	}
	for _, file := range manifest.Files {
		if !slices.Contains(summary.Files, file) {
			found.add("the manifest of revision %d has %+v, the summary has not", summary.Revision, file)
		}
	}
	return found
}

// checkSecrets looks for every secret in everything that the demo made, the
// shops' own files apart.
func checkSecrets(work string, all []shop, known map[string]facts) (found findings, files int) {
	var secrets [][]byte
	for _, s := range all {
		for _, secret := range known[s.id].secrets {
			secrets = append(secrets, []byte(secret))
		}
	}
	err := filepath.WalkDir(work, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && entry.Name() == "pos" {
			return fs.SkipDir
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // programs still run: a temporary file may be gone
		}
		if err != nil {
			return err
		}
		files++
		for _, secret := range secrets {
			if bytes.Contains(data, secret) {
				found.add("the secret %s… stands in %s", secret[:8], path)
			}
		}
		return nil
	})
	if err != nil {
		found.add("cannot look for secrets: %v", err)
	}
	return found, files
}
