package barrier

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"runtime/debug"
	"slices"

	"muster/dispatcher/internal/store"
	"muster/dispatcher/internal/transport"
	"muster/internal/protocol"
)

// missingShown bounds the store ids in a summary, which must stay small enough
// to be retained for every run.
const missingShown = 100

// largeAbove is from how many targets on the summary does not wait for all files.
// Those of fewer are written in some tenths of a second, and one word is enough.
const largeAbove = 5000

// outputWork prepares the publication of the run's next revision. Its summary is
// another errand, so that a broker that takes none holds up no files.
func (b *Barrier) outputWork(ctx context.Context, r *run) func() (func(), error) {
	id, revision := r.id, r.published+1
	early := func(say func() error) { b.post(func() { r.word = &word{say}; b.arrange(r) }) }
	return func() (func(), error) {
		next, say, err := b.publish(ctx, id, revision, early)
		return func() {
			r.has(next)
			if next == 0 {
				r.word = &word{say}
			}
			r.published = max(r.published, revision, next-1)
		}, err
	}
}

// publish brings one revision out, one at a time: the files, the JSON file first and
// the manifest last, then the mark in the store. It returns what says the retained
// summary, which a large one has given to early, too, as soon as the JSON file is
// there: nobody is to wait for the other formats. Everything is made from the store
// alone, so that whatever was lost on the way is made again with the same bytes. A
// revision that was marked before has only its summary said again. One whose number
// is taken by a revision that the store does not know is reissued under next, else
// next is 0.
func (b *Barrier) publish(ctx context.Context, id string, revision int, early func(func() error)) (next int, summarise func() error, err error) {
	if !enter(ctx, b.writing) {
		return 0, nil, ctx.Err()
	}
	defer leave(b.writing)
	run, revisions, err := b.find(ctx, id, revision)
	if err != nil {
		return 0, nil, err
	}
	rev := &revisions[len(revisions)-1]
	if !rev.PublishedAt.IsZero() {
		return 0, func() error { return b.summariseAgain(ctx, &run, revisions) }, nil
	}
	head, in, err := b.build(ctx, &run, revisions, keptBytes)
	if err != nil {
		return 0, nil, err
	}
	if err := b.deps.Reporter.Check(head, in.rows); err != nil {
		return 0, nil, err
	}
	files, err := b.writeFiles(ctx, head, in, early)
	if unknown, ok := errors.AsType[*unknownRevisions](err); ok {
		next, err = b.reissue(ctx, id, revision, unknown.highest)
		return next, nil, err
	}
	if err != nil {
		return 0, nil, err
	}
	if err := b.deps.Publications.MarkPublished(ctx, id, revision, files, b.deps.Now()); err != nil {
		return 0, nil, fmt.Errorf("cannot mark revision %d of run %s as published: %w", revision, id, err)
	}
	b.deps.Published()
	b.deps.Log.Info("revision published", "run_id", id, "revision", revision, "verdict", head.Verdict, "files", len(files))
	missing := in.missing
	return 0, func() error {
		if err := b.summarise(ctx, head, missing, files); err != nil {
			return err
		}
		b.say(ctx, &head)
		return nil
	}, nil
}

// say tells those who look on what a revision amounts to. Nobody depends on it.
func (b *Barrier) say(ctx context.Context, head *protocol.ReportHead) {
	topic := b.deps.Sender.Topics().Run(head.RunID, protocol.RunText)
	text := fmt.Sprintf("Run %s, report %d. %s\n批次 %s，第 %d 版报告。%s", head.RunID, head.Revision, head.Text, head.RunID, head.Revision, head.TextZh)
	if err := b.deps.Sender.Text(ctx, topic, text); err != nil {
		b.deps.Log.Info("cannot tell what a report amounts to; its summary does", "run_id", head.RunID, "error", err)
	}
}

// summariseAgain says the summary of the last of the revisions, which is published.
func (b *Barrier) summariseAgain(ctx context.Context, run *store.Run, revisions []store.Revision) error {
	head, in, err := b.build(ctx, run, revisions, 0)
	if err != nil {
		return err
	}
	return b.summarise(ctx, head, in.missing, revisions[len(revisions)-1].Files)
}

