package storage_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/internal/protocol"
	"muster/tests/chaos/checker"
	"muster/tests/chaos/site"
	"muster/tests/disk"
	"muster/tests/programs"
)

// inFolder runs one command of the dispatcher in a folder, under what the shell is told first.
func inFolder(t *testing.T, folder, first string, args ...string) (said string, code int) {
	t.Helper()
	script := `cd "$1" && shift && ` + first + ` exec "$0" "$@"`
	return programs.Run(t, "sh", append([]string{"-c", script, filepath.Join(bin, "dispatcher"), folder}, args...)...)
}

// names are what a folder holds.
func names(t *testing.T, folder string) (found []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		found = append(found, e.Name())
	}
	return found
}

// restoredTasks restores a file into a folder of its own and counts its runs and tasks.
func restoredTasks(t *testing.T, file string) (runs, tasks int64) {
	t.Helper()
	data := t.TempDir()
	if said, code := dispatcher(t, "restore", file, "--data", data); code != 0 {
		t.Fatal(said)
	}
	return site.Number(t, data, `SELECT count(*) FROM runs`), site.Number(t, data, `SELECT count(*) FROM tasks`)
}

// TestBackupsOfAHeadquartersThatIsAtWork: orders come, agents execute and answer, and each
// backup is whole and of its moment, wherever it is put. What cannot be backed up is
// refused with the reason and leaves nothing, and nothing that is there is touched.
func TestBackupsOfAHeadquartersThatIsAtWork(t *testing.T) {
	t.Parallel()
	stores := []string{"A", "B", "C", "D"}
	s := &stand{Site: site.New(t, bin, site.Config{Work: "sleep 0.2", Claims: site.Executed(),
		Limits: checker.Limits{MaxRunning: 20, GrantsPerSecond: 100, GrantBurst: 20}}, stores...), t: t}
	person, eye := s.Writer(site.Wang), s.Writer(site.Watch)
	s.Serve()
	for _, store := range stores {
		s.Agent(store)
	}
	ordered := 0
	order := func() (run string) {
		ordered++
		reply := s.Ask(person, protocol.VerbRun, fmt.Sprintf(`{"requestId":"load-%d","job":"probe","stores":"all","barrierSeconds":20}`, ordered))
		if !reply.OK {
			t.Fatalf("%+v", reply)
		}
		return reply.RunID
	}
	place := filepath.Join(s.Dir, "place")
	small, frozen := filepath.Join(place, "small"), filepath.Join(place, "frozen")
	if err := os.MkdirAll(frozen, 0o700); err != nil {
		t.Fatal(err)
	}
	disk.Small(t, small, 1)
	disk.Fill(t, small)
	disk.Freeze(t, frozen, true)
	t.Cleanup(func() { disk.Freeze(t, frozen, false) })
	put(t, filepath.Join(place, "taken.db"), []byte("mine"))

	last := ""
	for n, c := range []struct {
		file, first, refused string
	}{
		{file: "relative.db"},
		{file: filepath.Join(place, "absolute 备份.db")},
		{file: "taken.db", refused: "name a file that is not there"},
		{file: "none/such.db", refused: "mkdir -p none"},
		{file: "small/full.db", refused: "no room"},
		{file: "limited.db", first: "ulimit -f 32;", refused: "no room"},
		{file: "frozen/f.db", refused: "operation not permitted"},
		{file: "./after all.db"},
	} {
		last = order()
		said, code := inFolder(t, place, c.first, "backup", c.file, "--data", "../data")
		path := c.file
		if !filepath.IsAbs(path) {
			path = filepath.Join(place, path)
		}
		if c.refused != "" {
			if code != 2 || !strings.Contains(said, c.refused) {
				t.Errorf("%s: exit code %d, %s", c.file, code, said)
			}
			continue
		}
		if code != 0 || !strings.Contains(said, "complete and readable") {
			t.Errorf("%s: exit code %d, %s", c.file, code, said)
			continue
		}
		if runs, tasks := restoredTasks(t, path); runs != int64(n+1) || tasks != 4*runs {
			t.Errorf("%s holds %d runs and %d tasks, after %d orders", c.file, runs, tasks, n+1)
		}
	}
	if text, err := os.ReadFile(filepath.Join(place, "taken.db")); err != nil || string(text) != "mine" {
		t.Errorf("the file that was there: %q, %v", text, err)
	}
	for folder, want := range map[string]string{place: "[absolute 备份.db after all.db frozen relative.db small taken.db]", small: "[filler]", frozen: "[]"} {
		if got := fmt.Sprint(names(t, folder)); got != want {
			t.Errorf("%s holds %s, want %s", folder, got, want)
		}
	}
	s.Revision(last, 1)
	s.Judge(eye)
}

