package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/dispatcher/internal/store"
	"muster/internal/protocol"
)

// series is how the run's revisions stand: published with so many files, or waiting.
func (b *bundle) series() string {
	b.t.Helper()
	list, err := b.ListRevisions(b.t.Context(), "R")
	if err != nil {
		b.t.Fatal(err)
	}
	var said []string
	for _, rev := range list {
		one := fmt.Sprintf("r%d:%d", rev.Revision, len(rev.Files))
		if rev.PublishedAt.IsZero() {
			one = fmt.Sprintf("r%d:waits", rev.Revision)
		}
		said = append(said, one)
	}
	return strings.Join(said, " ")
}

func (b *bundle) published(revision int) {
	b.t.Helper()
	if err := b.MarkPublished(b.t.Context(), "R", revision, []protocol.ManifestFile{{Name: "a"}}, later); err != nil {
		b.t.Fatal(err)
	}
}

// TestReissuedRevisionSaysWhatTheNewestSaysUnderANumberOfItsOwn, above what is
// passed over, and the next one follows it.
func TestReissuedRevisionSaysWhatTheNewestSaysUnderANumberOfItsOwn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name             string
		published, waits int // revisions
		highest          int
		want             string
	}{
		{"the first", 0, 1, 1, "r1:0 r2:waits"},
		{"above others", 0, 1, 3, "r1:0 r2:0 r3:0 r4:waits"},
		{"after one that stands", 1, 1, 2, "r1:1 r2:0 r3:waits"},
		{"several that wait", 1, 3, 2, "r1:1 r2:0 r3:0 r4:0 r5:waits"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			var told []store.Change
			b.Observe(func(changes []store.Change) { told = append(told, changes...) })
			b.create(3)
			rows := b.judged(b.barrier(at(time.Hour)))
			for n := 1; n <= c.published+c.waits; n++ {
				b.revise(n, rows)
				rows = nil
				if n <= c.published {
					b.published(n)
				}
			}
			next, err := b.Reissue(t.Context(), "R", c.highest, later)
			if err != nil || b.series() != c.want || !strings.HasSuffix(c.want, fmt.Sprintf("r%d:waits", next)) {
				t.Fatalf("%d, %v: %s", next, err, b.series())
			}
			list, err := b.UnpublishedRevisions(t.Context())
			if err != nil || len(list) != 1 || list[0].Revision != next || list[0].Why != "barrier" || !list[0].AsOf.Equal(at(time.Hour)) {
				t.Errorf("to be published: %+v, %v", list, err)
			}
			if got, first := b.loaded(next), b.loaded(1); len(got) != 3 || fmt.Sprint(got) != fmt.Sprint(first) {
				t.Errorf("it says %v", got)
			}
			b.published(next)
			b.revise(next+1, nil)
			if run, err := b.GetRun(t.Context(), "R"); err != nil || run.Revision != next+1 {
				t.Errorf("the newest is %d, %v", run.Revision, err)
			}
			b.close()
			if !slices.ContainsFunc(told, func(change store.Change) bool { return change.Kind == store.RevisionReady && change.Revision == next }) {
				t.Errorf("observers heard %+v", told)
			}
			b.open()
		})
	}
}

func TestReissueIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create(2)
	reissue := func(run, want string) {
		t.Helper()
		before := b.series()
		if _, err := b.Reissue(t.Context(), run, 1, later); err == nil || !strings.Contains(err.Error(), want) || b.series() != before {
			t.Errorf("%v, %s", err, b.series())
		}
	}
	reissue("none", "not found")
	reissue("R", "every revision is published")
	rows := b.judged(b.barrier(at(time.Hour)))
	b.revise(1, rows)
	unfit := store.NewRevision{RunID: "R", Revision: 2, Why: "late_results", Rows: append(rows[:1:1], rows[0])}
	if err := b.AddRevision(t.Context(), unfit, later); err == nil {
		t.Fatal("a store was stored twice in one revision")
	}
	reissue("R", "another revision is being stored")
	b.revise(2, nil)
	b.published(1)
	b.published(2)
	reissue("R", "every revision is published")
	if err := b.AddRevision(t.Context(), store.NewRevision{RunID: "R", Revision: 2}, later); !errors.Is(err, store.ErrExists) {
		t.Error(err)
	}
}