// voiceWork prepares to say the summary of what was published, or else the newest one
// again. The latter is not tried again when it fails, since a broker that is away is
// told when it is back, and raises no alarm.
func (b *Barrier) voiceWork(ctx context.Context, r *run) func() (func(), error) {
	id, asked, fresh := r.id, r.asked, r.word
	return func() (func(), error) {
		if fresh != nil {
			return func() {
				r.told = asked
				if r.word == fresh { // and none that is newer
					r.word = nil
				}
			}, fresh.say()
		}
		_, err := b.survive(id, 0, func() (func(), error) { return nil, b.tell(ctx, id) })
		if err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrClosed) {
			b.deps.Log.Info("cannot say a summary again; that is tried when the broker is reached anew", "run_id", id, "error", err)
		}
		return func() { r.told = asked }, nil
	}
}

// tell says again the summary of the newest revision that is marked as published.
// One that was passed over has none. A newer one whose summary came before its mark is
// said again with every try to publish it, and no older one after it.
func (b *Barrier) tell(ctx context.Context, id string) error {
	if !enter(ctx, b.telling) {
		return ctx.Err()
	}
	defer leave(b.telling)
	run, err := b.deps.Runs.GetRun(ctx, id)
	if err != nil {
		return err
	}
	list, err := b.deps.Publications.ListRevisions(ctx, id)
	for len(list) > 0 && list[len(list)-1].PublishedAt.IsZero() {
		if early, err := b.saidEarly(&run, &list[len(list)-1]); early || err != nil {
			return err
		}
		list = list[:len(list)-1]
	}
	if err != nil || len(list) == 0 || len(list[len(list)-1].Files) == 0 {
		return err
	}
	return b.summariseAgain(ctx, &run, list)
}

// saidEarly reports whether the summary of a revision that is not published was said:
// its JSON file is there.
func (b *Barrier) saidEarly(run *store.Run, rev *store.Revision) (bool, error) {
	if run.Targets <= largeAbove {
		return false, nil
	}
	head := b.facts(run, rev)
	dir, stem, err := b.place(&head)
	if err != nil {
		return false, err
	}
	folder, err := openFolder(b.cfg.Folder)
	if err != nil {
		return false, err
	}
	defer folder.close()
	early, err := folder.says(path.Join(dir, stem+"."+telling), run.RunID, rev.Revision)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return early, err
}

// find returns the run with its revisions up to this one.
func (b *Barrier) find(ctx context.Context, id string, revision int) (store.Run, []store.Revision, error) {
	run, err := b.deps.Runs.GetRun(ctx, id)
	if err != nil {
		return run, nil, err
	}
	list, err := b.deps.Publications.ListRevisions(ctx, id)
	if err != nil {
		return run, nil, err
	}
	for i := range list {
		if list[i].Revision == revision {
			return run, list[:i+1], nil
		}
	}
	return run, nil, fmt.Errorf("cannot publish revision %d of run %s: %w", revision, id, store.ErrNotFound)
}

// build makes the head of the last of the revisions, and reads its rows, of which so
// many bytes may be kept.
func (b *Barrier) build(ctx context.Context, run *store.Run, revisions []store.Revision, limit int) (protocol.ReportHead, *shelf, error) {
	rev := &revisions[len(revisions)-1]
	in := &shelf{load: b.deps.Revisions.LoadRows(ctx, run.RunID, rev.Revision), limit: limit}
	var previous iter.Seq2[json.RawMessage, error]
	if rev.Revision > 1 {
		before := shelf{load: b.deps.Revisions.LoadRows(ctx, run.RunID, rev.Revision-1)}
		previous = before.rows
	}
	if rev.PublishedAt.IsZero() { // a summary alone does not tell
		var err error
		if in.before, err = b.compareWith(ctx, rev); err != nil {
			return protocol.ReportHead{}, nil, err
		}
	}
	head, err := b.deps.Reporter.Build(b.facts(run, rev), in.rows, previous)
	head.Previous = in.before.previous()
	if first := firstUnknown(revisions); first > 0 {
		explain(&head, first)
	}
	return head, in, err
}

