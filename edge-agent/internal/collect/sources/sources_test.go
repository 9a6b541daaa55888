package sources_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/edge-agent/internal/collect/sources"
)

func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func find(t *testing.T, pattern string, siblings bool) (names []string, problem *sources.Problem) {
	t.Helper()
	glob, err := sources.NewGlob(pattern, siblings)
	if err != nil {
		t.Fatal(err)
	}
	found, err := glob.Find(t.Context(), 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range found.Files {
		names = append(names, filepath.Base(match.Path))
	}
	return names, found.Problem
}

func TestFindTakesRotatedSiblings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	siblings := []string{
		"app.log", "app.log.1", "app.log.2.gz", "app.log.12", "app-2026-09-17.log", "app.log.2026-09-17", "app.log-20260917",
		"app.log-20260917.gz", "app_20260917.log", "app.2026-09-17.log", "app.2026-09-17.1.log", "app-2026-09-17.log.gz", "app.1.log",
		"app.log.old", "app.log.bak", "app.log.2026-09-17-13", "app-2026-09-17T07-30-00.000.log", "2026-09-17_app.log", "app20260917.log",
		"app.log.2026-09-17.gz", "app.log.1.bz2", "app.log.gz", "app.log.zst", "app.log.2026091707",
	}
	strangers := []string{
		"app2.log", "application.log", "app-pay.log", "myapp.log", "app.log.lock", "app.logx", "app.txt", "app", "app-pay-2026-09-17.log",
		"app-2.log", "app.log.tmp", "app.log.1.tmp", "err.log", ".app.log.swp",
	}
	for _, name := range append(append([]string{}, siblings...), strangers...) {
		write(t, filepath.Join(dir, name), name)
	}
	got, problem := find(t, filepath.Join(dir, "app.log"), true)
	if problem != nil {
		t.Errorf("problem %v", problem)
	}
	have := "|" + strings.Join(got, "|") + "|"
	for _, name := range siblings {
		if !strings.Contains(have, "|"+name+"|") {
			t.Errorf("%s was not found", name)
		}
	}
	for _, name := range strangers {
		if strings.Contains(have, "|"+name+"|") {
			t.Errorf("%s was found", name)
		}
	}
	if alone, _ := find(t, filepath.Join(dir, "app.log"), false); len(alone) != 1 {
		t.Errorf("without siblings: %v", alone)
	}
}

func TestFindPatterns(t *testing.T) { // not parallel: it changes the working directory
	dir := filepath.Join(t.TempDir(), "a [b]{c}")
	for _, name := range []string{"x/pos.log", "x/y/pos.log.1", "x/y/z/pay.log", "x/pay.txt", "日志/收银.log", "日志/收银.log.1"} {
		write(t, filepath.Join(dir, name), "")
	}
	t.Chdir(dir)
	for pattern, want := range map[string]string{
		"**/*.log": "pay.log pos.log pos.log.1 收银.log 收银.log.1", "x/**/pos.log": "pos.log pos.log.1", "x/*.{log,txt}": "pay.txt pos.log",
		"x/p??.log": "pos.log", "x/[p]os.log": "pos.log", "日志/*.log": "收银.log 收银.log.1", "x/**": "pay.log pay.txt pos.log pos.log.1", "./x/pos.log": "pos.log",
	} {
		got, _ := find(t, pattern, true)
		if len(strings.Fields(want)) != len(got) {
			t.Errorf("%s: got %v, want %s", pattern, got, want)
		}
		for _, name := range got {
			if !strings.Contains(want, name) {
				t.Errorf("%s: got %s", pattern, name)
			}
		}
	}
}

func TestFindSaysWhyNone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for pattern, detail := range map[string]string{
		filepath.Join(dir, "*.log"):         "no file matches",
		filepath.Join(dir, "none", "*.log"): "no such file or directory",
		filepath.Join(dir, "none", "a.log"): "no such file or directory",
	} {
		_, problem := find(t, pattern, true)
		if problem == nil || problem.Code != sources.NoMatch || !strings.Contains(problem.Detail, detail) {
			t.Errorf("%s: got %v", pattern, problem)
		}
	}
}

func TestNewGlobRefuses(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"", " ", "/var/log/[", "/var/{a", "/var/log/", "a/\\"} {
		if _, err := sources.NewGlob(pattern, true); err == nil {
			t.Errorf("%q was accepted", pattern)
		}
	}
}

func TestFindIsBoundedAndCancelled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range strings.Fields("a b c d") {
		write(t, filepath.Join(dir, name+".log"), "")
	}
	glob, err := sources.NewGlob(filepath.Join(dir, "*.log"), true)
	if err != nil {
		t.Fatal(err)
	}
	if found, err := glob.Find(t.Context(), 3); len(found.Files) != 3 || !found.More || err != nil {
		t.Errorf("%d found, more %v, %v", len(found.Files), found.More, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := glob.Find(ctx, 3); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestOpenReadsNoMoreThanThereWas(t *testing.T) {
	t.Parallel()
	path := write(t, filepath.Join(t.TempDir(), "a.log"), "12345")
	file, problem := sources.Open(t.Context(), path, 1<<20)
	if problem != nil {
		t.Fatal(problem)
	}
	write(t, path, "1234567890")
	content, err := io.ReadAll(file)
	if err != nil || len(content) != 5 {
		t.Errorf("got %q, %v", content, err)
	}
	summary, err := file.Finish()
	if err != nil || summary.Bytes != 5 || len(summary.Problems) != 1 || summary.Problems[0].Code != sources.Grew {
		t.Errorf("got %+v, %v", summary, err)
	}
	// The hash is that of the five bytes.
	if want := "5994471abb01112afcc18159f6cc74b4f511b99806da59b3caf5a9c173cacfc5"; summary.SHA256 != want {
		t.Errorf("got %s", summary.SHA256)
	}
}

func TestDayInName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"app-2026-09-17.log": "2026-09-17", "app.log.20260917.gz": "2026-09-17", "app_2026.09.17.log": "2026-09-17", "/x/2025-01-01/app.log": "",
		"app.log": "", "app-99999999.log": "", "app-2026-13-01.log": "", "order202609171234567.log": "",
	} {
		got := ""
		if day := sources.DayInName(name); !day.IsZero() {
			got = day.Format(time.DateOnly)
		}
		if got != want {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestFinishSaysWhatChanged(t *testing.T) {
	t.Parallel()
	for code, change := range map[string]func(path string) error{
		sources.Shrank:  func(path string) error { return os.Truncate(path, 3) },
		sources.Rotated: func(path string) error { return os.Rename(path, path+".1") },
		sources.Grew: func(path string) error {
			return os.WriteFile(path, []byte(strings.Repeat("y", 300_000)), 0o600)
		},
	} {
		path := write(t, filepath.Join(t.TempDir(), "a.log"), strings.Repeat("x", 200_000))
		file, problem := sources.Open(t.Context(), path, 1<<20)
		if problem != nil {
			t.Fatal(problem)
		}
		if _, err := io.ReadFull(file, make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		if err := change(path); err != nil {
			t.Fatal(err)
		}
		summary, err := file.Finish()
		if err != nil || len(summary.Problems) != 1 || summary.Problems[0].Code != code {
			t.Errorf("%s: got %+v, %v", code, summary, err)
		}
		if summary.Bytes > 200_000 || code != sources.Shrank && summary.Bytes != 200_000 {
			t.Errorf("%s: %d bytes", code, summary.Bytes)
		}
	}
}
