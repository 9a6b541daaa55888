package checker

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"muster/internal/protocol"
	"muster/internal/task"
)

// missingTold bounds the stores that a summary names.
const missingTold = 100

// firstFile: it is told when the JSON file is there, before the others are.
func firstFile(s protocol.Summary) bool {
	return len(s.Files) == 1 && strings.HasSuffix(s.Files[0].Name, fmt.Sprintf("_r%d%s", s.Revision, endings[0]))
}

// summaryTold compares a summary with the database. That of a run with very many
// targets may come before its revision is published, which must follow.
func (b *book) summaryTold(t telling, run Run) {
	where := Finding{Run: t.run, Line: t.Source}
	s := t.summary
	i := slices.IndexFunc(b.Store.Revisions, func(r Revision) bool { return r.RunID == t.run && r.Revision == s.Revision && r.Complete != 0 })
	early := firstFile(s) && run.Targets > b.limits.LargeAbove
	due := t.AtMs // by when it is published
	if early {
		b.weigh("early summaries", 1)
		due = max(t.AtMs, b.lastFault()) + ms(b.limits.Settle)
	}
	if i < 0 || b.Store.Revisions[i].PublishedAt == 0 {
		if b.Store.TakenAt >= due {
			b.broken(where, "its summary speaks of revision %d, which is not published", s.Revision)
		}
		if i < 0 || !early {
			return
		}
	}
	rows := b.judged(t.run, s.Revision)
	var counts protocol.Counts
	var missing []string
	for _, id := range sorted(rows) {
		counts.Add(rows[id].Outcome)
		if rows[id].Outcome != task.OutcomeSucceeded && len(missing) < missingTold {
			missing = append(missing, id)
		}
	}
	if s.Counts != counts || s.Targets != run.Targets {
		b.broken(where, "its summary of revision %d counts %s of %d targets, the store has %s of %d",
			s.Revision, bucketText(s.Counts), s.Targets, bucketText(counts), run.Targets)
	}
	if (s.Verdict == protocol.VerdictComplete) != (counts.Succeeded == run.Targets) {
		b.broken(where, "its summary of revision %d says %q, the store has %s", s.Revision, s.Verdict, bucketText(counts))
	}
	if !slices.Equal(s.Missing, missing) {
		b.broken(where, "its summary of revision %d misses %q, the store has %q",
			s.Revision, clip(strings.Join(s.Missing, " ")), clip(strings.Join(missing, " ")))
	}
	b.summaryFiles(where, s, b.Store.Revisions[i], early)
}

// summaryFiles: those that it names are those that were published, or the first of
// them.
func (b *book) summaryFiles(where Finding, s protocol.Summary, rev Revision, early bool) {
	want := rev.Files
	switch {
	case early && rev.PublishedAt == 0:
		want = b.written(s.Files[0].Name)
	case early:
		want = slices.DeleteFunc(slices.Clone(want), func(f protocol.ManifestFile) bool { return f.Name != s.Files[0].Name })
	}
	same := func(a, c protocol.ManifestFile) bool {
		return a.Name == c.Name && a.SHA256 == c.SHA256 && a.Bytes == c.Bytes
	}
	if !slices.EqualFunc(s.Files, want, same) {
		b.broken(where, "its summary of revision %d names other files than were published", s.Revision)
	}
}

// written is the file of that name in the report folder, if it is there.
func (b *book) written(name string) (files []protocol.ManifestFile) {
	for at, content := range b.Reports {
		if path.Base(at) == name {
			files = append(files, protocol.ManifestFile{Name: name, Bytes: int64(len(content)), SHA256: digest(content)})
		}
	}
	return files
}
