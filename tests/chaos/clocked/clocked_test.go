package clocked_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/internal/protocol"
	"muster/tests/chaos/clocked"
	"muster/tests/chaos/site"
	"muster/tests/programs"
)

// bin is the folder of the programs.
var bin string

func TestMain(m *testing.M) {
	os.Exit(programs.BuildAndRun(m, func(folder string) {
		bin = folder
		build := exec.Command("go", "build", "-o", folder+string(os.PathSeparator), "./headquarters", "./terminal")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "cannot build the programs with a clock: %v\n%s", err, out)
			os.Exit(1)
		}
	}))
}

// shop is a site whose programs have clocks that can be set.
type shop struct {
	*site.Site
	t *testing.T
}

func (s shop) set(who string, off time.Duration) {
	s.t.Helper()
	if err := clocked.Set(filepath.Join(s.Dir, who+".offset"), off); err != nil {
		s.t.Fatal(err)
	}
}

func (s shop) headquarters(off time.Duration) {
	s.t.Helper()
	s.set("hq", off)
	s.HQ = programs.Launch(s.t, filepath.Join(bin, "headquarters"), "-config", filepath.Join(s.Dir, "dispatcher.yaml"),
		"-offset-file", filepath.Join(s.Dir, "hq.offset"))
	s.HQ.AwaitOutput("headquarters is ready")
}

func (s shop) terminal(store string, off time.Duration) {
	s.t.Helper()
	s.set(store, off)
	command := s.AgentCommand(store)
	programs.Launch(s.t, filepath.Join(bin, "terminal"), append(command[1:], "-offset-file", filepath.Join(s.Dir, store+".offset"))...)
}

// health is what headquarters says of itself.
func (s shop) health() (h struct {
	At    time.Time `json:"at"`
	Clock string    `json:"clock"`
}) {
	s.t.Helper()
	command := s.Dispatcher("health", "--data", s.Data(), "--json")
	out, err := exec.CommandContext(s.t.Context(), command[0], command[1:]...).CombinedOutput()
	if err != nil || json.Unmarshal(out, &h) != nil {
		s.t.Fatalf("health: %v: %s", err, out)
	}
	return h
}

// rows are the lines of a run's newest report, by store.
func (s shop) rows(run string) map[string]protocol.StoreRow {
	s.t.Helper()
	var files []string
	_ = filepath.WalkDir(s.Reports(), func(path string, _ os.DirEntry, _ error) error {
		if strings.Contains(path, run) && strings.HasSuffix(path, ".json") && !strings.Contains(path, "manifest") {
			files = append(files, path)
		}
		return nil
	})
	if len(files) == 0 {
		s.t.Fatalf("no report of run %s", run)
	}
	text, err := os.ReadFile(files[len(files)-1])
	var report struct{ Stores []protocol.StoreRow }
	if err != nil || json.Unmarshal(text, &report) != nil {
		s.t.Fatalf("%s cannot be read: %v", files[len(files)-1], err)
	}
	rows := map[string]protocol.StoreRow{}
	for _, row := range report.Stores {
		rows[row.StoreID] = row
	}
	return rows
}

// TestBarriersHoldWhileHeadquartersClockIsSet: it is set ahead, back and to and fro
// while a run waits for a store that never comes and another one works. The barrier
// comes when it should, nothing is lost, it is told, and the new time is taken over
// when nothing hangs on the old one.
func TestBarriersHoldWhileHeadquartersClockIsSet(t *testing.T) {
	t.Parallel()
	s := shop{site.New(t, bin, site.Config{Work: "sleep 4"}, "A", "B"), t}
	person := s.Writer(site.Wang)
	s.headquarters(0)
	s.terminal("A", 0)
	const barrier = 10 * time.Second
	for i, steps := range [][]time.Duration{{time.Hour, -time.Hour, time.Hour}, {-26 * time.Hour, 26 * time.Hour, -time.Hour}} {
		begun := time.Now()
		reply := s.Ask(person, protocol.VerbRun, fmt.Sprintf(`{"requestId":"r%d","job":"probe","stores":["A","B"],"barrierSeconds":10}`, i))
		s.Executed("A", i+1)
		for _, off := range steps {
			s.set("hq", off)
			programs.Eventually(t, "headquarters telling of its clock", func() bool { return s.health().Clock != "" })
		}
		if at := s.health().At; at.After(time.Now().Add(27 * time.Hour)) {
			t.Errorf("headquarters' time is %s in the middle of a run", at)
		}
		s.Revision(reply.RunID, 1)
		if took := time.Since(begun); took < barrier-time.Second || took > barrier+10*time.Second {
			t.Errorf("steps %v: the report came after %s", steps, took)
		}
		rows := s.rows(reply.RunID)
		if a := rows["A"]; a.Outcome != "succeeded" || a.Evidence.StartedAt.Before(a.Evidence.GrantedAt.Time) || a.FinishedAt.Before(a.Evidence.StartedAt.Time) {
			t.Errorf("steps %v: A is %+v", steps, a)
		}
		programs.Eventually(t, "the new time", func() bool {
			h := s.health()
			return h.Clock == "" && time.Until(h.At.Add(-steps[len(steps)-1])).Abs() < 10*time.Second
		})
	}
	if out := s.HQ.Output(); !strings.Contains(out, "clock_stepped") || !strings.Contains(out, "the trouble is over") {
		t.Error("the steps raised no alarm that ended")
	}
}

// TestTerminalsWorkWithAnyClock: two days apart, at 1970, and set while they work,
// and over a restart of headquarters. Their clocks are told with the right sign.
func TestTerminalsWorkWithAnyClock(t *testing.T) {
	t.Parallel()
	dead := -time.Since(time.Unix(5, 0))
	clocks := map[string]time.Duration{"A": 26 * time.Hour, "B": -26 * time.Hour, "C": dead, "D": 0}
	s := shop{site.New(t, bin, site.Config{Work: "sleep 1"}, "A", "B", "C", "D"), t}
	person := s.Writer(site.Wang)
	s.headquarters(0)
	for store, off := range clocks {
		s.terminal(store, off)
	}
	for i, d := range []time.Duration{0, -26 * time.Hour} {
		clocks["D"] = d
		reply := s.Ask(person, protocol.VerbRun, fmt.Sprintf(`{"requestId":"r%d","job":"probe","stores":["A","B","C","D"],"barrierSeconds":60}`, i))
		s.Executed("D", i+1)
		s.set("D", -26*time.Hour) // in the middle of its work, the first time
		s.Revision(reply.RunID, 1)
		for store, row := range s.rows(reply.RunID) {
			skew := row.Evidence.ClockSkewMs
			if row.Outcome != "succeeded" || skew == nil {
				t.Errorf("run %d: %s is %+v", i, store, row)
				continue
			}
			if off := time.Duration(*skew)*time.Millisecond - clocks[store]; off.Abs() > 10*time.Second && (store != "D" || i > 0) {
				t.Errorf("run %d: the skew of %s is %d ms, its clock is off by %s", i, store, *skew, clocks[store])
			}
		}
		if i == 0 {
			s.HQ.Terminate()
			s.headquarters(0)
		}
	}
}
