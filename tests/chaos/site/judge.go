package site

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"muster/tests/chaos/checker"
	"muster/tests/chaos/history"
	"muster/tests/programs"
)

// Revision waits for a revision's manifest.
func (s *Site) Revision(run string, revision int) {
	s.t.Helper()
	programs.Eventually(s.t, fmt.Sprintf("revision %d of run %s", revision, run), func() bool {
		return len(programs.Manifests(s.Reports(), fmt.Sprintf("%s_r%d", run, revision))) == 1
	})
}

// Look writes down every report file as it is.
func (s *Site) Look(w *history.Writer) map[string][]byte {
	s.t.Helper()
	files, err := checker.ReadReports(os.DirFS(s.Reports()))
	if err != nil {
		s.t.Fatal(err)
	}
	for name, content := range files {
		if err := w.Looked(name, content); err != nil {
			s.t.Fatal(err)
		}
	}
	return files
}

// Store reads the database as it is, in one transaction.
func (s *Site) Store() checker.Store {
	s.t.Helper()
	db := open(s.t, s.Data())
	defer db.Close()
	tx, err := db.BeginTx(s.t.Context(), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }() // it was read only
	read, err := checker.ReadStore(func(statement string) (rows []string, err error) {
		found, err := tx.QueryContext(s.t.Context(), statement)
		if err != nil {
			return nil, err
		}
		defer found.Close()
		for found.Next() {
			var text string
			if err := found.Scan(&text); err != nil {
				return nil, err
			}
			rows = append(rows, text)
		}
		return rows, found.Err()
	}, time.Now().UnixMilli())
	if err != nil {
		s.t.Fatal(err)
	}
	return read
}

// Audit runs dispatcher audit verify.
func (s *Site) Audit() *checker.Audit {
	s.t.Helper()
	command := s.Dispatcher("audit", "verify", "--json", "--data", s.Data(), "--reports", s.Reports())
	cmd := exec.CommandContext(s.t.Context(), command[0], command[1:]...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	if len(out) == 0 && exit != nil {
		out = exit.Stderr // it could not look
	}
	return &checker.Audit{Exit: cmd.ProcessState.ExitCode(), Output: out}
}

// Settled waits until each run's barrier is closed, and since then and since the
// last fault the time has passed in which the rest must be settled or reported
// missing: before that the checker would not look for it.
func (s *Site) Settled() {
	s.t.Helper()
	s.None("the end of every barrier", `SELECT run_id FROM runs WHERE barrier_closed_at = 0`)
	last := max(Number(s.t, s.Data(), `SELECT ifnull(max(barrier_closed_at), 0) FROM runs`), s.lastFault())
	s.passed(last, s.Config.Limits.Settle)
}

// lastFault is when the last fault of the histories ended, epoch milliseconds. All
// must be over.
func (s *Site) lastFault() (at int64) {
	s.t.Helper()
	h, err := history.Read(s.History())
	if err != nil {
		s.t.Fatal(err)
	}
	begun := map[string]int{}
	for _, l := range h.Lines {
		switch {
		case l.Act != history.ActFault:
		case l.On:
			begun[l.Name]++
		default:
			begun[l.Name]--
			at = max(at, l.AtMs)
		}
	}
	for name, n := range begun {
		if n > 0 {
			s.t.Fatalf("the fault %q is not over: nothing would be judged as settled", name)
		}
	}
	return at
}

// Offered waits until the newest subscription of each store has lasted for as long as
// the judge wants one to, before it says that an offer was missing.
func (s *Site) Offered(stores ...string) {
	s.t.Helper()
	h, err := history.Read(s.History())
	if err != nil {
		s.t.Fatal(err)
	}
	var last int64
	for _, l := range h.Lines {
		if l.Act == history.ActSubscribed && slices.Contains(stores, l.Store) {
			last = l.AtMs
		}
	}
	s.passed(last, s.Config.Limits.Reoffer)
}

// passed waits until some time has passed since a moment, epoch milliseconds.
func (s *Site) passed(since int64, d time.Duration) {
	for end := time.UnixMilli(since).Add(d); time.Now().Before(end); {
		<-time.After(time.Until(end))
	}
}

// Revised waits until each run's newest revision is published and has seen every
// late answer: then no report file comes while the judge looks at them.
func (s *Site) Revised() {
	s.t.Helper()
	s.None("the revisions with all that came late", `SELECT run_id FROM runs WHERE barrier_closed_at = 0 OR NOT EXISTS (
		SELECT 1 FROM revisions AS v WHERE v.run_id = runs.run_id AND v.published_at <> 0 AND v.seen >= late_count
		AND v.revision = (SELECT max(revision) FROM revisions WHERE run_id = runs.run_id))`)
}

// always are the parts of the rules that each judged site must have something for.
var always = []string{"I2 tasks", "I4 runs", "I4 replies", "I5 at the barrier", "I5 revisions", "I5 files", "I5 looks",
	"I7 barriers", "I8 requests", "I12 reports", "retained tellings", "retained looks", "audit words"}

// Executed are those of a site whose agents executed something and answered, and more
// that the test claims.
func Executed(more ...string) []string {
	return append([]string{"I1 receipts", "I1 values", "I2 grants", "I3 marks", "I6 grants", "I6 seen to run", "I8 receipts",
		"I11 messages", "invented answers", "invented reported"}, more...)
}

// Judge waits until all is Settled, looks at what is retained and at the reports,
// and fails the test with each finding of the checker, and with each part of the rules
// that Config claims and nothing was judged of. It returns what was judged, and logs how
// much. earlier is an older copy of the database, at most one.
//
// The reports are looked at after the database: a revision that is published in
// between has files that nobody asks for.
func (s *Site) Judge(w *history.Writer, earlier ...checker.Store) checker.Evidence {
	s.t.Helper()
	e := s.evidence(w)
	claims := slices.Concat(always, s.Config.Claims)
	if len(earlier) > 0 {
		e.Earlier = &earlier[0]
		claims = append(claims, "I2 earlier", "I4 earlier")
	}
	v, err := checker.Judge(e)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range v.Findings {
		s.t.Error(f)
	}
	s.t.Logf("judged %s", v.Weights)
	for _, part := range v.Weights.Without(claims) {
		s.t.Errorf("there was nothing to judge of: %s", part)
	}
	return e
}

// evidence waits until all is Settled and gathers what is judged.
func (s *Site) evidence(w *history.Writer) checker.Evidence {
	s.t.Helper()
	s.Settled()
	s.lookRetained()
	e := checker.Evidence{Store: s.Store(), Limits: s.Config.Limits}
	e.Reports, e.Audit = s.Look(w), s.Audit()
	h, err := history.Read(s.History())
	if err != nil {
		s.t.Fatal(err)
	}
	e.History = h.Lines
	if len(h.Torn) > 0 { // no writer dies here, and a marker is one write
		s.t.Errorf("torn histories: %v", h.Torn)
	}
	return e
}
