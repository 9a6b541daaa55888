package alarm_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"muster/dispatcher/internal/alarm"
	"muster/internal/protocol"
)

// TestEveryKindHasAHint, and a sentence in Chinese: every kind that the sources name, and
// that the documentation lists.
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
		hint, hintZh := alarm.Hint(kind)
		if len(hint) < 20 || !chinese(hintZh) {
			t.Errorf("%s has the hints %q and %q", kind, hint, hintZh)
		}
		_, raised := alarm.Says(kind, "X", errors.New("why"))
		_, over := alarm.Says(kind, "X", nil)
		if before, after, _ := strings.Cut(raised, "："); before == "" || !chinese(after) || over != before+"：已恢复正常" {
			t.Errorf("%s is told as %q, and over as %q", kind, raised, over)
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

func chinese(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return unicode.Is(unicode.Han, r) })
}

// TestAnAlarmIsToldInBothLanguages, as is its end: what it is about, and the particulars
// where they have words.
func TestAnAlarmIsToldInBothLanguages(t *testing.T) {
	t.Parallel()
	worded := &alarm.Trouble{En: "it is kept in f", Zh: "留存于 f"}
	for _, c := range []struct {
		kind, subject string
		trouble       error
		en, zh        string
	}{
		{"report_not_published", "run R", errors.New("no room"), "run R: no room", "批次 R：报告无法写出"},
		{"report_not_published", "run R", nil, "run R: it is over", "批次 R：已恢复正常"},
		{"clock_stepped", "headquarters' time", nil, "headquarters' time: it is over", "总部时间：已恢复正常"},
		{"reload_refused", "configuration", errors.New("jobs"), "configuration: jobs", "新配置：有误，原配置继续有效"},
		{"client_banned", "wang as client c 1", worded, "wang as client c 1: it is kept in f", "wang（客户端 c 1）：反复连接，被代理暂时拒绝：留存于 f"},
		{"message_panicked", "/v1/enrol of 192.0.2.0/24", worded, "/v1/enrol of 192.0.2.0/24: it is kept in f", "/v1/enrol（来自 192.0.2.0/24）：总部处理它时出错，没有接收：留存于 f"},
		{"message_panicked", "the command /v1/run", errors.New("x"), "the command /v1/run: x", "命令 /v1/run：总部处理它时出错，没有接收"},
		{"message_quarantined", "muster/v1/req/wang/run", fmt.Errorf("so: %w", worded), "muster/v1/req/wang/run: so: it is kept in f", "muster/v1/req/wang/run：总部多次因这条消息退出，不再接收：留存于 f"},
		{"disk_full", "/srv/day of run 1/configuration", errors.New("full"), "/srv/day of run 1/configuration: full", "/srv/day of run 1/configuration：磁盘无法写入"},
		{"step_panicked", "the offer of task T of store S", errors.New("x"), "the offer of task T of store S: x", "总部：自身的一项工作出错，其余照常进行，具体见 message"},
	} {
		if en, zh := alarm.Says(c.kind, c.subject, c.trouble); en != c.en || zh != c.zh {
			t.Errorf("%s about %s: got\n%s\n%s\nwant\n%s\n%s", c.kind, c.subject, en, zh, c.en, c.zh)
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
