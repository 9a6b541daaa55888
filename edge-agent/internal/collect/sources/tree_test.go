package sources_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/edge-agent/internal/collect/sources"
)

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
}

func TestFindGoesIntoNoLinkedFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "app/real/pos.log"), "")
	write(t, filepath.Join(dir, "elsewhere/pay.log"), "")
	link(t, "..", filepath.Join(dir, "app/real/up"))
	link(t, dir, filepath.Join(dir, "app/root"))
	link(t, "../elsewhere", filepath.Join(dir, "app/linked"))
	link(t, "real/pos.log", filepath.Join(dir, "app/now.log"))
	for pattern, want := range map[string]string{
		"app/**/*.log": "now.log pos.log", "app/*/*.log": "pos.log", "**/pos.log": "pos.log",
		// Before the first wildcard a link is as good as its target.
		"app/linked/*.log": "pay.log", "app/linked/pay.log": "pay.log", "app/now.log": "now.log",
		// A link that is named is found, to be told of.
		"app/real/*": "pos.log up",
	} {
		got, problem := find(t, filepath.Join(dir, pattern), false)
		if slices.Sort(got); strings.Join(got, " ") != want || problem != nil {
			t.Errorf("%s: got %v, want %s; problem %v", pattern, got, want, problem)
		}
	}
}

func TestFindIsBrokenOffAtItsBounds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 40 {
		for j := range 50 {
			write(t, filepath.Join(dir, fmt.Sprintf("d%02d", i), fmt.Sprintf("f%02d.txt", j)), "")
		}
	}
	write(t, filepath.Join(dir, "d00", "pos.log"), "")
	glob, err := sources.NewGlob(filepath.Join(dir, "**/pos.log"), true)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		entries int
		most    time.Duration
		found   int
		detail  string
	}{
		{4082, time.Minute, 1, ""}, // every folder is read twice: for what is in it, and for its folders,
		{4081, time.Minute, 1, "broken off after 4081 names; files may be missing"},
		{500, time.Minute, 1, "broken off after 500 names; files may be missing"},
		{100_000, -1, 0, "broken off after -1ns; files may be missing"},
	} {
		got, err := glob.FindWithin(t.Context(), 10, c.entries, c.most)
		if err != nil || len(got.Files) != c.found {
			t.Errorf("%d names in %v: found %v, %v", c.entries, c.most, got.Files, err)
		}
		switch {
		case c.detail == "" && got.Problem != nil:
			t.Errorf("%d names in %v: problem %v", c.entries, c.most, got.Problem)
		case c.detail != "" && (got.Problem == nil || *got.Problem != sources.Problem{Code: sources.SearchCut, Detail: c.detail}):
			t.Errorf("%d names in %v: problem %v, want %s", c.entries, c.most, got.Problem, c.detail)
		}
	}
}

// TestFindOverTheWholeDiskEnds: whoever configures "/**/x.log" gets an answer
// in time, and is told what it is worth.
func TestFindOverTheWholeDiskEnds(t *testing.T) {
	t.Parallel()
	root := filepath.VolumeName(t.TempDir()) + string(filepath.Separator)
	glob, err := sources.NewGlob(root+"**/there-is-no-such.log", true)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	found, err := glob.FindWithin(t.Context(), 10, 20_000, 2*time.Second)
	if took := time.Since(began); took > 10*time.Second || err != nil {
		t.Errorf("took %v, %v", took, err)
	}
	if len(found.Files) != 0 || found.Problem == nil {
		t.Errorf("found %v, problem %v", found.Files, found.Problem)
	}
}
