package catalogue_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"muster/dispatcher/internal/catalogue"
	"muster/internal/protocol"
)

var zone = time.FixedZone("Asia/Shanghai", 8*3600)

// shop is a report folder with a catalogue over it, in a bubble where time is fake.
type shop struct {
	t         *testing.T
	folder    string
	log       bytes.Buffer
	catalogue *catalogue.Catalogue

	unfinished map[string]bool
	untold     error // why nobody can say which runs are unfinished
}

func setup(t *testing.T, days, runs int) *shop {
	t.Helper()
	s := &shop{t: t, folder: t.TempDir()}
	s.catalogue = catalogue.New(catalogue.Config{Folder: s.folder, Location: zone, KeepDays: days, KeepRuns: runs, Now: time.Now,
		Unfinished: func(context.Context) (map[string]bool, error) { return s.unfinished, s.untold },
		Log:        slog.New(slog.NewTextHandler(&s.log, nil)),
		Index: func(w io.Writer, at time.Time, runs []protocol.Listed) error {
			for _, run := range runs {
				_, _ = fmt.Fprintf(w, "%s %s r%d %d\n", run.Folder, run.Head.RunID, run.Head.Revision, run.Head.Targets)
			}
			return nil
		}})
	return s
}

func (s *shop) start() {
	s.t.Helper()
	if err := s.catalogue.Start(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(s.catalogue.Stop)
	synctest.Wait()
}

// publish puts down the files of a revision, as the barrier does, and says so.
func (s *shop) publish(job, run string, revision int, age time.Duration) {
	s.t.Helper()
	created := time.Now().Add(-age).In(zone)
	dir := filepath.Join(s.folder, created.Format("2006/01"))
	if err := os.MkdirAll(dir, 0o750); err != nil {
		s.t.Fatal(err)
	}
	stem := fmt.Sprintf("%s_%s_%s_r%d", created.Format("20060102-1504"), job, run, revision)
	m := protocol.Manifest{Schema: protocol.ManifestSchema, RunID: run, Job: job, Revision: revision}
	head, err := json.Marshal(protocol.ReportHead{RunID: run, Job: job, Revision: revision, CreatedAt: protocol.At(created), Targets: 7, Input: json.RawMessage("{}")})
	if err != nil {
		s.t.Fatal(err)
	}
	for ending, text := range map[string]string{".json": strings.TrimSuffix(string(head), "}") + `,"stores":[` + "\n]}\n", ".html": "page of " + stem} {
		sum := sha256.Sum256([]byte(text))
		m.Files = append(m.Files, protocol.ManifestFile{Name: stem + ending, Bytes: int64(len(text)), SHA256: hex.EncodeToString(sum[:]), MediaType: "x"})
		s.put(filepath.Join(dir, stem+ending), text)
	}
	doc, err := protocol.Encode(m)
	if err != nil {
		s.t.Fatal(err)
	}
	s.put(filepath.Join(dir, stem+"_manifest.json"), string(doc))
	s.catalogue.Published()
	synctest.Wait()
}

func (s *shop) put(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shop) text(name string) string {
	text, err := os.ReadFile(filepath.Join(s.folder, name)) //nolint:gosec // the test's own
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// runs are the runs that the index lists, and those of which there are files.
func (s *shop) runs() (listed, there []string) {
	s.t.Helper()
	for line := range strings.Lines(s.text("index.html")) {
		listed = append(listed, strings.Fields(line)[1])
	}
	err := fs.WalkDir(os.DirFS(s.folder), ".", func(name string, entry fs.DirEntry, err error) error {
		if parts := strings.Split(entry.Name(), "_"); err == nil && len(parts) > 2 && !slices.Contains(there, parts[2]) {
			there = append(there, parts[2])
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	slices.Sort(there)
	return listed, there
}

const day = 24 * time.Hour

func TestTheFolderLeadsToWhatIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(300 * day)
		s := setup(t, 0, 0)
		s.publish("probe", "OLD", 1, 91*day)
		s.publish("probe", "A", 1, 2*day)
		s.publish("count", "B", 1, day)
		s.start()
		s.publish("probe", "A", 2, 2*day)
		want := s.text("index.html")
		if lines := strings.Split(want, "\n"); len(lines) != 3 || !strings.HasSuffix(lines[0], " B r1 7") || !strings.HasSuffix(lines[1], " A r2 7") {
			t.Errorf("the index is %q", want)
		}
		if page := s.text("latest/probe.html"); !strings.HasSuffix(page, "_probe_A_r2") {
			t.Errorf("the latest page is %q", page)
		}
		s.publish("probe", "C", 1, 0)
		if page := s.text("latest/probe.html"); !strings.HasSuffix(page, "_probe_C_r1") || !strings.HasSuffix(s.text("latest/count.html"), "_count_B_r1") {
			t.Errorf("the latest page is %q", page)
		}
		if _, there := s.runs(); len(there) != 4 || s.log.Len() != 0 {
			t.Errorf("files of %v; log %s", there, &s.log)
		}
	})
}

// TestALockedPageHoldsUpNothing: a name that cannot be replaced, as of a page that
// somebody on a share has open.
func TestALockedPageHoldsUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := setup(t, 0, 0)
		locked := filepath.Join(s.folder, "latest", "probe.html", "held")
		if err := os.MkdirAll(locked, 0o750); err != nil {
			t.Fatal(err)
		}
		s.start()
		s.publish("probe", "A", 1, 0)
		s.publish("zeta", "B", 1, time.Hour)
		if listed, _ := s.runs(); fmt.Sprint(listed) != "[A B]" || !strings.HasSuffix(s.text("latest/zeta.html"), "_zeta_B_r1") {
			t.Errorf("listed %v, latest of the other job %q", listed, s.text("latest/zeta.html"))
		}
		if said := strings.Count(s.log.String(), "level=WARN"); said != 1 {
			t.Errorf("said %d times: %s", said, &s.log)
		}
		if err := os.RemoveAll(filepath.Join(s.folder, "latest", "probe.html")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if page := s.text("latest/probe.html"); !strings.HasSuffix(page, "_probe_A_r1") {
			t.Errorf("after a minute the latest page is %q", page)
		}
	})
}