// TestABackupThatIsCutOffLeavesNothingThatLooksWhole: killed while it copies or reads,
// there is no file of the name; what it leaves is refused, unless it had all of it. Asked
// to end, it leaves nothing.
func TestABackupThatIsCutOffLeavesNothingThatLooksWhole(t *testing.T) {
	t.Parallel()
	s := newHeadquarters(t, 5000, 128)
	s.serve()
	for range 4 {
		s.ordered()
	}
	place := filepath.Join(s.dir, "place")
	if err := os.Mkdir(place, 0o700); err != nil {
		t.Fatal(err)
	}
	whole := filepath.Join(s.dir, "whole.db")
	if said, code := dispatcher(t, "backup", whole, "--data", s.data); code != 0 {
		t.Fatal(said)
	}
	size, copying := sizeOf(t, whole), 0
	file := filepath.Join(place, "backup.db")
	copied := func(bytes int64) func(part string, pid int) bool {
		return func(part string, _ int) bool {
			info, err := os.Stat(part)
			return err == nil && info.Size() >= bytes
		}
	}
	for n := range int64(7) {
		part := s.cutOff(file, copied(size*n/7), (*programs.Process).Kill)
		if part == "" {
			continue // it was too fast
		}
		s.wantNothingWhole(part, size)
		if sizeOf(t, part) < size {
			copying++
		}
		tidy(t, part)
	}
	if copying == 0 {
		t.Error("no backup was killed while it copied")
	}
	t.Logf("%d were killed while they copied %d bytes", copying, size)
	reading := func(_ string, pid int) bool { return readBy(pid) > size*3/2 } // all of the database, and half of the copy
	if part := s.cutOff(file, reading, (*programs.Process).Kill); part == "" {
		t.Error("no backup was killed while it read the copy")
	} else {
		s.wantNothingWhole(part, size)
		tidy(t, part)
	}
	s.cutOff(file, copied(1), (*programs.Process).Terminate)
	if got := names(t, place); len(got) > 0 && got[0] != "backup.db" {
		t.Errorf("a backup that was told to end left %v", got)
	}
	_ = os.Remove(file) // it may have been done before it was told
	if said, code := dispatcher(t, "backup", file, "--data", s.data); code != 0 {
		t.Error(said)
	}
}

// cutOff starts a backup and ends it at a moment. It returns the copy, "" when the backup
// was faster.
func (s *headquarters) cutOff(file string, at func(part string, pid int) bool, end func(*programs.Process)) (part string) {
	s.t.Helper()
	p := programs.Launch(s.t, filepath.Join(bin, "dispatcher"), "backup", file, "--data", s.data)
	part = fmt.Sprintf("%s.part-%d", file, p.PID())
	for running := true; running && !at(part, p.PID()); {
		select {
		case <-p.Done():
			running = false
		case <-time.After(200 * time.Microsecond):
		}
	}
	end(p)
	if _, err := os.Stat(part); err != nil {
		_ = os.Remove(file)
		return ""
	}
	return part
}

// readBy is how many bytes a process has read, 0 when it has ended.
func readBy(pid int) (bytes int64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err == nil {
		_, _ = fmt.Sscanf(string(text), "rchar: %d", &bytes)
	}
	return bytes
}

// wantNothingWhole wants a killed backup to have left nothing of its name, and what it
// left to be refused unless it had all of it.
func (s *headquarters) wantNothingWhole(part string, size int64) {
	s.t.Helper()
	for _, name := range names(s.t, filepath.Dir(part)) {
		if !strings.HasPrefix(name, filepath.Base(part)) {
			s.t.Errorf("a killed backup left %s", name)
		}
	}
	left, data := sizeOf(s.t, part), s.t.TempDir()
	said, code := dispatcher(s.t, "restore", part, "--data", data)
	if code == 0 && (left < size || site.Number(s.t, data, `SELECT count(*) FROM tasks`) != 20_000) {
		s.t.Errorf("%d of %d bytes were restored: %s", left, size, said)
	}
	if found := names(s.t, data); code != 0 && fmt.Sprint(found) != "[muster.db.lock]" {
		s.t.Errorf("a refused restore left %v: %s", found, said)
	}
}

