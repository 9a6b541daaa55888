package alarm_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"muster/dispatcher/internal/alarm"
	"muster/internal/protocol"
)

// TestEveryKindHasAHint: every kind that the sources name, and that the documentation
// lists.
func TestEveryKindHasAHint(t *testing.T) {
	named := map[string]bool{"disk_full": true, "barrier_stuck": true, "report_not_published": true, "summary_not_published": true}
	constant := regexp.MustCompile(`\b[aA]larm[A-Z]\w*\s*= "([a-z_]+)"`)
	for _, root := range []string{"../..", "../../../internal/protocol"} {
		err := filepath.WalkDir(root, func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, found := range constant.FindAllStringSubmatch(string(text), -1) {
				named[found[1]] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	codes, err := os.ReadFile("../../../docs/protocol/codes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(codes), "## Kinds of alarms")
	table, _, _ = strings.Cut(table, "\n## ")
	listed := map[string]bool{}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			continue
		}
		for _, found := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cells[1], -1) {
			listed[found[1]] = true
		}
	}
	if len(named) < 14 || len(listed) < 9 {
		t.Fatalf("too few kinds were found: %v, %v", named, listed)
	}
	for kind := range named {
		if len(alarm.Hint(kind)) < 20 {
			t.Errorf("%s has no hint", kind)
		}
	}
	for _, kind := range alarm.Kinds() {
		if !named[kind] {
			t.Errorf("%s is no kind that headquarters raises", kind)
		}
		if !listed[kind] {
			t.Errorf("%s is not in docs/protocol/codes.md", kind)
		}
	}
}

func TestABookTellsWhatTheLifeBeforeLeftOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "alarms.json")
	a := func(subject string) alarm.Alarm {
		return alarm.Alarm{Severity: protocol.SeverityCritical, Kind: "report_not_published", Subject: subject}
	}
	book := open(t, path)
	for _, subject := range []string{"run 1", "run 2", "run 3", "run 4"} {
		note(t, book, a(subject), false)
	}
	note(t, book, a("run 4"), true)
	note(t, book, alarm.Alarm{Severity: protocol.SeverityCritical, Kind: "step_panicked", Subject: "x"}, false) // has no end
	if left := book.Before(); len(left) != 0 {
		t.Errorf("the first life inherits %v", left)
	}
	book = open(t, path)
	note(t, book, a("run 2"), false)
	note(t, book, a("run 3"), true)
	if left := book.Before(); len(left) != 1 || left[0] != a("run 1") {
		t.Errorf("left %v, want run 1", left)
	}
	if left := open(t, path).Before(); len(left) != 2 {
		t.Errorf("after a further crash left %v, want runs 1 and 2", left)
	}
	if err := os.WriteFile(path, []byte(`[{"sev`), 0o600); err != nil {
		t.Fatal(err)
	}
	if left := open(t, path).Before(); len(left) != 0 {
		t.Errorf("of a file that was cut off: %v", left)
	}
}

func open(t *testing.T, path string) *alarm.Book {
	t.Helper()
	book, err := alarm.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return book
}

func note(t *testing.T, book *alarm.Book, a alarm.Alarm, over bool) {
	t.Helper()
	if err := book.Note(a, over); err != nil {
		t.Fatal(err)
	}
}
