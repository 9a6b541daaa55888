package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTheReportNamesWhatWasFound: a number alone is nothing that a reader could judge.
func TestTheReportNamesWhatWasFound(t *testing.T) {
	t.Parallel()
	for want, found := range map[string][]string{
		"| **findings** | **0** |\n\nTimes are of":                                         nil,
		"| **findings** | **2** |\n\nFound:\n\n- `I7: late`\n- `I1: gone`\n\nTimes are of": {"I7: late", "I1: gone"},
	} {
		s := &soak{opts: options{duration: leastDuration, report: filepath.Join(t.TempDir(), "reliability.md")}}
		if err := s.report(t.Context(), found, figures{}); err != nil {
			t.Fatal(err)
		}
		page, err := os.ReadFile(s.opts.report)
		if err != nil || !strings.Contains(string(page), want) {
			t.Errorf("%v: there is no %q in\n%s", err, want, page)
		}
	}
}