// facts is the head of a report as far as the run and the revision know it.
func (b *Barrier) facts(run *store.Run, rev *store.Revision) protocol.ReportHead {
	zone := b.cfg.Location
	return protocol.ReportHead{
		RunID: run.RunID, Job: run.Job, JobVersion: run.JobVersion, Input: run.Input,
		RequestedBy: run.RequestedBy, ApprovedBy: run.ApprovedBy, Reason: run.Reason,
		Revision: rev.Revision, RevisionWhy: protocol.RevisionWhy(rev.Why), Quorum: run.Policy.Quorum,
		CreatedAt: in(protocol.At(run.CreatedAt), zone), BarrierAt: in(protocol.At(run.BarrierAt), zone),
		AsOf: in(protocol.At(rev.AsOf), zone), TimeZone: zone.String(),
		Targets: run.Targets, Columns: run.Columns,
	}
}

// place is where the files of a revision go: the month's folder, and the stem
// that all revisions of a run share but for its end.
func (b *Barrier) place(head *protocol.ReportHead) (dir, stem string, err error) {
	if !protocol.ValidID(head.RunID) || !protocol.ValidID(head.Job) {
		return "", "", fmt.Errorf("cannot name a file after run %q and job %q", head.RunID, head.Job)
	}
	at := head.CreatedAt
	return at.Format("2006/01"), fmt.Sprintf("%s_%s_%s_r%d", at.Format("20060102-1504"), head.Job, head.RunID, head.Revision), nil
}

// writeFiles writes every format and, last, the manifest.
func (b *Barrier) writeFiles(ctx context.Context, head protocol.ReportHead, in *shelf, early func(func() error)) ([]protocol.ManifestFile, error) {
	dir, stem, err := b.place(&head)
	if err != nil {
		return nil, err
	}
	folder, err := openFolder(b.cfg.Folder)
	if err != nil {
		return nil, err
	}
	defer folder.close()
	var files []protocol.ManifestFile
	for _, format := range b.deps.Reporter.Formats() {
		file, err := b.writeFile(folder, dir, stem, format, head, in)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
		if format.Ext == telling && head.Targets > largeAbove {
			missing, first := in.missing, slices.Clone(files)
			early(func() error { return b.summarise(ctx, head, missing, first) })
		}
	}
	manifest, err := protocol.Encode(protocol.Manifest{Schema: protocol.ManifestSchema, RunID: head.RunID, Job: head.Job,
		Revision: head.Revision, Reason: head.RevisionWhy, Supersedes: head.Supersedes, AsOf: head.AsOf, Files: files})
	if err != nil {
		return nil, err
	}
	file, err := folder.put(dir, stem+"_manifest.json", protocol.FileFormat{MediaType: "application/json"}, func(w io.Writer) error {
		_, err := w.Write(append(manifest, '\n'))
		return err
	})
	return append(files, file), err
}

func (b *Barrier) writeFile(folder *folder, dir, stem string, format protocol.FileFormat, head protocol.ReportHead, in *shelf) (protocol.ManifestFile, error) {
	file, err := folder.put(dir, stem+"."+format.Ext, format, func(w io.Writer) (err error) {
		defer func() {
			if cause := recover(); cause != nil { // it says which file
				b.deps.Log.Error("a report's file panicked", "run_id", head.RunID, "format", format.Ext, "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
				err = panicked(cause)
			}
		}()
		return b.deps.Reporter.Write(w, format.Ext, head, in.rows)
	})
	if errors.Is(err, errTaken) && format.Ext == telling {
		err = cmp.Or(folder.unknown(dir, stem, &head), err)
	}
	return file, err
}

// summarise publishes the retained summary, which names the files that are there.
func (b *Barrier) summarise(ctx context.Context, head protocol.ReportHead, missing []string, files []protocol.ManifestFile) error {
	dir, _, err := b.place(&head)
	if err != nil {
		return err
	}
	summary := protocol.Summary{
		Meta: b.deps.Sender.Meta(), RunID: head.RunID, Job: head.Job, ApprovedBy: head.ApprovedBy, Revision: head.Revision, Verdict: head.Verdict,
		AsOf: head.AsOf, BarrierAt: head.BarrierAt, Targets: head.Targets, Counts: head.Counts, Missing: missing,
		Folder: dir, Files: files, Text: head.Text, TextZh: head.TextZh,
	}
	topic := b.deps.Sender.Topics().Run(head.RunID, protocol.RunSummary)
	return b.deps.Sender.JSON(ctx, topic, summary, transport.Options{Retain: true})
}
