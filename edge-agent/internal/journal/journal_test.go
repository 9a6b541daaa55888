package journal_test

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"muster/edge-agent/internal/durable"
	"muster/edge-agent/internal/journal"
)

const envHold = "MUSTER_TEST_HOLD"

// TestMain also plays another agent that holds a work folder, until its standard
// input ends. It waits for something: a program in which nothing can go on any
// more is ended by the runtime.
func TestMain(m *testing.M) {
	if folder := os.Getenv(envHold); folder != "" {
		held, err := journal.Acquire(folder, time.Now())
		fmt.Println("held", err)
		_, _ = io.Copy(io.Discard, os.Stdin)
		runtime.KeepAlive(held) // a file that nobody knows any more is closed
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func open(t testing.TB, folder string, now func() time.Time) *journal.Journal {
	t.Helper()
	j, err := journal.Open(folder, now, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func put(t testing.TB, j *journal.Journal, id string, phase journal.Phase, attempt int) {
	t.Helper()
	if err := j.Put(journal.Entry{TaskID: id, Phase: phase, Attempt: attempt, StartedAt: 5}); err != nil {
		t.Fatal(err)
	}
}

func path(folder string) string { return filepath.Join(folder, "journal.log") }

func TestLastEntryOfATaskCounts(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	now := time.UnixMilli(1_700_000_000_000)
	j := open(t, folder, func() time.Time { return now })
	if !j.Gap() {
		t.Error("no file is a gap: what was in it nobody knows")
	}
	put(t, j, "a", journal.PhaseOffered, 0)
	put(t, j, "a", journal.PhaseGranted, 1)
	put(t, j, "b", journal.PhaseReceipted, 2)
	for range 2 {
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		j = open(t, folder, time.Now)
		want := journal.Entry{TaskID: "a", Phase: journal.PhaseGranted, Attempt: 1, StartedAt: 5, At: now.UnixMilli() + 1} // the second line
		if got, ok := j.Get("a"); !ok || got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if open := j.Open(); len(open) != 1 || open[0].TaskID != "a" {
			t.Errorf("open %+v, want a alone", open)
		}
		if j.Gap() || !j.LastWrite().Equal(now.Add(2*time.Millisecond)) {
			t.Errorf("gap %t, last write %v", j.Gap(), j.LastWrite())
		}
	}
}

func TestTornTailIsDropped(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	j := open(t, folder, time.Now)
	put(t, j, "a", journal.PhaseClaimed, 0)
	whole, err := os.ReadFile(path(folder))
	if err != nil {
		t.Fatal(err)
	}
	put(t, j, "a", journal.PhaseGranted, 1)
	data, err := os.ReadFile(path(folder))
	if err != nil {
		t.Fatal(err)
	}
	for size := len(whole); size < len(data); size++ {
		if err := os.WriteFile(path(folder), data[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		j := open(t, folder, time.Now)
		if e, _ := j.Get("a"); e.Phase != journal.PhaseClaimed || j.Gap() {
			t.Fatalf("cut to %d of %d bytes: %+v, gap %t", size, len(data), e, j.Gap())
		}
	}
}

func TestDamagedLineIsSetAsideAndTheRestUsed(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	j := open(t, folder, time.Now)
	put(t, j, "a", journal.PhaseClaimed, 0)
	put(t, j, "b", journal.PhaseClaimed, 0)
	put(t, j, "c", journal.PhaseClaimed, 0)
	data, err := os.ReadFile(path(folder))
	if err != nil {
		t.Fatal(err)
	}
	damaged := strings.Replace(string(data), `"taskId":"b"`, `"taskId":"x"`, 1)
	if err := os.WriteFile(path(folder), []byte(damaged), 0o600); err != nil {
		t.Fatal(err)
	}
	j = open(t, folder, time.Now)
	if len(j.Open()) != 2 || !j.Gap() {
		t.Errorf("open %+v, gap %t", j.Open(), j.Gap())
	}
	aside, err := os.ReadFile(filepath.Join(folder, "journal.damaged"))
	if err != nil || !strings.Contains(string(aside), `"taskId":"x"`) {
		t.Errorf("set aside: %q, %v", aside, err)
	}
	if j = open(t, folder, time.Now); j.Gap() {
		t.Error("the gap is reported for ever")
	}
}

func TestAnyDamageLeavesAUsableJournal(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	j := open(t, folder, time.Now)
	for i := range 5 {
		put(t, j, fmt.Sprint("t", i), journal.PhaseFinished, 1)
	}
	whole, err := os.ReadFile(path(folder))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		data := append([]byte(nil), whole[:rapid.IntRange(0, len(whole)).Draw(rt, "size")]...)
		for range rapid.IntRange(0, 5).Draw(rt, "flips") {
			if len(data) > 0 {
				data[rapid.IntRange(0, len(data)-1).Draw(rt, "at")] = rapid.Byte().Draw(rt, "byte")
			}
		}
		if err := os.WriteFile(path(folder), data, 0o600); err != nil {
			rt.Fatal(err)
		}
		j, err := journal.Open(folder, time.Now, slog.New(slog.DiscardHandler))
		if err != nil {
			if strings.HasPrefix(string(data), "muster-journal ") && strings.Contains(err.Error(), "newer agent") {
				return // the version itself was hit
			}
			rt.Fatal(err)
		}
		for _, e := range j.Open() {
			if e.Phase != journal.PhaseFinished || e.Attempt != 1 {
				rt.Fatalf("made up %+v", e)
			}
		}
		if err := errors.Join(j.Put(journal.Entry{TaskID: "new", Phase: journal.PhaseOffered}), j.Close()); err != nil {
			rt.Fatal(err)
		}
	})
}

func TestNewerFormatIsRefused(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := os.WriteFile(path(folder), []byte("muster-journal 2\nwhatever\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := journal.Open(folder, time.Now, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "newer agent") {
		t.Errorf("got %v", err)
	}
}

func TestMemoryOfWhatIsOverIsBounded(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	now := time.Now()
	j := open(t, folder, func() time.Time { return now })
	put(t, j, "open", journal.PhaseFinished, 1)
	put(t, j, "ancient", journal.PhaseReceipted, 1)
	now = now.Add(41 * 24 * time.Hour)
	for i := range 12_000 {
		now = now.Add(time.Millisecond)
		if err := j.Note(journal.Entry{TaskID: fmt.Sprint("t", i), Phase: journal.PhaseReceipted, Attempt: 1}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(j *journal.Journal) {
		t.Helper()
		for id, want := range map[string]bool{"open": true, "ancient": false, "t0": false, "t11999": true, "t3000": true} {
			if _, got := j.Get(id); got != want {
				t.Errorf("%s is remembered: %t, want %t", id, got, want)
			}
		}
	}
	check(j)
	check(open(t, folder, func() time.Time { return now }))
}

// TestAClockThatIsSetMakesNothingForgotten: what a task's fence says is remembered
// in the order of the lines, whether they were written in 1970 or years ahead.
func TestAClockThatIsSetMakesNothingForgotten(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	right := time.Date(2026, 9, 17, 12, 0, 0, 0, time.UTC)
	now := right
	clock := func() time.Time { return now }
	j := open(t, folder, clock)
	end := func(from, to int) {
		for i := from; i < to; i++ {
			if err := j.Note(journal.Entry{TaskID: fmt.Sprint("t", i), Phase: journal.PhaseReceipted, Attempt: 1}); err != nil {
				t.Fatal(err)
			}
		}
	}
	end(0, 1000)
	now = right.Add(30 * 365 * 24 * time.Hour)
	end(1000, 2000)
	now = time.Unix(5, 0)
	end(2000, 12_000)
	check := func() {
		t.Helper()
		for id, want := range map[string]bool{"t500": false, "t2500": true, "t11999": true} {
			if _, got := j.Get(id); got != want {
				t.Errorf("at %s: %s is remembered: %t, want %t", now, id, got, want)
			}
		}
	}
	check()
	for _, now = range []time.Time{time.Unix(5, 0), right, right.Add(90 * 365 * 24 * time.Hour)} {
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		j = open(t, folder, clock)
		check()
	}
}

func TestCompactionKeepsTheFileSmall(t *testing.T) {
	t.Parallel()
	for _, exclusive := range []bool{false, true} {
		folder := t.TempDir()
		j := open(t, folder, time.Now)
		if exclusive {
			j.Exclusive()
		}
		for i := range 30_000 {
			if err := j.Note(journal.Entry{TaskID: "a", Phase: journal.PhaseGranted, Attempt: i}); err != nil {
				t.Fatal(err)
			}
		}
		info, err := os.Stat(path(folder))
		if err != nil || info.Size() > 1<<20+1000 {
			t.Errorf("the file has %d bytes, %v", info.Size(), err)
		}
		if e, _ := open(t, folder, time.Now).Get("a"); e.Attempt != 29_999 {
			t.Errorf("got %+v", e)
		}
	}
}

// TestACompactionThatFailsLosesNothing, also where the file was closed for it.
func TestACompactionThatFailsLosesNothing(t *testing.T) {
	t.Parallel()
	for _, exclusive := range []bool{false, true} {
		folder := t.TempDir()
		j := open(t, folder, time.Now)
		if exclusive {
			j.Exclusive()
		}
		inTheWay := path(folder) + durable.TempSuffix
		if err := os.MkdirAll(filepath.Join(inTheWay, "full"), 0o700); err != nil {
			t.Fatal(err)
		}
		for i := range 15_000 { // more than 1 MiB
			if err := j.Note(journal.Entry{TaskID: fmt.Sprint("t", i), Phase: journal.PhaseGranted, Attempt: 1}); err != nil {
				t.Fatal(err)
			}
		}
		put(t, j, "last", journal.PhaseGranted, 1)
		if err := os.RemoveAll(inTheWay); err != nil {
			t.Fatal(err)
		}
		if found := open(t, folder, time.Now).Open(); len(found) != 15_001 {
			t.Errorf("exclusive %t: %d entries", exclusive, len(found))
		}
	}
}

// TestAJournalThatIsGoneIsWrittenAnew: what is put is not put into a file that is at
// no place any more.
func TestAJournalThatIsGoneIsWrittenAnew(t *testing.T) { // I3
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("nobody can take it away there while it is open")
	}
	for name, lose := range map[string]func(folder string) error{
		"removed":        func(folder string) error { return os.Remove(path(folder)) },
		"the folder too": os.RemoveAll,
		"replaced":       func(folder string) error { return durable.WriteFile(path(folder), []byte("muster-journal 1\n")) },
	} {
		folder := filepath.Join(t.TempDir(), "work")
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		j := open(t, folder, time.Now)
		put(t, j, "before", journal.PhaseGranted, 1)
		if err := lose(folder); err != nil {
			t.Fatal(err)
		}
		put(t, j, "after", journal.PhaseGranted, 1)
		if found := open(t, folder, time.Now).Open(); len(found) != 2 {
			t.Errorf("%s: found %+v", name, found)
		}
	}
}

func TestSecondAgentIsRefusedAndToldWhoHoldsTheFolder(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), envHold+"="+folder)
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	n, err := out.Read(buf)
	if err != nil || !strings.HasPrefix(string(buf[:n]), "held <nil>") {
		t.Fatalf("the other agent said %q, %v", buf[:n], err)
	}
	_, err = journal.Acquire(folder, time.Now())
	if !errors.Is(err, journal.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("pid %d on ", other.Process.Pid)) {
		t.Errorf("got %v", err)
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait() // it was killed
	lock, err := journal.Acquire(folder, time.Now())
	if err != nil {
		t.Fatalf("after a kill -9 of the holder: %v", err)
	}
	if err := errors.Join(lock.Release(), lock.Release()); err != nil {
		t.Error(err)
	}
}

// TestAnEmptiedFolderHasOneAgent: whose lock is removed takes it again, and does nothing
// more there once somebody else was first.
func TestAnEmptiedFolderHasOneAgent(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("nobody removes an open file there")
	}
	folder := t.TempDir()
	first, err := journal.Acquire(folder, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	empty := func() {
		t.Helper()
		if err := errors.Join(os.Remove(filepath.Join(folder, "agent.lock")), os.Remove(filepath.Join(folder, "agent.holder"))); err != nil {
			t.Fatal(err)
		}
	}
	empty()
	if err := first.Here(time.Now()); err != nil {
		t.Errorf("an emptied folder: %v", err)
	}
	if other, err := journal.Acquire(folder, time.Now()); !errors.Is(err, journal.ErrLocked) {
		t.Fatalf("a second agent beside it: %v, %v", other, err)
	}
	if err := errors.Join(os.Remove(filepath.Join(folder, "agent.lock")), os.WriteFile(filepath.Join(folder, "agent.lock"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := first.Here(time.Now()); err != nil {
		t.Errorf("a lock that was replaced, and that nobody has: %v", err)
	}
	if other, err := journal.Acquire(folder, time.Now()); !errors.Is(err, journal.ErrLocked) {
		t.Fatalf("a second agent beside that: %v, %v", other, err)
	}
	empty()
	second, err := journal.Acquire(folder, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := first.Here(time.Now()); !errors.Is(err, journal.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("another agent, pid %d on ", os.Getpid())) {
			t.Errorf("a second one was first: %v", err)
		}
		if err := second.Release(); err != nil { // and has worked there
			t.Fatal(err)
		}
	}
	if err := first.Release(); err != nil {
		t.Error(err)
	}
}

func TestTheFloorOutlivesEverythingThatIsForgotten(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	now := time.UnixMilli(1_700_000_000_000)
	j := open(t, folder, func() time.Time { return now })
	if seq, proven := j.Floor(); seq != 0 || !proven.IsZero() {
		t.Errorf("an empty journal has the floor %d, %v", seq, proven)
	}
	proven := time.UnixMilli(1_700_000_009_000)
	err := j.Put(journal.Entry{TaskID: "a", Phase: journal.PhaseGranted, Attempt: 1, Seq: 70, ProvenAt: proven.UnixMilli()})
	if err != nil {
		t.Fatal(err)
	}
	put(t, j, "a", journal.PhaseReceipted, 1) // the line with the numbers is no longer the task's last
	now = now.Add(100 * 24 * time.Hour)
	for range 3 {
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		j = open(t, folder, func() time.Time { return now })
		if seq, at := j.Floor(); seq != 70 || !at.Equal(proven) {
			t.Errorf("the floor is %d, %v", seq, at)
		}
	}
}

// TestAJournalOfAnEarlierAgentLoads: from before signatures, with a process that ran.
func TestAJournalOfAnEarlierAgentLoads(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	doc := `{"taskId":"a","phase":"started","attempt":1,"startedAt":5,"pid":7,"at":1700000000000}`
	line := fmt.Sprintf("muster-journal 1\n%08x %s\n", crc32.Checksum([]byte(doc), crc32.MakeTable(crc32.Castagnoli)), doc)
	if err := os.WriteFile(path(folder), []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	j := open(t, folder, time.Now)
	e, ok := j.Get("a")
	if seq, _ := j.Floor(); !ok || e.Attempt != 1 || e.Phase != journal.PhaseStarted || e.OfferSHA256 != "" || seq != 0 || j.Gap() {
		t.Errorf("got %+v, floor %d, gap %t", e, seq, j.Gap())
	}
}

// TestAnEmptiedJournalIsAGap: what was in it nobody knows.
func TestAnEmptiedJournalIsAGap(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"empty": "", "zeroes": "\x00\x00\x00\x00", "another file": "hello\n", "half a header": "muster-jour"} {
		folder := t.TempDir()
		if err := os.WriteFile(path(folder), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if j := open(t, folder, time.Now); !j.Gap() || len(j.Open()) != 0 {
			t.Errorf("%s: gap %t, open %+v", name, j.Gap(), j.Open())
		}
	}
}
