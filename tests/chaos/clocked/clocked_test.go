package clocked_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/protocol"
	"muster/internal/trust"
	"muster/tests/chaos/checker"
	"muster/tests/chaos/clocked"
	"muster/tests/chaos/clocked/enrolled"
	"muster/tests/chaos/site"
	"muster/tests/programs"
)

// bin is the folder of the programs.
var bin string

func TestMain(m *testing.M) {
	programs.SideBySide(4)
	os.Exit(programs.BuildAndRun(m, func(folder string) { bin = folder },
		programs.Programs{Packages: []string{"muster/tests/chaos/clocked/headquarters", "muster/tests/chaos/clocked/terminal"}}))
}

// shop is a site whose programs have clocks that can be set.
type shop struct {
	*site.Site
	t     *testing.T
	agent func(store string) []string // its command line
}

// plain is a shop without identities.
func plain(t *testing.T, work string, stores ...string) shop {
	s := site.New(t, bin, site.Config{Work: work}, stores...)
	return shop{s, t, s.AgentCommand}
}

// secure is a shop whose programs prove who they are, over TLS. Its runs are made up
// for longer than a clock is set back.
func secure(t *testing.T, work string, stores ...string) (shop, *enrolled.Site) {
	s := enrolled.New(t, bin, site.Config{Work: work,
		Policy: "attempts: 2, run_timeout: 30s, lease: 10s, barrier: 30s, makeup: 240h, retry_first: 100ms, retry_max: 1s"}, stores...)
	return shop{s.Site, t, s.AgentCommand}, s
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

func (s shop) terminal(store string, off time.Duration) *programs.Process {
	s.t.Helper()
	s.set(store, off)
	command := s.agent(store)
	return programs.Launch(s.t, filepath.Join(bin, "terminal"), append(command[1:], "-offset-file", filepath.Join(s.Dir, store+".offset"))...)
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

// late is how far behind its deadline a run's barrier closed, by headquarters' time.
func (s shop) late(run string) time.Duration {
	s.t.Helper()
	runs := s.Store().Runs
	i := slices.IndexFunc(runs, func(r checker.Run) bool { return r.RunID == run })
	if i < 0 || runs[i].ClosedAt == 0 {
		s.t.Fatalf("run %s is not closed: %+v", run, runs)
	}
	return time.Duration(runs[i].ClosedAt-runs[i].BarrierAt) * time.Millisecond
}

// TestBarriersHoldWhileHeadquartersClockIsSet: it is set ahead, back and to and fro
// while a run waits for a store that never comes and another one works. The barrier
// comes when it should, nothing is lost, it is told, and the new time is taken over
// when nothing hangs on the old one.
func TestBarriersHoldWhileHeadquartersClockIsSet(t *testing.T) {
	t.Parallel()
	s := plain(t, "sleep 4", "A", "B")
	person := s.Writer(site.Wang)
	s.headquarters(0)
	s.terminal("A", 0)
	const barrier, late = 10 * time.Second, 3 * time.Second // the promised second, and what a busy machine takes to write a report
	for i, steps := range [][]time.Duration{{time.Hour, -time.Hour, time.Hour}, {-26 * time.Hour, 26 * time.Hour, -time.Hour}} {
		begun := time.Now()
		reply := s.Ask(person, protocol.VerbRun, fmt.Sprintf(`{"requestId":"r%d","job":"probe","stores":["A","B"],"barrierSeconds":10}`, i))
		s.Executed("A", i+1)
		for _, off := range steps {
			s.set("hq", off)
			programs.Seldom(t, "headquarters telling of its clock", func() bool { return s.health().Clock != "" })
		}
		if at := s.health().At; at.After(time.Now().Add(27 * time.Hour)) {
			t.Errorf("headquarters' time is %s in the middle of a run", at)
		}
		s.Revision(reply.RunID, 1)
		if took := time.Since(begun); took < barrier-time.Second || took > barrier+late {
			t.Errorf("steps %v: the report came after %s", steps, took)
		}
		if off := s.late(reply.RunID); off.Abs() > time.Second {
			t.Errorf("steps %v: the barrier closed %s after its deadline", steps, off)
		}
		rows := s.rows(reply.RunID)
		if a := rows["A"]; a.Outcome != "succeeded" || a.Evidence.StartedAt.Before(a.Evidence.GrantedAt.Time) || a.FinishedAt.Before(a.Evidence.StartedAt.Time) {
			t.Errorf("steps %v: A is %+v", steps, a)
		}
		programs.Seldom(t, "the new time", func() bool {
			h := s.health()
			return h.Clock == "" && time.Until(h.At.Add(-steps[len(steps)-1])).Abs() < 10*time.Second
		})
	}
	if out := s.HQ.Output(); !strings.Contains(out, "clock_stepped") || !strings.Contains(out, "the trouble is over") {
		t.Error("the steps raised no alarm that ended")
	}
}

// TestTerminalsWorkWithAnyClock: two days apart, at 1970, and set while they work,
// and over a restart of headquarters, over TLS with certificates that end in five
// days. Their clocks are told with the right sign, and their certificates renewed.
func TestTerminalsWorkWithAnyClock(t *testing.T) {
	t.Parallel()
	const age = 85 * 24 * time.Hour
	dead := -time.Since(time.Unix(5, 0))
	clocks := map[string]time.Duration{"A": 26 * time.Hour, "B": -26 * time.Hour, "C": dead, "D": 0}
	s, id := secure(t, "sleep 1", "A", "B", "C", "D")
	s.headquarters(-age)
	for store := range clocks {
		id.Enrol(store)
		if left := time.Until(ends(t, id, store)); left > 6*24*time.Hour {
			t.Fatalf("the certificate of %s lasts for %s", store, left)
		}
	}
	s.HQ.Terminate()
	s.headquarters(0)
	for store, off := range clocks {
		s.terminal(store, off)
	}
	for i, d := range []time.Duration{0, -26 * time.Hour} {
		clocks["D"] = d
		run := id.Run("60s")
		s.Executed("D", i+1)
		s.set("D", -26*time.Hour) // in the middle of its work, the first time
		s.Revision(run, 1)
		for store, row := range s.rows(run) {
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
	for store := range clocks {
		programs.Eventually(t, "the new certificate of "+store, func() bool { return time.Until(ends(t, id, store)) > 80*24*time.Hour })
	}
}

// ends is when the certificate of a store's agent does.
func ends(t *testing.T, s *enrolled.Site, store string) time.Time {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.Identity(store), "terminal.crt"))
	if err != nil {
		t.Fatal(err)
	}
	cert, err := trust.DecodeCertificate(text)
	if err != nil {
		t.Fatal(err)
	}
	return cert.NotAfter
}

// TestATerminalYearsAheadGoesOnOnceItsClockIsSet: nothing can be believed by such a
// clock, which is said, and nobody has to start the agent again.
func TestATerminalYearsAheadGoesOnOnceItsClockIsSet(t *testing.T) {
	t.Parallel()
	s, id := secure(t, "", "A")
	s.headquarters(0)
	id.Enrol("A")
	agent := s.terminal("A", 3*365*24*time.Hour)
	agent.AwaitOutput("the terminal's certificate has ended")
	agent.AwaitOutput("this terminal's clock shows " + time.Now().AddDate(3, 0, 0).Format("2006"))
	agent.AwaitOutput("set it")
	s.set("A", 0)
	run := id.Run("30s")
	s.Revision(run, 1)
	if row := s.rows(run)["A"]; row.Outcome != "succeeded" {
		t.Errorf("A is %+v", row)
	}
}

// TestTerminalsBelieveHeadquartersWhoseClockIsSetBack to before its newest signing
// key was made, while it runs and over restarts; the key that was struck out signs
// nothing any more.
func TestTerminalsBelieveHeadquartersWhoseClockIsSetBack(t *testing.T) {
	t.Parallel()
	s, id := secure(t, "", "A")
	s.headquarters(0)
	id.Enrol("A")
	agent := s.terminal("A", 0)
	id.Rotate()
	s.works(id.Run("30s"))
	s.set("hq", -2*time.Hour)
	programs.Seldom(t, "the new time", func() bool { return time.Until(s.health().At.Add(2*time.Hour)).Abs() < 10*time.Second })
	s.works(id.Run("30s"))
	restarts := []time.Duration{-5 * time.Hour}
	if programs.Full() {
		restarts = append(restarts, -26*time.Hour)
	}
	for _, off := range restarts {
		s.HQ.Terminate()
		s.headquarters(off)
		s.works(id.Run("30s"))
	}
	if out := agent.Output(); strings.Contains(out, "expired_key") {
		t.Error("the terminal refused headquarters")
	}
}

// works wants a run at A to succeed in time.
func (s shop) works(run string) {
	s.t.Helper()
	s.Revision(run, 1)
	if row := s.rows(run)["A"]; row.Outcome != "succeeded" {
		s.t.Errorf("A is %+v", row)
	}
}