func TestOldReportsGoAndTheLastStays(t *testing.T) {
	for _, c := range []struct {
		name       string
		days, runs int
		want       string
	}{
		{"nothing is told", 0, 0, "[A B C D E]"},
		{"by age", 10, 0, "[C D E]"},
		{"by count", 0, 2, "[B C D E]"},
		{"what either keeps", 10, 3, "[A B C D E]"},
		{"only the last of each job", 0, 1, "[C D E]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(1000 * day)
				s := setup(t, c.days, c.runs)
				s.publish("probe", "A", 1, 400*day)
				s.publish("probe", "A", 2, 400*day)
				s.publish("probe", "B", 1, 20*day)
				s.publish("probe", "C", 1, 5*day)
				s.publish("count", "D", 1, 500*day)
				s.publish("other", "E", 1, 30*day)
				s.start()
				if _, there := s.runs(); fmt.Sprint(there) != c.want {
					t.Errorf("there are files of %v, want %s", there, c.want)
				}
				s.catalogue.Stop()
			})
		})
	}
}

// TestOldReportsGoWhenNothingIsPublished: a quiet headquarters keeps its bound to the day.
func TestOldReportsGoWhenNothingIsPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(1000 * day)
		s := setup(t, 10, 0)
		s.publish("probe", "A", 1, 9*day)
		s.publish("probe", "B", 1, 5*day)
		s.publish("probe", "C", 1, 2*day)
		s.start()
		for _, c := range []struct {
			days int
			want string
		}{{0, "[A B C]"}, {2, "[B C]"}, {6, "[C]"}, {1000, "[C]"}} {
			time.Sleep(time.Duration(c.days) * day)
			synctest.Wait()
			if _, there := s.runs(); fmt.Sprint(there) != c.want {
				t.Errorf("%d days later there are files of %v, want %s", c.days, there, c.want)
			}
		}
		if listed, _ := s.runs(); len(listed) > 0 {
			t.Errorf("years later the index lists %v", listed)
		}
	})
}

