package barrier

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
)

const (
	// telling is the ending of the format in which a report says of which revision
	// it is. It is written first.
	telling = "json"
	// headBytes bounds how far a file is read until it says so: what stands before
	// is the input of a run and who asked for it, which came in one message.
	headBytes = protocol.MaxPayloadBytes + 64<<10
	// farthest bounds how far the name of a file can move the next number, since a
	// name is easily made up: more revisions than a run has in a week.
	farthest = 10_000
)

// unknownRevisions: files of this run that the store knows nothing of have the
// revision's number, as after a restore from a backup. They stay.
type unknownRevisions struct{ highest int }

// Error says up to which number.
func (u *unknownRevisions) Error() string {
	return fmt.Sprintf("the report folder holds other revisions of the run, up to %d", u.highest)
}

// reissue gives the revision, and those after it that are not published either, a
// number above what is in the folder.
func (b *Barrier) reissue(ctx context.Context, id string, revision, highest int) (int, error) {
	next, err := b.deps.Publications.Reissue(ctx, id, highest, b.deps.Now())
	if err != nil {
		return 0, fmt.Errorf("cannot publish revision %d of run %s, whose number is taken: %w", revision, id, err)
	}
	b.deps.Log.Warn("the report folder holds revisions that the database does not know, as after a restore", "run_id", id,
		"revision", revision, "highest", highest, "goes_on_with", next)
	return next, nil
}

// unknown looks whether the file that has the name is of the same revision of the
// same run, and if so returns *unknownRevisions. One that says nothing of the kind
// is somebody's, and no error.
func (f *folder) unknown(dir, stem string, head *protocol.ReportHead) error {
	same, err := f.says(path.Join(dir, stem+"."+telling), head.RunID, head.Revision)
	if err != nil || !same {
		return err
	}
	highest, err := f.highest(dir, strings.TrimSuffix(stem, strconv.Itoa(head.Revision)), head.Revision)
	if err != nil {
		return fmt.Errorf("cannot look for revisions of run %s: %w", head.RunID, err)
	}
	return &unknownRevisions{highest}
}

// says reports whether the file calls itself this revision of this run.
func (f *folder) says(name, runID string, revision int) (bool, error) {
	if info, err := f.root.Stat(name); err != nil || !info.Mode().IsRegular() {
		return false, err
	}
	file, err := f.root.Open(name)
	if err != nil {
		return false, err
	}
	defer func() { _ = file.Close() }()
	var said protocol.ReportHead
	members := map[string]any{"schema": &said.Schema, "runId": &said.RunID, "revision": &said.Revision}
	in := json.NewDecoder(io.LimitReader(file, headBytes))
	if open, err := in.Token(); err != nil || open != json.Delim('{') {
		return false, nil
	}
	for len(members) > 0 && in.More() {
		member, err := in.Token()
		if err != nil {
			return false, nil
		}
		name, _ := member.(string)
		into, wanted := members[name]
		if !wanted {
			into = new(json.RawMessage)
		}
		if in.Decode(into) != nil {
			return false, nil
		}
		delete(members, name)
	}
	return said.Schema == protocol.ReportSchema && said.RunID == runID && said.Revision == revision, nil
}

// highest is the highest number above revision, or itself, that the name of a file
// in dir bears behind the prefix.
func (f *folder) highest(dir, prefix string, revision int) (int, error) {
	opened, err := f.root.Open(dir)
	if err != nil {
		return 0, err
	}
	defer func() { _ = opened.Close() }()
	names, err := opened.Readdirnames(-1)
	highest := revision
	for _, name := range names {
		rest, ours := strings.CutPrefix(name, prefix)
		end := strings.IndexAny(rest, "._")
		if !ours || end < 0 {
			continue
		}
		if n, err := strconv.Atoi(rest[:end]); err == nil && n <= revision+farthest {
			highest = max(highest, n)
		}
	}
	return highest, err
}

// firstUnknown is the first of the numbers directly below the last of the
// revisions that were passed over: published, as it were, without a file. It is 0
// when there is none.
func firstUnknown(revisions []store.Revision) (first int) {
	for i := len(revisions) - 2; i >= 0; i-- {
		if rev := &revisions[i]; rev.PublishedAt.IsZero() || len(rev.Files) > 0 {
			break
		}
		first = revisions[i].Revision
	}
	return first
}

// explain says in the head why its number is not the next one. Nothing here knows
// what it supersedes, nor what changed since.
func explain(head *protocol.ReportHead, first int) {
	which, whichZh := fmt.Sprintf("revision %d", first), fmt.Sprintf("第 %d 版", first)
	if last := head.Revision - 1; last > first {
		which, whichZh = fmt.Sprintf("revisions %d to %d", first, last), fmt.Sprintf("第 %d 至 %d 版", first, last)
	}
	head.Supersedes = nil
	head.Text += fmt.Sprintf(" What stands in the report folder as %s is not from headquarters' database, as after a restore from a backup:"+
		" this revision takes its place, and what changed since is not listed.", which)
	head.TextZh += fmt.Sprintf("报告文件夹中的%s并非出自总部现有的数据库（例如从备份恢复之后）：本版取而代之，与其差异未列出。", whichZh)
}