// tidy removes what a killed backup left.
func tidy(t *testing.T, part string) {
	t.Helper()
	for _, path := range []string{part, part + "-journal", strings.TrimSuffix(part, filepath.Ext(part))} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBackupAndRestoreOfAStoppedHeadquarters, stopped in order or killed; and a restore
// refuses what is no good, saying why, and touches nothing.
func TestBackupAndRestoreOfAStoppedHeadquarters(t *testing.T) {
	t.Parallel()
	s := newHeadquarters(t, 100, 64)
	s.serve()
	first := s.ordered()
	s.hq.Terminate()
	file := filepath.Join(s.dir, "stopped.db")
	if said, code := dispatcher(t, "backup", file, "--data", s.data); code != 0 {
		t.Fatal(said)
	}
	s.serve()
	second := s.ordered()
	s.hq.Kill()
	killed := filepath.Join(s.dir, "killed.db")
	if said, code := dispatcher(t, "backup", killed, "--data", s.data); code != 0 {
		t.Fatal(said)
	}
	for file, want := range map[string]int64{file: 1, killed: 2} {
		if runs, _ := restoredTasks(t, file); runs != want {
			t.Errorf("%s holds %d runs, want %d", file, runs, want)
		}
	}

	content, err := os.ReadFile(killed)
	if err != nil {
		t.Fatal(err)
	}
	change := func(at int, with string) []byte {
		return append(append(bytes.Clone(content[:at]), with...), content[at+len(with):]...)
	}
	newer := binary.BigEndian.AppendUint32(nil, 99)
	before := fingerprints(t, s.data)
	for name, c := range map[string]struct {
		content []byte
		want    string
	}{
		"damaged": {change(len(content)/2, strings.Repeat("\xde\xad", 3000)), "use another backup"},
		"cut":     {content[:len(content)/2], "use another backup"},
		"empty":   {nil, "another program"},
		"text":    {[]byte(strings.Repeat("all work and no play\n", 500)), "use another backup"},
		"foreign": {change(68, "GPKG"), "another program"},
		"newer":   {change(60, string(newer)), "schema version 99"},
	} {
		path := filepath.Join(s.dir, name+".db")
		put(t, path, c.content)
		said, code := dispatcher(t, "restore", path, "--data", s.data)
		if code != 2 || !strings.Contains(said, c.want) {
			t.Errorf("%s: exit code %d, %s", name, code, said)
		}
		if after := fingerprints(t, s.data); after != before {
			t.Errorf("%s: the folder was touched:\n%s\nwas\n%s", name, after, before)
		}
	}
	s.serve()
	if !s.known(first) || !s.known(second) {
		t.Error("after the refusals something is lost")
	}
}

// fingerprints are the names and contents of a data folder's files, but for the lock,
// which says who looked last, and what is no database's.
func fingerprints(t *testing.T, folder string) string {
	t.Helper()
	var all []string
	for _, name := range names(t, folder) {
		if !strings.HasSuffix(name, ".lock") && name != "quarantine" {
			all = append(all, name+" "+hashOf(t, filepath.Join(folder, name)))
		}
	}
	return strings.Join(all, "\n")
}

// TestALogThatWasRemovedAfterAKillIsMissedAtTheStart, its index with it: what was
// committed in it is not passed over, and the backup is the way out.
func TestALogThatWasRemovedAfterAKillIsMissedAtTheStart(t *testing.T) {
	t.Parallel()
	s := newHeadquarters(t, 100, 64)
	s.serve()
	first := s.ordered()
	file := filepath.Join(s.dir, "backup.db")
	if said, code := dispatcher(t, "backup", file, "--data", s.data); code != 0 {
		t.Fatal(said)
	}
	s.hq.Terminate()
	s.serve()
	second := s.ordered()
	s.hq.Kill()
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Remove(filepath.Join(s.data, "muster.db"+suffix)); err != nil {
			t.Fatal(err)
		}
	}
	refused := programs.Launch(t, filepath.Join(bin, "dispatcher"), "serve", "--config", s.config)
	if code := refused.ExitCode(); code != 2 || !strings.Contains(refused.Output(), "muster.db-wal is gone") || !strings.Contains(refused.Output(), "dispatcher restore BACKUP") {
		t.Errorf("exit code %d: %s", code, refused.Output())
	}
	if said, code := dispatcher(t, "restore", file, "--data", s.data); code != 0 {
		t.Fatal(said)
	}
	s.serve()
	if !s.known(first) || s.known(second) {
		t.Error("what was restored is not the backup")
	}
}