// TestAReportThatMayBeRevisedStays: of a run whose make-up is open, or whose retry may
// still answer, no revision goes, and none does while nobody can say which those are.
func TestAReportThatMayBeRevisedStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(1000 * day)
		s := setup(t, 10, 1)
		s.untold = errors.New("the database is away")
		s.publish("probe", "A", 1, 400*day)
		s.publish("probe", "B", 1, 300*day)
		s.publish("probe", "C", 1, 200*day)
		s.start()
		if _, there := s.runs(); fmt.Sprint(there) != "[A B C]" || strings.Count(s.log.String(), "the database is away") != 1 {
			t.Errorf("there are files of %v; log %s", there, &s.log)
		}
		s.untold, s.unfinished = nil, map[string]bool{"A": true}
		time.Sleep(time.Minute)
		synctest.Wait()
		s.publish("probe", "A", 2, 400*day)
		revisions, err := filepath.Glob(filepath.Join(s.folder, "*", "*", "*_A_r[12]_manifest.json"))
		if _, there := s.runs(); fmt.Sprint(there) != "[A C]" || err != nil || len(revisions) != 2 {
			t.Errorf("there are files of %v, of A %v, %v", there, revisions, err)
		}
		s.unfinished = nil
		s.catalogue.Published()
		synctest.Wait()
		if _, there := s.runs(); fmt.Sprint(there) != "[C]" {
			t.Errorf("once it is finished there are files of %v", there)
		}
	})
}

func TestWhatIsNoManifestOfOursIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := setup(t, 1, 0)
		dir := filepath.Join(s.folder, time.Now().In(zone).Format("2006/01"))
		s.publish("probe", "A", 1, 0)
		s.put(filepath.Join(dir, "x_manifest.json"), `{"schema":"muster.manifest.v1","runId":"X","job":"probe","revision":1,"files":[{"name":"../../victim"}]}`)
		s.put(filepath.Join(dir, "y_manifest.json"), `{`)
		s.put(filepath.Join(s.folder, "victim"), "kept")
		s.start()
		if listed, _ := s.runs(); fmt.Sprint(listed) != "[A]" || s.text("victim") != "kept" || !strings.Contains(s.log.String(), "x_manifest.json") {
			t.Errorf("listed %v; log %s", listed, &s.log)
		}
	})
}

// TestARemovalThatWasCutOffGoesOn, though its manifest is hidden and some files are gone.
func TestARemovalThatWasCutOffGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(300 * day)
		s := setup(t, 10, 0)
		s.publish("probe", "A", 1, 50*day)
		s.publish("probe", "B", 1, 0)
		found, err := filepath.Glob(filepath.Join(s.folder, "*", "*", "*_A_r1_manifest.json"))
		if err != nil || len(found) != 1 {
			t.Fatalf("%v, %v", found, err)
		}
		if err := os.Rename(found[0], filepath.Join(filepath.Dir(found[0]), "."+filepath.Base(found[0])+".old")); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(strings.Replace(found[0], "_manifest.json", ".json", 1)); err != nil {
			t.Fatal(err)
		}
		s.start()
		if _, there := s.runs(); fmt.Sprint(there) != "[B]" || s.log.Len() != 0 {
			t.Errorf("there are files of %v; log %s", there, &s.log)
		}
		if _, err := os.Stat(filepath.Dir(found[0])); err == nil {
			t.Error("the empty folder of the month is still there")
		}
	})
}
