package checker

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"muster/internal/protocol"
	"muster/tests/chaos/history"
)

// reportFile is one published file of a revision, with its content.
type reportFile struct {
	path    string
	content []byte
	named   protocol.ManifestFile
	rev     Revision
}

func (f reportFile) report() (protocol.Report, error) {
	var r protocol.Report
	if err := json.Unmarshal(f.content, &r); err != nil {
		return r, fmt.Errorf("cannot read the report: %w", err)
	}
	return r, nil
}

// publishedFiles are the files of the revisions that are in the report folder.
func (b *book) publishedFiles() (files []reportFile) {
	at := map[string]string{}
	for _, p := range sorted(b.Reports) {
		at[path.Base(p)] = p
	}
	for _, rev := range b.Store.Revisions {
		for _, named := range rev.Files {
			if p, there := at[named.Name]; there && rev.PublishedAt != 0 {
				files = append(files, reportFile{p, b.Reports[p], named, rev})
			}
		}
	}
	return files
}

// judged are the rows of a revision: of each store the newest up to it.
func (b *book) judged(run string, revision int) map[string]Outcome {
	rows := map[string]Outcome{}
	for _, o := range b.outcomes[run] {
		if o.Revision <= revision && (rows[o.StoreID].Revision <= o.Revision) {
			rows[o.StoreID] = o
		}
	}
	return rows
}

// reports: each revision has every target in one bucket, its files say what the
// database says, their bytes stay, and late answers make a new one.
func reports(b *book) {
	b.revisionsOf()
	b.revisionsEarlier()
	b.outcomesTruly()
	there := map[string]reportFile{}
	for _, f := range b.files {
		there[f.named.Name] = f
	}
	for _, rev := range b.Store.Revisions {
		if rev.PublishedAt != 0 {
			b.weigh("revisions", 1)
			b.whole(rev)
			b.published(rev, there)
		}
	}
	b.looks()
}

// revisionsOf looks at the database alone.
func (b *book) revisionsOf() {
	numbers, newest := map[string][]int{}, map[string]Revision{}
	for _, rev := range b.Store.Revisions {
		if rev.Complete == 0 {
			continue
		}
		numbers[rev.RunID] = append(numbers[rev.RunID], rev.Revision)
		newest[rev.RunID] = rev
		rows := b.judged(rev.RunID, rev.Revision)
		if run := b.runs[rev.RunID]; len(rows) != run.Targets {
			b.broken(Finding{Run: rev.RunID}, "the buckets of revision %d hold %d stores, the run has %d targets", rev.Revision, len(rows), run.Targets)
		} else if have, want := sorted(rows), sorted(b.targets[rev.RunID]); !slices.Equal(have, want) {
			b.broken(Finding{Run: rev.RunID}, "the buckets of revision %d hold %s, the run's targets are %s", rev.Revision,
				clip(strings.Join(have, " ")), clip(strings.Join(want, " ")))
		}
	}
	for _, run := range b.Store.Runs {
		for i, n := range numbers[run.RunID] {
			if n != i+1 {
				b.broken(Finding{Run: run.RunID}, "revision %d stands where revision %d belongs", n, i+1)
				break
			}
		}
		rev := newest[run.RunID]
		quiet := max(run.BarrierAt, run.ClosedAt, b.lastFault(), b.lastLate(run.RunID)) + ms(b.limits.Settle)
		if run.ClosedAt != 0 && run.LateCount > rev.Seen && b.Store.TakenAt > quiet && !b.wasRetried(run.RunID) {
			b.broken(Finding{Run: run.RunID}, "%d late answers were accepted, revision %d holds %d of them and none follows", run.LateCount, rev.Revision, rev.Seen)
		}
	}
}

func (b *book) lastLate(run string) (at int64) {
	for _, t := range b.ofRun[run] {
		at = max(at, t.SettledAt)
	}
	return at
}

// endings are those of a revision's files.
var endings = []string{".json", ".csv", ".html", ".xlsx", "_manifest.json"}

// whole: a published revision has a file in each format and the manifest. Only a
// number that the files of a replaced database took has none, and a later one follows.
func (b *book) whole(rev Revision) {
	if len(rev.Files) == 0 && b.Store.Epoch > 0 && rev.Revision < b.runs[rev.RunID].Revision {
		return
	}
	lacks := slices.DeleteFunc(slices.Clone(endings), func(ending string) bool {
		return slices.ContainsFunc(rev.Files, func(f protocol.ManifestFile) bool {
			return strings.HasSuffix(f.Name, fmt.Sprintf("_r%d%s", rev.Revision, ending))
		})
	})
	if len(lacks) > 0 {
		b.broken(Finding{Run: rev.RunID}, "revision %d is published without its %s", rev.Revision, strings.Join(lacks, " "))
	}
}

