package journal_test

import (
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"muster/edge-agent/internal/journal"
)

// life is what an agent journals of a task, in order; the second attempt is claimed
// behind the first.
var life = []journal.Entry{
	{Phase: journal.PhaseOffered},
	{Phase: journal.PhaseClaimed, Instance: "first"},
	{Phase: journal.PhaseGranted, Attempt: 1},
	{Phase: journal.PhaseFinished, Attempt: 1},
	{Phase: journal.PhaseReceipted, Attempt: 1},
	{Phase: journal.PhaseClaimed, Attempt: 1, Instance: "first"},
	{Phase: journal.PhaseGranted, Attempt: 2},
	{Phase: journal.PhaseFinished, Attempt: 2},
}

// lines are those of a journal, without the header.
func lines(t testing.TB, folder string) []string {
	t.Helper()
	data, err := os.ReadFile(path(folder))
	if err != nil {
		t.Fatal(err)
	}
	return strings.SplitAfter(strings.TrimSuffix(string(data), "\n"), "\n")[1:]
}

func rewritten(t testing.TB, folder string, lines []string) {
	t.Helper()
	text := "muster-journal 1\n"
	for _, line := range lines {
		text += strings.TrimSuffix(line, "\n") + "\n"
	}
	if err := os.WriteFile(path(folder), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestNoLostOrMovedLineMakesAClaimOfAStart, whatever lines a disk loses, doubles and
// puts elsewhere; only a journal that lacks nothing but its end reads as what it was.
// It stays so when the agent is killed right after it has opened it.
func TestNoLostOrMovedLineMakesAClaimOfAStart(t *testing.T) { // I3
	t.Parallel()
	folder := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		if err := os.RemoveAll(path(folder)); err != nil {
			rt.Fatal(err)
		}
		j := open(t, folder, time.Now)
		at, done := map[string]int{}, map[string]journal.Entry{}
		for range rapid.IntRange(1, 20).Draw(rt, "puts") {
			id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "task")
			if at[id] == len(life) {
				continue
			}
			e := life[at[id]]
			e.TaskID = id
			if err := j.Put(e); err != nil {
				rt.Fatal(err)
			}
			at[id]++
			done[id] = e
			if rapid.IntRange(0, 9).Draw(rt, "again") == 0 { // written anew, as at a start
				_ = j.Close()
				j = open(t, folder, time.Now)
			}
		}
		_ = j.Close()
		whole := lines(t, folder)
		picked := rapid.SliceOfN(rapid.IntRange(0, len(whole)-1), 0, len(whole)+1).Draw(rt, "lines")
		var left []string
		for _, n := range picked {
			left = append(left, whole[n])
		}
		if len(left) <= len(whole) && slices.Equal(left, whole[:len(left)]) {
			return
		}
		rewritten(t, folder, left)
		for range 2 {
			j = open(t, folder, time.Now)
			for _, e := range j.Open() {
				if e.Phase == journal.PhaseClaimed {
					rt.Fatalf("lines %v: %+v reads as a claim, written was %+v", picked, e, done[e.TaskID])
				}
			}
			_ = j.Close()
		}
	})
}

// TestTheFurthestLineOfATaskCounts, in the journals of earlier agents too, which
// numbered no line and wrote the file anew in no order.
func TestTheFurthestLineOfATaskCounts(t *testing.T) { // I3
	t.Parallel()
	old := func(id string, phase journal.Phase, attempt int, at int64) string {
		doc := fmt.Sprintf(`{"taskId":%q,"phase":%q,"attempt":%d,"at":%d,"instance":"first"}`, id, phase, attempt, at)
		return fmt.Sprintf("%08x %s", crc32.Checksum([]byte(doc), crc32.MakeTable(crc32.Castagnoli)), doc)
	}
	folder := t.TempDir()
	claimed, granted, other := old("a", journal.PhaseClaimed, 0, 5), old("a", journal.PhaseGranted, 1, 7), old("b", journal.PhaseClaimed, 0, 3)
	for _, c := range []struct {
		lines []string
		a, b  journal.Phase
		gap   bool
	}{
		{[]string{claimed, other, granted}, journal.PhaseGranted, journal.PhaseClaimed, false},
		{[]string{granted, other, claimed}, journal.PhaseGranted, journal.PhaseOffered, true},
		{[]string{claimed, other, claimed, granted}, journal.PhaseGranted, journal.PhaseOffered, true},
	} {
		rewritten(t, folder, c.lines)
		j := open(t, folder, time.Now)
		a, _ := j.Get("a")
		b, _ := j.Get("b")
		if a.Phase != c.a || b.Phase != c.b || j.Gap() != c.gap {
			t.Errorf("%v: got %+v, %+v, gap %t", c.lines, a, b, j.Gap())
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if again := open(t, folder, time.Now); again.Gap() {
			t.Error("what was written anew has a gap")
		}
	}
}

// TestAMovedLineLowersNoFloor: what another line of the task outdoes tells of
// headquarters all the same.
func TestAMovedLineLowersNoFloor(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	j := open(t, folder, time.Now)
	put(t, j, "a", journal.PhaseGranted, 2)
	if err := j.Put(journal.Entry{TaskID: "a", Phase: journal.PhaseOffered, Attempt: 1, Seq: 9, ProvenAt: 4}); err != nil {
		t.Fatal(err)
	}
	last := j.LastWrite()
	again := open(t, folder, time.Now)
	e, _ := again.Get("a")
	if seq, proven := again.Floor(); e.Attempt != 2 || seq != 9 || proven.UnixMilli() != 4 || !again.LastWrite().Equal(last) {
		t.Errorf("got %+v, floor %d, %v, last write %v", e, seq, proven, again.LastWrite())
	}
}