// published compares the files of one revision with the database.
func (b *book) published(rev Revision, there map[string]reportFile) {
	in := reading{zone: zoneOf(rev, there)}
	in.sums = b.sums(rev, in.zone)
	for _, named := range rev.Files {
		f, ok := there[named.Name]
		where := Finding{Run: rev.RunID, File: named.Name}
		switch {
		case !ok:
			b.broken(where, "it is published with revision %d and not in the report folder", rev.Revision)
			continue
		case digest(f.content) != named.SHA256 || int64(len(f.content)) != named.Bytes:
			b.broken(where, "its bytes hash to %s, the store has %s", short(digest(f.content)), short(named.SHA256))
			continue // what it says is not what was published
		}
		b.says(f, where, rev, in)
	}
}

// reading is what the files of a revision are read with: headquarters' zone, and what the
// job's columns amount to.
type reading struct {
	zone *time.Location
	sums map[int]*sum // nil: no column has a type
}

// zoneOf is headquarters' zone by the revision's JSON file.
func zoneOf(rev Revision, there map[string]reportFile) *time.Location {
	for _, named := range rev.Files {
		if !strings.HasSuffix(named.Name, ".json") || strings.HasSuffix(named.Name, "_manifest.json") {
			continue
		}
		if report, err := there[named.Name].report(); err == nil {
			if zone, err := time.LoadLocation(report.TimeZone); err == nil {
				return zone
			}
		}
	}
	return time.UTC
}

// says reads one file and compares what it says with the database.
func (b *book) says(f reportFile, where Finding, rev Revision, in reading) {
	var claims claim
	var err error
	switch {
	case strings.HasSuffix(f.named.Name, "_manifest.json"):
		b.manifest(f, where, rev)
		return
	case strings.HasSuffix(f.named.Name, ".json"):
		claims, err = jsonClaim(f.content, in.zone)
		b.jsonRows(f, where, rev)
	case strings.HasSuffix(f.named.Name, ".csv"):
		claims, err = csvClaim(f.content, b.runs[rev.RunID].Columns)
	case strings.HasSuffix(f.named.Name, ".html"):
		claims, err = htmlClaim(f.content, b.runs[rev.RunID].Columns)
	case strings.HasSuffix(f.named.Name, ".xlsx"):
		claims, err = workbookClaim(f.content, b.runs[rev.RunID].Columns)
	default:
		return
	}
	if err != nil {
		b.broken(where, "it cannot be read: %v", err)
		return
	}
	b.compare(claims, where, rev, in)
	b.compareAmounts(claims.amounts, where, in.sums)
}

// manifest: it names the other files as they are.
func (b *book) manifest(f reportFile, where Finding, rev Revision) {
	var m protocol.Manifest
	if err := json.Unmarshal(f.content, &m); err != nil {
		b.broken(where, "it cannot be read: %v", err)
		return
	}
	if m.RunID != rev.RunID || m.Revision != rev.Revision {
		b.broken(where, "it says that it is of revision %d of run %s", m.Revision, m.RunID)
	}
	named := map[string]protocol.ManifestFile{}
	for _, file := range m.Files {
		named[file.Name] = file
	}
	for _, file := range rev.Files {
		if file.Name == f.named.Name {
			continue
		}
		if got, ok := named[file.Name]; !ok || got.SHA256 != file.SHA256 || got.Bytes != file.Bytes {
			b.broken(where, "it has %s with the hash %s, the store has %s", file.Name, short(got.SHA256), short(file.SHA256))
		}
		delete(named, file.Name)
	}
	for _, extra := range slices.Sorted(maps.Keys(named)) {
		b.broken(where, "it names %s, which was not published", extra)
	}
}

// Changing reports whether a file beside the reports is written again: the audit's
// heads, the index, and the newest page of each job.
func Changing(name string) bool {
	return strings.HasPrefix(name, "audit/") || strings.HasPrefix(name, "latest/") || name == "index.html"
}

// looks: bytes that somebody saw are the same at each later look.
func (b *book) looks() {
	first := map[string]history.Line{}
	for _, l := range b.History {
		if l.Act != history.ActLooked || Changing(l.Name) {
			continue
		}
		b.weigh("looks", 1)
		before, seen := first[l.Name]
		if !seen {
			first[l.Name] = l
		} else if before.SHA256 != l.SHA256 {
			b.broken(Finding{File: l.Name, Line: l.Source}, "its bytes hashed to %s (%s) and now to %s", short(before.SHA256), before.Source, short(l.SHA256))
		}
	}
	for _, name := range sorted(first) {
		content, there := b.Reports[name]
		switch look := first[name]; {
		case b.said(name):
		case !there:
			b.broken(Finding{File: name, Line: look.Source}, "it was there and is gone")
		case digest(content) != look.SHA256:
			b.broken(Finding{File: name, Line: look.Source}, "its bytes hashed to %s and are now %s", short(look.SHA256), short(digest(content)))
		}
	}
}

// said: the file has a finding of this rule already.
func (b *book) said(name string) bool {
	return slices.ContainsFunc(b.found, func(f Finding) bool {
		return f.Rule == b.rule && path.Base(f.File) == path.Base(name)
	})
}
